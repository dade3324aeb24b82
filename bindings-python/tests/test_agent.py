"""Several sessions of one agent: over one process where it speaks ACP, over one each where it speaks Wire."""

from __future__ import annotations

import asyncio
import copy
import re
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

from kimi_agent import (
    Agent,
    AgentExited,
    AgentSessionOptions,
    InvalidOption,
    ProtocolError,
    Session,
    SessionClosed,
    SessionInfo,
    SpawnError,
    Unsupported,
    open_agent,
    sync,
)
from kimi_agent.testing import scripted_agent

# The text of a prompt decides its outcome.
_ACP = """
    import json, sys

    ABLE = {"sessionCapabilities": {"list": {}, "resume": {}, "fork": {}, "close": {}}}
    waiting, count = {}, 0

    def say(**message):
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def text(session, said):
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": said}}
        say(method="session/update", params={"sessionId": session, "update": update})

    for line in sys.stdin:
        message = json.loads(line)
        method, id, params = message.get("method"), message.get("id"), message.get("params", {})
        session = params.get("sessionId")
        if method == "initialize":
            say(id=id, result={"protocolVersion": 1, "agentCapabilities": ABLE})
        elif method in ("session/new", "session/fork"):
            count += session != "again"
            say(id=id, result={"sessionId": f"s{count}"})
        elif method == "session/list":
            known = {"sessionId": "old", "cwd": params.get("cwd", "/srv"), "title": "An old one"}
            say(id=id, result={"sessions": [known]})
        elif method == "session/prompt":
            said = params["prompt"][0]["text"]
            if said == "die":
                print("out of luck", file=sys.stderr)
                sys.exit(7)
            waiting[session] = id
            if said != "hang":
                text(session, f"I am {session}")
                say(id=id, result={"stopReason": "end_turn"})
        elif method == "session/cancel":
            say(id=waiting[session], result={"stopReason": "cancelled"})
        elif id is not None:
            say(id=id, result={})
"""


def _acp(folder: Path) -> dict[str, Any]:
    program = folder / "agent.py"
    program.write_text(textwrap.dedent(_ACP))
    return {"executable": [sys.executable, program], "dialect": "acp"}


async def _says(session: Session, text: str) -> str:
    return (await session.prompt(text).result()).text


async def test_sessions_of_agent_share_only_its_process(tmp_path: Path) -> None:
    async with open_agent(**_acp(tmp_path)) as agent:
        first, second = await asyncio.gather(_open(agent), _open(agent))
        assert first.pid == second.pid
        hanging = first.prompt("hang")
        assert [await _says(second, "who") for _ in range(3)] == [f"I am {second.id}"] * 3
        assert (first.state, second.state) == ("active", "idle")
        await hanging.cancel()
        assert await _says(first, "who") == f"I am {first.id}"
    assert (first.state, second.state) == ("closed", "closed")
    with pytest.raises(SessionClosed):
        await agent.create_session()


async def test_duplicate_session_id_rejected(tmp_path: Path) -> None:
    async with open_agent(**_acp(tmp_path)) as agent:
        first = await agent.create_session()
        hanging = first.prompt("hang")
        with pytest.raises(ProtocolError, match="id `s1`, which another session of this process has"):
            await agent.fork("again")
        # The first session was neither closed nor cancelled.
        assert first.state == "active"
        await hanging.cancel()
        assert await _says(first, "who") == "I am s1"
        async with agent.create_session() as second:
            assert await _says(second, "who") == "I am s2"


async def _open(agent: Agent) -> Session:
    return await agent.create_session()


async def test_agent_exit_fails_all_sessions(tmp_path: Path) -> None:
    lines: list[str] = []
    async with open_agent(**_acp(tmp_path), on_stderr=lines.append) as agent:
        first, second = await agent.create_session(), await agent.create_session()
        for turn in (first.prompt("hang"), second.prompt("die")):
            with pytest.raises(AgentExited) as caught:
                await turn.result()
            assert (caught.value.exit_code, caught.value.stderr.strip()) == (7, "out of luck")
        async with agent.create_session() as third:
            assert await _says(third, "who") == "I am s1"
    assert lines == ["out of luck"]


