"""Recordings: the files, what is in them, and what is not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE, open_session, program

from kimi_agent import ExternalTool, InvalidOption, create_session, open_agent, sync
from kimi_agent.testing import replayed_agent, scripted_agent

Entry = dict[str, Any]


def entries(path: str | os.PathLike[str]) -> list[Entry]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def types(path: Path) -> list[str]:
    return [entry["type"] for entry in entries(path) if entry["type"] != "message"]


async def test_session_is_recorded(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    call = {"name": "Shell", "arguments": {}, "approve": True, "result": "x"}
    script = [{"tool_call": call}, {"text": "Hello!"}]
    async with open_session(script, record=file, on_approval=lambda request: "approve") as session:
        await session.prompt("hi")
    assert types(file) == ["header", "opened", "call", "decision", "turn", "call", "end"]
    header, *others = entries(file)
    assert header["sdk"]["language"] == "python"
    decision = next(entry for entry in others if entry["type"] == "decision")
    assert (decision["by"], decision["answer"]) == ("handler", {"response": "approve"})


def test_blocking_session_is_recorded(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    with sync.create_session(executable=scripted_agent([[{"text": "Hello!"}]]), record=str(file)) as session:
        session.prompt("hi").result()
    assert types(file)[-1] == "end"


async def test_each_session_of_agent_has_file(tmp_path: Path) -> None:
    executable = scripted_agent({"release": "2.1.0", "turns": [[{"text": "Hello!"}]]})
    async with open_agent(executable=executable, record=f"{tmp_path}/runs/") as agent:
        sessions = [await agent.create_session(), await agent.create_session()]
        for session in sessions:
            await session.prompt("hi")
    files = list((tmp_path / "runs").iterdir())
    assert len(files) == 2
    for file in files:
        assert types(file)[-1] == "end"
        messages = [entry["message"] for entry in entries(file) if entry["type"] == "message"]
        assert [message.get("method") for message in messages[:3]] == ["initialize", None, "session/new"]
        assert messages[0]["id"] == messages[1]["id"]


async def test_variable_names_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_AGENT_RECORD", f"{tmp_path}/")
    async with open_session([{"text": "Hello!"}]):
        pass
    assert len(list(tmp_path.glob("*.jsonl"))) == 1


RECORDINGS = Path(__file__).parents[2] / "tests" / "recordings"
# All languages use the list.
CANARIES = json.loads((RECORDINGS / "canaries.json").read_text())
ECHO = [[{"text": "{{prompt}}"}]]


@pytest.mark.parametrize(
    ("script", "groups", "options"),
    [
        (ECHO, ["config", "mcp_configs", "mcp_urls"], {}),
        ({"release": "2.1.0", "turns": ECHO}, ["mcp_configs"], {}),
        ({"release": "2.1.0", "turns": ECHO}, [], {"dialect": "kimi-web"}),
    ],
    ids=["wire", "acp", "kimi-web"],
)
async def test_secrets_are_masked(tmp_path: Path, script: Any, groups: list[str], options: dict[str, Any]) -> None:
    file = tmp_path / "run.jsonl"
    options = {
        "executable": scripted_agent(script),
        "work_dir": tmp_path,
        "record": file,
        "env": CANARIES["env"]["value"],
        "redact": CANARIES["redact"]["value"],
        **({"config": CANARIES["config"]["value"]} if "config" in groups else {}),
        **options,
    }
    servers = [server for name in groups if name.startswith("mcp_") for server in CANARIES[name]["value"]]
    if servers:
        options["mcp_configs"] = servers
    secrets = [text for name in ["env", "redact", "keys", *groups] for text in CANARIES[name]["texts"]]
    slug = re.sub("[^A-Za-z0-9]", "-", str(tmp_path))
    secrets += [str(tmp_path), slug, str(Path.home() / "canary"), str(Path(tempfile.gettempdir()) / "canary")]
    async with await create_session(**options) as session:
        result = await session.prompt(" ".join(secrets))
    # The program gets what the agent said.
    assert result.text == " ".join(secrets)
    text = file.read_text()
    assert "***" in text
    for secret in secrets:
        # In JSON, backslashes of Windows are escaped.
        assert json.dumps(secret, ensure_ascii=False)[1:-1] not in text


async def test_token_of_tools_is_masked(tmp_path: Path) -> None:
    add = ExternalTool("add", "Adds", {"type": "object"}, lambda numbers: str(numbers["a"] + numbers["b"]))
    played, file = tmp_path / "played.jsonl", tmp_path / "run.jsonl"
    # An agent that takes tools over HTTP.
    played.write_text((RECORDINGS / "acp.jsonl").read_text().replace('"http":false', '"http":true'))
    async with await create_session(executable=replayed_agent(played), record=file, tools=[add]):
        pass
    text = file.read_text()
    assert '"Authorization","value":"***"' in text
    assert not re.search("[0-9a-f]{64}", text)


async def test_wrong_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="`record`: can't write"):
        await open_session([], record=tmp_path / "no" / "such" / "run.jsonl")
    with pytest.raises(InvalidOption, match=r"`redact`: redact\[1\]: .* is not a regular expression"):
        await open_session([], record=tmp_path / "run.jsonl", redact=["a", "("])


PROGRAM = """
import asyncio, os, pathlib, signal, sys, time
import kimi_agent
from kimi_agent.testing import scripted_agent

