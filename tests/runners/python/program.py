"""The operations of a program."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import Any

from apis import Api, Job
from behaviour import Records, answer_of, make_options, make_output
from output import Line, canonical, outcome, print_done, print_error, print_event, print_line, print_tool_call

import kimi_agent
from kimi_agent import ApprovalRequest, Event, KimiAgentError, QuestionRequest, testing

__all__ = ["Player", "Problem", "read_case"]


class Problem(Exception):
    """A problem of a scenario, for its author."""


def read_case(path: Path) -> dict[str, Any]:
    """A scenario file, as the orchestrator hands it out."""
    case: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return case


def recorder() -> Any:
    """The recorder of spans and metrics, if the sessions have telemetry: with `SCENARIO_TELEMETRY=1`."""
    if not os.environ.get("SCENARIO_TELEMETRY"):
        return None
    sys.path.append(str(Path(__file__).resolve().parents[2] / "telemetry"))
    from recorder import Recorder

    return Recorder()


class Held:
    """A turn of the program's, and how far it has been read."""

    def __init__(self, turn: Any) -> None:
        self.turn = turn
        self.events: AsyncIterator[Event] | None = None
        self.waiting: Job | None = None
        self.beside: list[Event] | None = None
        """The events read concurrently, until the program joins."""


class Player:
    """Plays one scenario."""

    def __init__(self, case: dict[str, Any], api: Api) -> None:
        self.program: list[Line] = case["program"]
        self._api = api
        self._described: dict[str, Any] = case.get("options", {})
        self._executable = _executable(case["agent"])
        self._records = Records(api, case.get("trace_handlers") is True)
        self._agents: dict[str, Any] = {}
        self._sessions: dict[str, Any] = {}
        self._turns: dict[str, Held] = {}
        # The requests that were printed, by id; the last one is the last printed.
        self._requests: dict[str, ApprovalRequest | QuestionRequest] = {}
        self._recorder = recorder()

    async def finish(self) -> None:
        """Ends what the program left open."""
        self._turns.clear()
        # Sessions before the agents that they may be of.
        opened = [*self._sessions.values(), *self._agents.values()]
        self._sessions, self._agents = {}, {}
        for thing in opened:
            with contextlib.suppress(KimiAgentError):
                await self._api.call(thing.close)
        if self._recorder is not None:
            await self._api.settle(self._recorder.wait)
            print_line({"recorded": self._recorder.recorded()})

    async def step(self, op: Line) -> None:
        """Does one operation. What the package fails with is printed, a `Problem` is the program's own."""
        does: Callable[[Line], Coroutine[Any, Any, Line | None]] | None = getattr(self, f"_do_{op.get('op')}", None)
        if does is None:
            raise Problem(f"there is no operation {op.get('op')!r}")
        try:
            outputs = await does(op)
        except KimiAgentError as error:
            print_error(op, error)
        else:
            print_done(op, outputs)

    async def _do_open(self, op: Line) -> None:
        self._sessions[_session_name(op)] = await self._open(op)

    async def _open(self, op: Line) -> Any:
        options = self._options(op)
        if "agent" not in op:
            return await self._api.open(options)
        agent = self._agent(op)
        for call in ("resume", "fork"):
            if call in op:
                return await self._api.call(getattr(agent, call), self._past(op[call]), **options)
        return await self._api.call(agent.create_session, **options)

    def _past(self, named: str) -> str:
        """The session whose past another begins with: it is given, or it is one of the program's."""
        return str(self._sessions[named].id) if named in self._sessions else named

    async def _do_open_agent(self, op: Line) -> None:
        options = make_options(op.get("options", {}), self._executable, self._records, self._api)
        self._agents[_agent_name(op)] = await self._api.open_agent(options)

    async def _do_list_sessions(self, op: Line) -> Line:
        archived = {"archived": op["archived"]} if "archived" in op else {}
        listed = await self._api.call(self._agent(op).list_sessions, op.get("work_dir"), **archived)
        fields = ("id", "work_dir", "title")
        sessions = [{**{key: getattr(one, key) for key in fields}, "dated": bool(one.updated_at)} for one in listed]
        if archived:
            sessions = [{**told, "archived": one.archived} for told, one in zip(sessions, listed)]
        return {"sessions": sessions}

    async def _do_delete_session(self, op: Line) -> None:
        await self._api.call(self._agent(op).delete_session, self._past(op["of"]))

    async def _do_rename_session(self, op: Line) -> Line:
        title = await self._api.call(self._agent(op).rename_session, self._past(op["of"]), op["title"])
        return {"title": title}

    async def _do_archive_session(self, op: Line) -> None:
        await self._api.call(self._agent(op).archive_session, self._past(op["of"]))

    async def _do_unarchive_session(self, op: Line) -> None:
        await self._api.call(self._agent(op).unarchive_session, self._past(op["of"]))

    async def _do_close_agent(self, op: Line) -> None:
        agent = self._agent(op)
        if op.get("how") == "block":
            await self._api.leave_block(agent)
        else:
            await self._api.call(agent.close, **({"timeout": op["timeout"]} if "timeout" in op else {}))

    async def _do_prompt(self, op: Line) -> None:
        self._turns[_name(op)] = Held(self._opened(op).prompt(_input(op), **self._prompt_options(op)))

    async def _do_next(self, op: Line) -> Line | None:
        left, until = op.get("count"), op.get("until")
        if (left is None) == (until is None):
            raise Problem("either `count` or `until` must be there")
        held = self._held(op)
        while left != 0:
            try:
                event = await anext(self._events(held))
            except StopAsyncIteration:
                return {"ended": True}
            self._show(event)
            if left is not None:
                left -= 1
            elif canonical(event)["type"] == until:
                break
        return None

    async def _do_drain(self, op: Line) -> None:
        async for event in self._events(self._held(op)):
            self._show(event)
            if op.get("tool_calls") is True:
                print_tool_call(event)

    async def _do_steps(self, op: Line) -> None:
        async for step in self._api.iterate(self._held(op).turn.steps):
            announced = False
            async for event in self._api.iterate(step):
                # Only with an event: a failure between steps is in none.
                if not announced:
                    print_line({"step": step.n})
                    announced = True
                self._show(event)

    async def _do_result(self, op: Line) -> Line:
        result = await self._api.call(self._held(op).turn.result)
        return outcome(result, details=op.get("details") is True, ended=op.get("ended") is True)

    async def _do_raise_for_status(self, op: Line) -> None:
        (await self._api.outcome(self._held(op).turn)).raise_for_status()

    async def _do_text_stream(self, op: Line) -> None:
        held = self._held(op)
        # A loop that has read until here is left.
        held.events = None
        async for piece in self._api.iterate(held.turn.text_stream):
            print_line({"text": piece})

    async def _do_cancel_session(self, op: Line) -> None:
        await self._api.call(self._opened(op).cancel)

    async def _do_cancel(self, op: Line) -> None:
        await self._api.call(self._held(op).turn.cancel)

    async def _do_cancel_subagent(self, op: Line) -> None:
        await self._api.call(self._held(op).turn.cancel_subagent, op["subagent"])

    async def _do_steer(self, op: Line) -> None:
        await self._api.call(self._held(op).turn.steer, _input(op))

    async def _do_respond(self, op: Line) -> None:
        request = self._requests.get(op.get("request") or next(reversed(self._requests), ""))
        if request is None:
            raise Problem("no such request has been seen")
        by = self._opened(op) if op.get("scope") == "session" else self._held(op).turn
        await self._api.call(by.respond, request, answer_of(op.get("answer")))

    async def _do_set_plan_mode(self, op: Line) -> None:
        await self._api.call(self._opened(op).set_plan_mode, op["on"])

    async def _do_config_options(self, op: Line) -> Line:
        fields = ("id", "category", "value")
        options = self._opened(op).config_options
        choices = [[choice.value for choice in one.choices] for one in options]
        told = [{key: getattr(one, key) for key in fields} for one in options]
        return {"options": [{**one, "choices": values} for one, values in zip(told, choices, strict=True)]}

    async def _do_set_config_option(self, op: Line) -> None:
        await self._api.call(self._opened(op).set_config_option, op["id"], op["value"])

    async def _do_undo(self, op: Line) -> None:
        await self._api.call(self._opened(op).undo, *([op["count"]] if "count" in op else []))

    async def _do_replay(self, op: Line) -> None:
        async for event in self._api.iterate(self._opened(op).replay()):
            print_event(event)

    async def _do_usage(self, op: Line) -> Line:
        turn = self._held(op).turn
        return {"turn": turn.usage.to_payload(), "session": self._opened(op).usage.to_payload()}

    async def _do_state(self, op: Line) -> Line:
        session = self._opened(op)
        # Nothing announces what happens between turns.
        while op.get("until") not in (None, session.state):
            await self._api.pause(0.005)
        return {"state": session.state}

    async def _do_wait_closed(self, op: Line) -> Line:
        error = await self._api.call(self._opened(op).wait_closed)
        return {"by": None if error is None else error.code}

    async def _do_info(self, op: Line) -> Line:
        session = self._opened(op)
        info: Line = {
            "protocol_version": session.protocol_version,
            "capabilities": asdict(session.capabilities),
            "external_tools": session.external_tools.to_payload(),
            # By a method, which the recorder of what is touched sees; fields it does not.
            "slash_commands": [command.to_payload()["name"] for command in session.slash_commands],
        }
        if session.server is not None:
            info["server"] = session.server.to_payload()
        return info

    async def _do_session(self, op: Line) -> Line:
        session = self._opened(op)
        return {
            "id": session.id,
            "work_dir": str(session.work_dir),
            "runs": session.pid is not None,
            "status": session.status.to_payload(),
        }

    async def _do_turn(self, op: Line) -> Line:
        turn = self._held(op).turn
        return {"id": turn.id, "discarded": turn.discarded}

    async def _do_leave(self, op: Line) -> None:
        held = self._held(op)
        if op.get("how") == "block":
            await self._api.leave_block(held.turn)
        # Drops the last reference.
        del held, self._turns[_name(op)]

    async def _do_one_shot(self, op: Line) -> Line:
        turn = self._api.one_shot(_input(op), {**self._options(op), **self._prompt_options(op)})
        async for event in self._api.iterate(turn):
            self._show(event)
        return outcome(await self._api.call(turn.result))

    async def _do_close(self, op: Line) -> None:
        session = self._opened(op)
        # Python enters no block of a session that the program has closed.
        if op.get("how") == "block" and session.state != "closed":
            await self._api.leave_block(session)
        else:
            await self._api.call(session.close, **({"timeout": op["timeout"]} if "timeout" in op else {}))

    async def _do_touch(self, op: Line) -> None:
        try:
            Path(op["path"]).write_text(op.get("text", ""), encoding="utf-8")
        except OSError as error:
            raise Problem(str(error)) from None

    async def _do_remove(self, op: Line) -> None:
        try:
            Path(op["path"]).unlink()
        except OSError as error:
            raise Problem(str(error)) from None

    async def _do_wait_file(self, op: Line) -> None:
        # Files are made by others, who do not announce it.
        while not Path(op["path"]).exists():
            await self._api.pause(0.005)

    async def _do_run(self, op: Line) -> None:
        argv = [str(word).replace("{pid}", str(os.getpid())) for word in op["argv"]]
        try:
            subprocess.run(argv, stdin=subprocess.DEVNULL, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Problem(str(error)) from None

    async def _do_read(self, op: Line) -> Line:
        try:
            return {"content": Path(op["path"]).read_text("utf-8")}
        except OSError:
            return {"content": None}

    async def _do_exists(self, op: Line) -> Line:
        return {"exists": Path(op["path"]).exists()}

    async def _do_wait_outside(self, op: Line) -> None:
        if op["until"] == "stderr":
            print_line({"stderr": await self._records.stderr.get()})
            return
        while True:
            event = await self._records.events.get()
            self._show(event)
            if canonical(event)["type"] == op["until"]:
                return

    async def _do_spawn_result(self, op: Line) -> None:
        held = self._held(op)
        if held.waiting is not None:
            raise Problem("its outcome is waited for already")
        held.waiting = self._api.start(held.turn.result)

    async def _do_spawn_drain(self, op: Line) -> None:
        held = self._held(op)
        if held.waiting is not None:
            raise Problem("it is read already")
        # A loop that has read until here is left.
        held.events = None
        held.beside = []
        held.waiting = self._api.start_reading(held.turn, held.beside.append)

    async def _do_result_and_drain(self, op: Line) -> Line:
        held = self._held(op)
        turn, held.events = held.turn, None
        waiting = self._api.start(turn.result)
        try:
            async for event in self._api.iterate(turn):
                self._show(event)
                request = next(reversed(self._requests), None)
                if "answer" in op and request is not None and self._requests[request] is event:
                    await self._api.call(turn.respond, event, answer_of(op["answer"]))
        finally:
            result = await waiting.join()
        return outcome(result)

    async def _do_two_loops(self, op: Line) -> None:
        turn = self._held(op).turn
        first = self._api.iterate(turn)
        while canonical(await anext(first))["type"] != op["until"]:
            pass
        await anext(self._api.iterate(turn))

    async def _do_join(self, op: Line) -> Line | None:
        held = self._held(op)
        waiting, held.waiting = held.waiting, None
        if waiting is None:
            raise Problem("its outcome is not waited for")
        if held.beside is None:
            return outcome(await waiting.join())
        try:
            await waiting.join()
        finally:
            for event in held.beside:
                self._show(event)
            held.beside = None
        return None

    def _options(self, op: Line) -> dict[str, Any]:
        described = {**self._described, **op.get("options", {})}
        if "resume" in op and "agent" not in op:
            described["session_id"] = self._opened({"session": op["resume"]}).id
        if self._recorder is not None:
            described.setdefault("telemetry", self._recorder.telemetry())
        return make_options(described, None if "agent" in op else self._executable, self._records, self._api)

    def _prompt_options(self, op: Line) -> dict[str, Any]:
        options = dict(op.get("prompt_options", {}))
        if "output" in options:
            options["output"] = make_output(options["output"], self._records)
        return options

    def _agent(self, op: Line) -> Any:
        agent = self._agents.get(_agent_name(op))
        if agent is None:
            raise Problem("no agent is open")
        return agent

    def _opened(self, op: Line) -> Any:
        session = self._sessions.get(_session_name(op))
        if session is None:
            raise Problem("no session is open")
        return session

    def _held(self, op: Line) -> Held:
        held = self._turns.get(_name(op))
        if held is None:
            raise Problem(f"there is no turn {_name(op)!r}")
        return held

    def _events(self, held: Held) -> AsyncIterator[Event]:
        if held.events is None:
            held.events = self._api.iterate(held.turn)
        return held.events

    def _show(self, event: Event) -> None:
        """Prints an event, and keeps a request for `respond`."""
        print_event(event)
        if isinstance(event, (ApprovalRequest, QuestionRequest)):
            self._requests.pop(event.id, None)
            self._requests[event.id] = event


def _executable(agent: dict[str, Any]) -> list[str]:
    """Whom the session talks to: the scripted agent, or `$SCENARIO_EXECUTABLE`."""
    if "script" in agent:
        return testing.scripted_agent(agent["script"])
    if "SCENARIO_EXECUTABLE" not in os.environ:
        raise Problem("there is neither a script nor $SCENARIO_EXECUTABLE")
    executable: list[str] = json.loads(os.environ["SCENARIO_EXECUTABLE"])
    return executable


def _name(op: Line) -> str:
    return str(op.get("as", "turn"))


def _agent_name(op: Line) -> str:
    return str(op.get("agent", "agent"))


def _session_name(op: Line) -> str:
    return str(op.get("session", "session"))


def _input(op: Line) -> Any:
    if "input" not in op:
        raise Problem("`input` must be there")
    given = op["input"]
    return [_part(item) for item in given] if isinstance(given, list) else given


def _part(item: Any) -> Any:
    """A part of a prompt: `file()` and `resource()` as the scenario writes them, or the part itself."""
    if isinstance(item, dict) and set(item) == {"file"}:
        return kimi_agent.file(item["file"])
    if isinstance(item, dict) and set(item) == {"resource"}:
        given = dict(item["resource"])
        if "data" in given:
            given["data"] = given["data"].encode()
        return kimi_agent.resource(given.pop("uri"), **given)
    return item