async def test_sessions_are_listed_resumed_and_forked(tmp_path: Path) -> None:
    async with open_agent(**_acp(tmp_path)) as agent:
        assert await agent.list_sessions() == [SessionInfo("old", "/srv", "An old one", None)]
        assert [session.work_dir for session in await agent.list_sessions(tmp_path)] == [str(tmp_path)]
        async with agent.resume("old") as resumed, agent.fork("old") as fork:
            assert (resumed.id, fork.id) == ("old", "s1")
            assert await _says(resumed, "who") == "I am old"


async def test_wrong_options_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidOption, match="`work_dir`: it is an option of a session; pass it to `create_session\\(\\)`"
    ):
        await open_agent(work_dir=".")  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match="`on_approval`: it is an option of a session"):
        await open_agent(on_approval=lambda request: "approve")  # type: ignore[call-arg]
    with pytest.raises(SpawnError):
        await open_agent(executable="/no/such/kimi")
    async with open_agent(**_acp(tmp_path)) as agent:
        with pytest.raises(InvalidOption, match="`env`: it is an option of the agent; pass it to `open_agent\\(\\)`"):
            await agent.create_session(env={"A": "b"})  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        with pytest.raises(InvalidOption, match="session_id"):
            await agent.resume("a", session_id="b")
        with pytest.raises(TypeError):
            copy.copy(agent)


async def test_wire_sessions_have_own_process() -> None:
    async with open_agent(executable=scripted_agent([[{"text": "You said: {{prompt}}"}]])) as agent:
        first, second = await agent.create_session(), await agent.create_session()
        assert first.pid != second.pid
        assert [await _says(first, "a"), await _says(second, "b")] == ["You said: a", "You said: b"]
        with pytest.raises(Unsupported):
            await agent.list_sessions()
        with pytest.raises(Unsupported):
            await agent.fork("a")
    assert (first.state, second.state) == ("closed", "closed")


async def test_dropped_agent_warns_after_last_session(tmp_path: Path) -> None:
    agent = await open_agent(**_acp(tmp_path))
    session = await agent.create_session()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del agent
        assert await _says(session, "who") == "I am s1"
        assert not caught
        await session.close()
        del session
    (warning,) = caught
    assert re.fullmatch(r"<Agent '.+' open pid=\d+> was never closed", str(warning.message))


def test_blocking_sessions_share_process(tmp_path: Path) -> None:
    with sync.open_agent(**_acp(tmp_path)) as agent:
        first, second = agent.create_session(), agent.create_session()
        assert first.pid == second.pid
        assert [session.prompt("who").result().text for session in (first, second)] == ["I am s1", "I am s2"]
        assert [session.id for session in agent.list_sessions()] == ["old"]
        with agent.resume("old") as resumed, agent.fork("old") as fork:
            assert (resumed.id, fork.id) == ("old", "s3")


async def test_stored_session_without_an_id_is_refused() -> None:
    script: Any = {"wire": "acp", "turns": [[{"text": "Hello"}]]}
    async with open_agent(executable=scripted_agent(script), dialect="acp") as agent:
        anything: Any = agent
        for call in ("resume", "fork", "delete_session", "archive_session", "unarchive_session"):
            for wrong in (None, "", 5):
                with pytest.raises(InvalidOption, match=rf"`{call}` needs the id of a session as text, got ") as caught:
                    await getattr(anything, call)(wrong)
                assert caught.value.option == "session_id"
        with pytest.raises(InvalidOption, match="invalid option `title`: expected text, got None"):
            await anything.rename_session("a", None)


async def test_closed_agent_says_that_it_is_closed() -> None:
    agent = await open_agent(executable=scripted_agent([[{"text": "Hello"}]]))
    await agent.close()
    with pytest.raises(SessionClosed, match=r"^the agent is closed; open another agent, and pass `session_id`"):
        await agent.create_session()


async def test_type_of_agent_session_options() -> None:
    options: AgentSessionOptions = {"turn_timeout": 60, "on_approval": lambda request: "approve"}
    executable = scripted_agent([[{"text": "Hello"}]])
    async with open_agent(executable=executable) as agent, agent.create_session(**options) as session:
        assert (await session.prompt("Hi")).text == "Hello"