async def main():
    executable = scripted_agent([[{"text": "Hello!"}], [{"text": "on"}, {"wait_cancel": True}]])
    session = await kimi_agent.create_session(executable=executable, record=sys.argv[1])
    await session.prompt("one")
    async for _ in session.prompt("two"):
        # The end of a turn wakes the thread that writes.
        deadline = time.monotonic() + 60
        while '"type":"turn"' not in pathlib.Path(sys.argv[1]).read_text() and time.monotonic() < deadline:
            pass
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed_program_keeps_finished_turns(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    killed = subprocess.run([sys.executable, "-c", PROGRAM, file], check=False, env=env)
    assert killed.returncode == -9
    assert types(file)[:4] == ["header", "opened", "call", "turn"]


STREAMING = """
import asyncio, sys
import kimi_agent
from kimi_agent.testing import scripted_agent

async def main():
    script = [{"text": "first"}, {"text": "last"}, {"wait_cancel": True}]
    session = await kimi_agent.create_session(executable=scripted_agent([script]), record=sys.argv[1])
    async for _ in session.prompt("go"):
        pass

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed_program_keeps_entries_of_running_turn(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    program = subprocess.Popen([sys.executable, "-c", STREAMING, file], env=env)
    deadline = time.monotonic() + 60
    while not (file.exists() and '"last"' in file.read_text()):
        assert time.monotonic() < deadline, "the file never has the last message"
        assert program.poll() is None
    program.kill()
    program.wait()
    lines = [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    messages = [json.loads(line).get("message", {}) for line in lines]
    texts = [message["params"]["payload"].get("text") for message in messages if message.get("method") == "event"]
    assert [text for text in texts if text] == ["first", "last"]


FULL_DISK = """
import logging

class Kept(logging.Handler):
    def emit(self, record):
        texts.append(record.getMessage())

def warnings():
    return [text for text in texts if "the recording ends here" in text]

async def main():
    agent = scripted_agent([[{"text": "one"}], [{"text": "two"}]])
    async with kimi_agent.create_session(executable=agent, record="/dev/full") as session:
        for _ in range(2):
            print((await session.prompt("go")).text)
            while not warnings():
                await asyncio.sleep(0.005)

texts = []
logging.getLogger("kimi_agent").addHandler(Kept())
asyncio.run(main())
print(len(warnings()))
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk")
def test_full_disk_warns_once(tmp_path: Path) -> None:
    # In a process of its own: the record comes from the thread of the writer, and any loop of a process may get it.
    out, err = program(FULL_DISK, tmp_path).communicate(timeout=DEADLINE)
    assert out.split() == ["one", "two", "1"], err
