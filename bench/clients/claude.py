"""claude-agent-sdk's transport, which reads lines of JSON from a child, too. Without the queue and the types above it.

It writes what it is given, so it can speak Wire to our agent. Its limit of a line, 1 MB by default, is raised.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport
from measure import Measure


async def turn(path: str) -> None:
    transport = SubprocessCLITransport("", ClaudeAgentOptions(cli_path=path, max_buffer_size=1 << 28))
    await transport.connect()

    async def send(message: dict[str, Any]) -> None:
        await transport.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    messages = transport.read_messages()
    await send({"id": "1", "method": "initialize", "params": {"protocol_version": "1.10"}})
    await anext(messages)
    measure = Measure()
    await send({"id": "2", "method": "prompt", "params": {"user_input": "go"}})
    events = 0
    async for message in messages:
        if "result" in message:
            break
        if not events:
            measure.first()
        events += 1
        if message["method"] == "request":
            result = {"request_id": message["id"], "response": "approve"}
            await send({"id": message["id"], "result": result})
    measure.end(events)
    await transport.end_input()
    await transport.close()


asyncio.run(turn(sys.argv[1]))
