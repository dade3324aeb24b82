"""An agent that speaks ACP, and calls the program's tool `work` at each prompt.

Its answer has the last progress that the tool reported, and the tool's result. It asks for progress unless the prompt
is "quiet".
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

PROTOCOL = "2025-06-18"
# Without the proxies of the environment.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
servers: list[dict[str, Any]] = []


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def posted(message: dict[str, Any], session: str | None) -> tuple[list[dict[str, Any]], str | None]:
    """Sends a message to the server of the tools. Returns its messages, and the ID of the MCP session."""
    server = servers[0]
    headers = {header["name"]: header["value"] for header in server["headers"]}
    headers |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if session is not None:
        headers |= {"Mcp-Session-Id": session, "Mcp-Protocol-Version": PROTOCOL}
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    with DIRECT.open(urllib.request.Request(server["url"], body, headers)) as response:
        return list(messages(response)), response.headers.get("Mcp-Session-Id")


def messages(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        text = line.decode().removeprefix("data:").strip()
        if text.startswith("{"):
            yield json.loads(text)


def call_tool(quiet: bool) -> str:
    client = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
    _, session = posted({"id": 1, "method": "initialize", "params": client}, None)
    posted({"method": "notifications/initialized"}, session)
    params = {"name": "work", "arguments": {}, "_meta": {} if quiet else {"progressToken": "p"}}
    received, _ = posted({"id": 2, "method": "tools/call", "params": params}, session)
    reports = [message["params"] for message in received if message.get("method") == "notifications/progress"]
    [result] = [message["result"] for message in received if "result" in message]
    return json.dumps({"reports": reports[-1:], "result": [block["text"] for block in result["content"]]})


def answer(method: str, params: dict[str, Any]) -> Any:
    if method == "initialize":
        mcp = {"http": True, "sse": False}
        return {"protocolVersion": 1, "agentCapabilities": {"mcpCapabilities": mcp}, "authMethods": []}
    if method == "session/new":
        servers.extend(params["mcpServers"])
        return {"sessionId": "s"}
    if method == "session/prompt":
        text = call_tool(params["prompt"][0]["text"] == "quiet")
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        send({"method": "session/update", "params": {"sessionId": "s", "update": update}})
        return {"stopReason": "end_turn"}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        send({"id": message["id"], "result": answer(message["method"], message["params"])})
