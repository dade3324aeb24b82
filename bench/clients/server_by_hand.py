"""A client by hand for Kimi Code's server: aiohttp for its calls and its WebSocket, and orjson."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable
from typing import Any

import aiohttp
import orjson
from measure import Measure

SECRET = "bench-secret"


class Server:
    def __init__(self, process: asyncio.subprocess.Process, http: aiohttp.ClientSession, url: str) -> None:
        self.process, self.http, self.url = process, http, url
        self.socket: aiohttp.ClientWebSocketResponse | None = None
        self.prompts = 0

    @classmethod
    async def start(cls, path: str) -> Server:
        env = {**os.environ, "KIMI_CODE_PASSWORD": SECRET}
        argv = (path, "web", "--no-open", "--port", "0")
        process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, env=env)
        if process.stdout is None:
            raise RuntimeError("no pipe")
        while found := await process.stdout.readline():
            if port := re.search(rb"http://127\.0\.0\.1:(\d+)", found):
                break
        else:
            raise EOFError("the server has gone")
        http = aiohttp.ClientSession(headers={"Authorization": f"Bearer {SECRET}"})
        server = cls(process, http, f"http://127.0.0.1:{int(port[1])}/api/v1")
        server.socket = await http.ws_connect(f"{server.url}/ws", max_msg_size=0)
        await server.frame()
        return server

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": "application/json"}
        async with self.http.request(method, self.url + path, data=data, headers=headers) as response:
            answer = orjson.loads(await response.read())
        if answer["code"]:
            raise RuntimeError(answer["msg"])
        return answer["data"]

    async def frame(self) -> dict[str, Any]:
        """Returns the next frame that is not a ping."""
        assert self.socket is not None
        while True:
            frame: dict[str, Any] = orjson.loads((await self.socket.receive()).data)
            if frame["type"] != "ping":
                return frame
            await self.socket.send_json({"type": "pong", "payload": {"nonce": frame["payload"]["nonce"]}})

    async def session(self) -> str:
        session = str((await self.call("POST", "/sessions", {"metadata": {"cwd": os.getcwd()}}))["id"])
        model = (await self.call("GET", "/config"))["default_model"]
        config = {"agent_config": {"model": model, "permission_mode": "manual"}}
        await self.call("POST", f"/sessions/{session}/profile", config)
        assert self.socket is not None
        await self.socket.send_json({"type": "subscribe", "id": session, "payload": {"session_ids": [session]}})
        while (await self.frame())["type"] != "ack":
            pass
        return session

    async def turn(self, session: str, event: Callable[[], None]) -> None:
        self.prompts += 1
        prompt = f"prompt_{self.prompts}"
        body = {"prompt_id": prompt, "content": [{"type": "text", "text": "go"}]}
        await self.call("POST", f"/sessions/{session}/prompts", body)
        while True:
            frame = await self.frame()
            kind, payload = frame["type"], frame["payload"]
            event()
            if kind == "prompt.completed" and payload["promptId"] == prompt:
                return
            if kind == "event.approval.requested":
                path = f"/sessions/{session}/approvals/{payload['approval_id']}"
                await self.call("POST", path, {"decision": "approved"})

    async def end(self) -> None:
        assert self.socket is not None
        await self.socket.close()
        await self.http.close()
        self.process.terminate()
        await self.process.wait()


async def main(path: str) -> None:
    server = await Server.start(path)
    if os.environ["BENCH_TASK"] == "server sessions":
        measure, count = Measure(), int(os.environ["BENCH_SESSIONS"])
        for _ in range(count):
            await server.turn(await server.session(), lambda: None)
        measure.end(sessions=count)
    else:
        session = await server.session()
        measure = Measure()
        events = 0

        def count_event() -> None:
            nonlocal events
            if not events:
                measure.first()
            events += 1

        await server.turn(session, count_event)
        measure.end(events)
    await server.end()


asyncio.run(main(sys.argv[1]))
