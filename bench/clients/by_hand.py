"""What one would write by hand with asyncio: `json`, a line at a time; `orjson`, all lines of a read at a time, which
is the cheapest that we found; `pydantic`, a line at a time, decoded by orjson and typed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from measure import Measure

if sys.argv[1] != "json":
    import orjson
if sys.argv[1] == "pydantic":
    from models import EVENT

# asyncio's own is 64 KiB, which a large line breaks.
LIMIT = 1 << 28
CHUNK = 1 << 18
ACP = os.environ["BENCH_TASK"] == "acp"
Message = dict[str, Any]


def answer(request: Message) -> Message:
    params = request["params"]
    payload = params["payload"]
    if params["type"] == "ApprovalRequest":
        result = {"request_id": payload["id"], "response": "approve"}
    else:
        result = {
            "tool_call_id": payload["id"],
            "return_value": {"is_error": False, "output": "12", "message": "", "display": []},
        }
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


class Agent:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("no pipes")
        self.process, self.input, self.output = process, process.stdin, process.stdout

    @classmethod
    async def start(cls, path: str) -> Agent:
        pipe = asyncio.subprocess.PIPE
        argument = "acp" if ACP else "--wire"
        agent = cls(await asyncio.create_subprocess_exec(path, argument, stdin=pipe, stdout=pipe, limit=LIMIT))
        if ACP:
            await agent.call("initialize", protocolVersion=1, clientCapabilities={})
            await agent.output.readline()
            await agent.call("session/new", cwd=os.getcwd(), mcpServers=[])
        else:
            await agent.call("initialize", protocol_version="1.10")
        await agent.output.readline()
        return agent

    async def prompt(self) -> None:
        if ACP:
            await self.call("session/prompt", sessionId="session-1", prompt=[{"type": "text", "text": "go"}])
        else:
            await self.call("prompt", user_input="go")

    async def send(self, message: Message) -> None:
        self.input.write(json.dumps(message).encode() + b"\n")
        await self.input.drain()

    async def call(self, method: str, **params: Any) -> None:
        await self.send({"jsonrpc": "2.0", "id": method, "method": method, "params": params})

    async def close(self) -> None:
        self.input.close()
        await self.process.wait()


async def with_json(agent: Agent, measure: Measure) -> int:
    events = 0
    while line := await agent.output.readline():
        message = json.loads(line)
        if "result" in message:
            return events
        if not events:
            measure.first()
        events += 1
        if message["method"] == "request":
            await agent.send(answer(message))
    raise EOFError("the agent has gone")


async def with_orjson(agent: Agent, measure: Measure) -> int:
    loads = orjson.loads
    events = 0
    pieces: list[bytes] = []
    while chunk := await agent.output.read(CHUNK):
        pieces.append(chunk)
        if b"\n" not in chunk:
            continue
        *lines, rest = b"".join(pieces).split(b"\n")
        pieces = [rest]
        for line in lines:
            message = loads(line)
            if "result" in message:
                return events
            if not events:
                measure.first()
            events += 1
            if message["method"] == "request":
                await agent.send(answer(message))
    raise EOFError("the agent has gone")


async def with_pydantic(agent: Agent, measure: Measure) -> int:
    validate = EVENT.validate_python
    events = 0
    while line := await agent.output.readline():
        message = orjson.loads(line)
        if "result" in message:
            return events
        if not events:
            measure.first()
        events += 1
        if message["method"] == "request":
            await agent.send(answer(message))
            continue
        params = message["params"]
        validate({**params["payload"], "kind": params["type"]})
    raise EOFError("the agent has gone")


READ = {"json": with_json, "orjson": with_orjson, "pydantic": with_pydantic}


async def turn(agent: Agent, style: str) -> None:
    measure = Measure()
    await agent.prompt()
    measure.end(await READ[style](agent, measure))
    await agent.close()


async def sessions(path: str, style: str, count: int) -> None:
    measure = Measure()
    opened = []
    for _ in range(count):
        agent = await Agent.start(path)
        await agent.prompt()
        await READ[style](agent, measure)
        opened.append(agent)
    measure.end(sessions=count)
    await asyncio.gather(*(agent.close() for agent in opened))


async def text_of(agent: Agent) -> str:
    """The text of a turn without requests."""
    text = ""
    while line := await agent.output.readline():
        message = json.loads(line)
        if "result" in message:
            return text
        params = message["params"]
        if params["type"] == "ContentPart" and params["payload"]["type"] == "text":
            text += params["payload"]["text"]
    raise EOFError("the agent has gone")


async def batch(path: str, count: int, concurrency: int) -> None:
    measure = Measure()
    limit = asyncio.Semaphore(concurrency)

    async def job(prompt: str) -> str:
        async with limit:
            agent = await Agent.start(path)
            await agent.call("prompt", user_input=prompt)
            text = await text_of(agent)
            await agent.close()
            return text

    texts = await asyncio.gather(*(job(f"job {number}") for number in range(count)))
    measure.end(sessions=texts.count("Hello"))


async def main(style: str, path: str) -> None:
    if os.environ["BENCH_TASK"] == "sessions":
        await sessions(path, style, int(os.environ["BENCH_SESSIONS"]))
    elif os.environ["BENCH_TASK"] == "batch":
        await batch(path, int(os.environ["BENCH_JOBS"]), int(os.environ["BENCH_CONCURRENCY"]))
    else:
        await turn(await Agent.start(path), style)


asyncio.run(main(*sys.argv[1:]))
