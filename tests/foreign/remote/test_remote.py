"""The Python package against the official server of ACP's TypeScript SDK, in front of the scripted agent.

KIMI_SCRIPTED_AGENT is the agent's program.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kimi_agent import AgentExited, Remote, SpawnError, TextPart, create_session, sync

AGENT = os.environ["KIMI_SCRIPTED_AGENT"]
SERVER = Path(__file__).resolve().parents[1] / "node" / "acp_server.mjs"
SCHEMES = pytest.mark.parametrize("scheme", ["ws", "http"])


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts servers in front of agents with these turns. Returns the host and port of each."""
    running: list[subprocess.Popen[str]] = []

    def start(turns: list[Any], *options: str) -> str:
        script = tmp_path / f"script-{len(running)}.json"
        state = {"session_file": str(tmp_path / "sessions.jsonl")}
        script.write_text(json.dumps({"wire": "acp", "turns": turns, **state}))
        command = ["node", str(SERVER), *options, AGENT, str(script)]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(server)
        assert server.stdout is not None
        return f"127.0.0.1:{server.stdout.readline().strip()}"

    yield start
    for server in running:
        server.communicate()


@SCHEMES
def test_session_is_continued_over_another_connection(serve: Callable[..., str], scheme: str, tmp_path: Path) -> None:
    host = serve([[{"text": "Hello"}]], "--token", "canary-token")
    headers = {"Authorization": "Bearer canary-token"}
    place = Remote(f"{scheme}://{host}/acp", headers=headers, work_dir="/srv/app")
    with sync.create_session(place=place, work_dir=tmp_path, record=tmp_path / "run.jsonl") as session:
        assert session.prompt("x").result().text == "Hello"
        assert session.pid is None
    with sync.create_session(place=place, work_dir=tmp_path, session_id=session.id) as again:
        assert again.id == session.id
        assert again.prompt("y").result().text == "Hello"
    assert "canary" not in (tmp_path / "run.jsonl").read_text()
    with pytest.raises(SpawnError, match=r"set the header `Authorization`.*with the scheme Bearer"):
        sync.create_session(place=Remote(f"{scheme}://{host}/acp"))


@SCHEMES
def test_lost_connection_is_the_end_of_the_agent(serve: Callable[..., str], scheme: str) -> None:
    host = serve([[{"text": "a"}, {"wait_cancel": True}]])
    lost = rf"^the connection to the agent at {scheme}://{host}/acp ended: "

    async def read_until_lost() -> None:
        async with create_session(place=Remote(f"{scheme}://{host}/acp")) as session:
            turn = session.prompt("x")
            async for event in turn:
                if isinstance(event, TextPart):
                    await asyncio.to_thread(reset, host)

    with pytest.raises(AgentExited, match=lost):
        asyncio.run(read_until_lost())


def reset(host: str) -> None:
    """Ends all connections of the server."""
    urllib.request.urlopen(f"http://{host}/reset").close()
