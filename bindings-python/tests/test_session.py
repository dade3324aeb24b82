"""Sessions and turns over the scripted agent: what they give, and how they end."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import datetime
import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from support import HANGING, children, collect, gone, open_session, read_until, texts

import kimi_agent
from kimi_agent import (
    AgentExited,
    Capabilities,
    ImageURLPart,
    InvalidOption,
    KimiAgentError,
    MediaURL,
    PromptResult,
    SessionClosed,
    StatusUpdate,
    StepBegin,
    TextPart,
    ThinkPart,
    Timeout,
    TokenUsage,
    TurnBegin,
    TurnEnd,
    UnknownEvent,
    event_from_dict,
)
from kimi_agent.testing import scripted_agent

pytestmark = pytest.mark.interpreter

USED = {"input_other": 80, "output": 10, "input_cache_read": 20, "input_cache_creation": 1}


async def test_turn_streams_its_events() -> None:
    async with open_session([{"think": "Hm"}, {"text": ["Hel", "lo"]}]) as session:
        events = await collect(session.prompt("Say hello"))
    assert events == [
        TurnBegin("Say hello"),
        StepBegin(1),
        ThinkPart("Hm"),
        TextPart("Hel"),
        TextPart("lo"),
        TurnEnd(),
    ]


async def test_events_arrive_while_turn_runs(tmp_path: Path) -> None:
    async with open_session([{"text": "One"}, {"wait_file": "go"}, {"text": "Two"}], work_dir=tmp_path) as session:
        found: list[str] = []
        async for event in session.prompt("Go"):
            match event:
                case TextPart(text=text):
                    found.append(text)
                    (tmp_path / "go").touch()
                case _:
                    pass
        assert found == ["One", "Two"]


async def test_every_event_survives_json_and_pickling() -> None:
    turn: list[dict[str, Any]] = [
        {"tool_call": {"id": "c", "name": "Shell", "arguments": {"command": "ls"}, "split": 2, "result": "ok"}},
        {"usage": USED, "context_usage": 0.5},
        {"event": {"type": "FromTheFuture", "payload": {"a": [1, None, {"b": 2.5}]}}},
        {"text": "Done \N{SNOWMAN}"},
    ]
    async with open_session(turn) as session:
        events = await collect(session.prompt("Go"))
    assert any(isinstance(event, UnknownEvent) for event in events)
    for event in events:
        assert event_from_dict(event.to_dict()) == event
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(event, protocol)) == event


async def test_results_can_be_pickled_and_sessions_cannot() -> None:
    async with open_session([{"text": "x"}, {"wait_steer": True}, {"text": "y"}], [{"text": "z"}]) as session:
        turn = session.prompt("Go")
        # Two that stand for one would each end it.
        for kept, name in ((session, "Session"), (turn, "Turn")):
            for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=f"a {name} can be neither copied nor pickled"):
                    attempt(kept)
        await read_until(turn, TextPart)
        await turn.steer("on")
        result = await turn.result()
        assert (result.status, session.state) == ("finished", "idle")
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            for thing in (result, session.capabilities, session.usage, session.status):
                assert pickle.loads(pickle.dumps(thing, protocol)) == thing


async def test_result_alone_completes_turn() -> None:
    async with open_session([{"text": "Once"}, {"step": None}, {"text": ["Twi", "ce"]}]) as session:
        turn = session.prompt("Go")
        result = await turn.result()
        assert result == PromptResult("finished", 2, "Twice", TokenUsage(0, 0, 0, 0), stop_reason="finished")
        assert result.raise_for_status() is result
        assert await turn.result() == result
        # Its events are still there for a reader.
        assert texts(await collect(turn)) == "OnceTwice"
        assert turn.discarded == 0
        assert await collect(turn) == []


async def test_result_between_loops_keeps_events() -> None:
    async with open_session([{"text": ["one", "two", "three"], "bulk": True}]) as session:
        everything = len(await collect(session.prompt("Go")))
    async with open_session([{"text": ["one", "two", "three"], "bulk": True}]) as session:
        turn = session.prompt("Go")
        async for _ in turn:
            break
        await turn.result()
        assert turn.discarded == 0
        assert len(await collect(turn)) == everything - 1


@pytest.mark.parametrize("buffer", [1024, 256 << 10])
async def test_result_started_before_loop_takes_no_event(buffer: int) -> None:
    texts_of_a_turn = [f"{n} " for n in range(20)]
    turns = [[{"text": texts_of_a_turn, "bulk": True}]] * 25
    async with open_session(*turns, event_buffer_bytes=buffer) as session:
        for _ in turns:
            turn = session.prompt("Go")
            result, events = await asyncio.gather(turn.result(), collect(turn))
            assert (texts(events), turn.discarded) == (result.text, 0)


async def test_result_with_full_buffer_counts_discarded() -> None:
    async with open_session([{"text": ["word "] * 200, "bulk": True}], event_buffer_bytes=1024) as session:
        turn = session.prompt("Go")
        result = await turn.result()
        assert result.text == "word " * 200
        kept = await collect(turn)
        assert kept[0] == TurnBegin("Go")
        assert len(kept) + turn.discarded == 203
        assert turn.discarded > 100


async def test_next_step_skips_rest_of_previous_step() -> None:
    async with open_session([{"text": ["a", "b", "c"]}, {"step": None}, {"text": "d"}]) as session:
        found: list[tuple[int, str]] = []
        turn = session.prompt("Go")
        async for step in turn.steps:
            async for event in step:
                if isinstance(event, TextPart):
                    found.append((step.n, event.text))
                    break
        assert found == [(1, "a"), (2, "d")]
        assert (await turn.result()).text == "d"


async def test_step_used_after_its_loop_is_refused() -> None:
    async with open_session([{"text": "One"}]) as session:
        turn = session.prompt("Go")
        kept: Any = None
        async for step in turn.steps:
            kept = step
            break
        with pytest.raises(KimiAgentError, match="inside of that loop"):
            await anext(kept)


async def test_usage_is_counted_for_turn_and_session() -> None:
    turn = [{"text": "Hi"}, {"usage": USED, "context_usage": 0.25}]
    async with open_session(turn, turn) as session:
        first = session.prompt("One")
        await first.result()
        second = session.prompt("Two")
        result = await second.result()
        assert first.usage == second.usage == result.usage == TokenUsage(80, 10, 20, 1)
        assert session.usage == TokenUsage(160, 20, 40, 2)
        assert session.usage.total == 222
        assert isinstance(session.status, StatusUpdate)
        assert session.status.context_usage == 0.25


async def test_session_properties_describe_agent(tmp_path: Path) -> None:
    script = {
        "server": {"name": "an agent", "version": "2.5"},
        "slash_commands": [{"name": "compact", "description": "Shorten", "aliases": ["c"]}],
    }
    async with open_session(HANGING, script=script, work_dir=tmp_path, session_id="mine") as session:
        assert session.id == "mine"
        assert Path(session.work_dir) == tmp_path
        assert session.protocol_version == "1.10"
        assert session.server is not None
        assert (session.server.name, session.server.version) == ("an agent", "2.5")
        assert [command.name for command in session.slash_commands] == ["compact"]
        assert session.external_tools.accepted == []
        assert session.pid is not None
        if sys.platform != "win32":  # There it sends Ctrl-C.
            os.kill(session.pid, 0)
        capabilities = session.capabilities
        assert isinstance(capabilities, Capabilities)
        assert dataclasses.replace(capabilities, hooks=[]) == Capabilities(
            external_tools=True,
            questions=True,
            approval_feedback=True,
            steer=True,
            plan_mode=True,
            config_options=False,
            replay=True,
            undo=False,
            fork=False,
            policy="tool_calls",
            hooks=[],
        )
        assert "PreToolUse" in capabilities.hooks
        states: list[str] = [session.state]
        turn = session.prompt("Go")
        states.append(session.state)
        assert turn.id in repr(turn)
        await turn.cancel()
        assert [*states, session.state] == ["idle", "active", "idle"]
        assert "mine" in repr(session)
    assert session.state == "closed"


async def test_plan_mode_and_replay_work() -> None:
    async with open_session([{"text": ["Hel", "lo"]}]) as session:
        await session.prompt("Say hello").result()
        await session.set_plan_mode(True)
        assert session.status.plan_mode is True
        past = await collect(session.replay())
        assert past[0] == TurnBegin("Say hello")
        assert texts(past) == "Hello"
        await session.set_plan_mode(False)
        assert session.status.plan_mode is False
        nonsense: Any = "yes"
        with pytest.raises(InvalidOption, match="invalid option `on`: expected a boolean, got text"):
            await session.set_plan_mode(nonsense)


async def test_prompt_takes_content_parts() -> None:
    async with open_session([{"text": "{{prompt}}"}]) as session:
        parts: list[Any] = ["Look: ", TextPart("here"), {"type": "image_url", "image_url": {"url": "data:,x"}}]
        events = await collect(session.prompt(parts))
        begin = events[0]
        assert isinstance(begin, TurnBegin)
        assert begin.user_input == [TextPart("Look: "), TextPart("here"), ImageURLPart(MediaURL("data:,x"))]


async def test_one_shot_prompt_manages_its_session() -> None:
    agent = scripted_agent([[{"text": "Hi {{prompt}}"}]])
    assert texts(await collect(kimi_agent.prompt("there", executable=agent))) == "Hi there"
    turn = kimi_agent.prompt("you", executable=agent)
    assert (await turn.result()).text == "Hi you"
    with pytest.raises(InvalidOption):
        kimi_agent.prompt("x", executable=agent, work_dirr="typo")  # type: ignore[call-arg] # pyright: ignore


async def test_awaited_session_can_be_closed_twice() -> None:
    opening = open_session([{"text": "Hi"}])
    session = await opening
    pid = session.pid
    await session.close()
    await session.close()
    assert gone(pid)
    with pytest.raises(SessionClosed):
        session.prompt("Anyone?")
    with pytest.raises(KimiAgentError, match="opened already"):
        await opening


async def test_session_before_await_starts_no_agent() -> None:
    linux = sys.platform == "linux"
    before = children() if linux else set[int]()
    never_awaited = r"create_session\(\) was never awaited"
    with pytest.warns(RuntimeWarning, match=never_awaited):
        open_session([{"text": "Hi"}])
    with pytest.warns(RuntimeWarning, match=never_awaited):
        open_session([{"text": "Hi"}], work_dirr="typo")
    # Agents are started one after the other, so one of the first opening would have been started by now.
    async with open_session([]) as later:
        assert not linux or children() <= before | {later.pid}


async def test_wrong_option_is_named() -> None:
    with pytest.raises(InvalidOption) as caught:
        await open_session([], work_dirr=".")
    assert (caught.value.option, caught.value.code) == ("work_dirr", "invalid_option")
    with pytest.raises(InvalidOption) as caught:
        await open_session([], close_timeout="soon")
    assert caught.value.option == "close_timeout"
    assert pickle.loads(pickle.dumps(caught.value)).option == "close_timeout"


async def test_agent_exit_fails_turn() -> None:
    turn = [{"text": "I feel "}, {"stderr": "fatal: out of memory"}, {"exit": 3}]
    async with open_session(turn) as session:
        turn_ = session.prompt("Go")
        assert (await read_until(turn_, TextPart)).text == "I feel "
        with pytest.raises(AgentExited, match="out of memory") as caught:
            await collect(turn_)
        error = caught.value
        assert (error.code, error.exit_code, error.signal) == ("agent_exited", 3, None)
        assert "out of memory" in error.stderr
        copy = pickle.loads(pickle.dumps(error))
        assert (copy.exit_code, copy.stderr, str(copy)) == (3, error.stderr, str(error))
        assert session.state == "closed"
        with pytest.raises(AgentExited):
            session.prompt("Again")


async def test_config_is_passed_in_private_file() -> None:
    async with open_session([{"text": "{{argv}}"}], config={"secret": "s3cr3t"}) as session:
        said = (await session.prompt("Go").result()).text
        assert "s3cr3t" not in said
        name = next(word.partition("=")[2] for word in json.loads(said) if word.startswith("--config-file="))
        assert Path(name).stat().st_mode & 0o077 == 0
        assert "s3cr3t" in Path(name).read_text()
    assert not Path(name).exists()


# Over ACP the agent makes the session's id.
ACP_AGENT = """
import json, sys
for answer in {"protocolVersion": 1}, {"sessionId": "made-by-the-agent"}:
    call = json.loads(sys.stdin.readline())
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": answer}), flush=True)
sys.stdin.read()
"""


async def test_session_id_comes_from_agent() -> None:
    agent = [sys.executable, "-c", ACP_AGENT]
    async with kimi_agent.create_session(executable=agent, dialect="acp") as session:
        assert session.id == "made-by-the-agent"
        assert session.protocol_version == "acp-1"


async def test_turn_is_awaitable_and_streams_its_text() -> None:
    async with open_session(
        [{"think": "Hm"}, {"text": ["Hel", "lo"]}], [{"text": "Again"}], HANGING, [{"text": "x"}]
    ) as session:
        turn = session.prompt("Go")
        assert [piece async for piece in turn.text_stream] == ["Hel", "lo"]
        assert (await turn).text == "Hello"
        assert (await session.prompt("Go")).text == "Again"
        async for piece in session.prompt("Go").text_stream:
            assert piece
            break
        assert (await session.prompt("Go")).text == "x"


async def test_prompt_options_override_session_options() -> None:
    async with open_session(HANGING, HANGING, [{"text": "x"}], turn_timeout=3600) as session:
        with pytest.raises(Timeout, match="the prompt's `timeout`"):
            await session.prompt("Go", timeout=0.05)
        with pytest.raises(Timeout):
            await session.prompt("Go", idle_timeout=datetime.timedelta(seconds=0.05))
        with pytest.raises(InvalidOption, match="did you mean `timeout`"):
            session.prompt("Go", timout=1)  # type: ignore[call-overload]
        with pytest.raises(InvalidOption, match="expected a number of seconds"):
            session.prompt("Go", timeout=object())  # type: ignore[call-overload]
        with pytest.raises(InvalidOption, match="`budget`"):
            session.prompt("Go", budget={})
        assert (await session.prompt("Go", timeout=None)).text == "x"
    with pytest.raises(Timeout):
        await kimi_agent.prompt("Go", executable=scripted_agent([HANGING]), timeout=0.05)


async def test_session_cancel_ends_running_turn() -> None:
    async with open_session(HANGING, HANGING, HANGING) as session:
        turn = session.prompt("Go")
        await session.cancel()
        assert (await turn).status == "cancelled"
        del turn
        session.prompt("Go")
        await session.cancel()
        assert session.state == "idle"
        await session.cancel()
        ended = session.prompt("Go")
        await ended.cancel()
    with pytest.raises(kimi_agent.SessionClosed):
        await session.cancel()
    with pytest.raises(kimi_agent.SessionClosed):
        await ended.steer("Go")


async def test_handler_that_waits_for_its_own_turn_fails() -> None:
    failures: list[str] = []

    async def approve(request: kimi_agent.ApprovalRequest) -> Literal["approve"]:
        try:
            async for event in turn:
                del event
        except kimi_agent.TurnInProgress as error:
            failures.append(str(error))
        return "approve"

    asks = [{"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}, {"text": "done"}]
    async with await kimi_agent.create_session(executable=scripted_agent([asks]), on_approval=approve) as session:
        turn = session.prompt("Go")
        assert f"<Turn {turn.id} running>" == repr(turn)
        result = await turn.result()
        assert result.handler_failures == []
        assert repr(turn) == f"<Turn {turn.id} finished>"
        assert repr(session).startswith(f"<Session {session.id} idle agent='kimi-scripted-agent' pid=")
    assert "return an answer first" in failures[0]


async def test_agent_shows_what_it_is() -> None:
    agent = await kimi_agent.open_agent(executable=scripted_agent([[]]))
    assert repr(agent).startswith("<Agent 'python")
    assert repr(agent).endswith("' open>")
    await agent.close()
    assert repr(agent).endswith("' closed>")


async def test_option_names_before_values() -> None:
    wrong: dict[str, Any] = {"workdir": "."}
    number: Any = 3
    async with open_session([{"text": "a"}]) as session:
        for call in (session.prompt, kimi_agent.prompt, kimi_agent.run_batch):
            with pytest.raises(InvalidOption, match="`workdir`"):
                call(number, **wrong)
        with pytest.raises(InvalidOption, match="`workdir`"):
            kimi_agent.run_batch(["a"], concurrency=number, **wrong)


async def test_advice_about_result_that_cannot_be_sent() -> None:
    @kimi_agent.tool
    def find() -> object:
        """Finds."""
        return object()

    asks = [{"external_tool": {"name": "find", "arguments": {}}}, {"text": "{{last.message}}{{last.output}}"}]
    async with open_session(asks, tools=[find]) as session:
        result = await session.prompt("Go").result()
        assert "a value that cannot be sent" in result.text
        assert "object" not in result.text
        assert result.handler_failures[0].message.startswith("TypeError: the handler returned an object of type object")


@pytest.mark.parametrize("content", ["", " ", [], {"type": "txt", "text": "a"}])
async def test_empty_prompt_and_misspelt_part_are_refused(content: Any) -> None:
    async with open_session([{"text": "a"}]) as session:
        with pytest.raises(kimi_agent.InvalidOption):
            await session.prompt(content)


async def test_close_with_timeout_zero_kills_at_once() -> None:
    stubborn = [{"text": "One"}, {"ignore_eof": True}, {"ignore_signal": "TERM"}, {"stall": True}]
    session = await open_session(stubborn, close_timeout=3600, cancel_timeout=3600)
    turn = session.prompt("Go")
    await read_until(turn, TextPart)
    with pytest.raises(InvalidOption, match="timeout"):
        await session.close(timeout=-1)
    await session.close(timeout=0)
    with pytest.raises(SessionClosed):
        await turn


async def test_unread_dropped_turn_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with open_session(HANGING, HANGING) as session:
        with caplog.at_level("WARNING", logger="kimi_agent"):
            session.prompt("Go")
            await session.cancel()
            assert [record.message for record in caplog.records if "unread" in record.message] != []
            caplog.clear()
            async for _ in session.prompt("Go"):
                break
            await session.cancel()
            assert [record.message for record in caplog.records if "unread" in record.message] == []
