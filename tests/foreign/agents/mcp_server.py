"""A Model Context Protocol server with one tool, made with the protocol's own SDK, for the cases with `mcp_configs`.

    mcp_server.py stdio
    mcp_server.py http      prints its address, and ends at the end of its input
    mcp_server.py sse

It takes only clients with the key, which is in `env` or in `headers` of the configuration. After it was asked for its
tools it makes the file that the variable `LISTED` names.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.fastmcp import FastMCP

KEY = "shelf-key"


class Shelf(FastMCP):
    async def list_tools(self) -> Any:
        tools = await super().list_tools()
        Path(os.environ["LISTED"]).touch()
        return tools


server = Shelf("shelf", log_level="CRITICAL")


@server.tool(structured_output=False)
def lookup(key: str) -> str:
    """Looks up a value."""
    return f'the value of "{key}"'


def guarded(app: Any) -> Any:
    """The application, for clients with the key."""

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != f"Bearer {KEY}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return guard


async def serve(transport: str) -> None:
    app, path = (server.sse_app(), "/sse") if transport == "sse" else (server.streamable_http_app(), "/mcp")
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(guarded(app), log_level="critical", timeout_graceful_shutdown=1)
    running = uvicorn.Server(config)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)

    async def end() -> None:
        await asyncio.to_thread(sys.stdin.read)
        running.should_exit = True

    await asyncio.gather(running.serve(sockets=[listener]), end())


def main() -> None:
    transport = sys.argv[1]
    if transport != "stdio":
        asyncio.run(serve(transport))
    elif os.environ.get("SHELF_KEY") == KEY:
        server.run()
    else:
        sys.exit("the key of the configuration is not there")


if __name__ == "__main__":
    main()
