"""Plays plans of `plan.py` with the Python package: the path of a plan on stdin, a line of JSON for it on stdout.

    player.py async|sync

Both APIs are played by the same code. With the blocking one nothing in it ever waits as a coroutine does, and an actor
is a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import inspect
import json
import logging
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import kimi_agent
from kimi_agent import (
    ApprovalRequest,
    ExternalTool,
    KimiAgentError,
    PromptResult,
    QuestionRequest,
    TextPart,
    _threads,
    sync,
)
from kimi_agent._loop import LoopMailbox

Json = dict[str, Any]
BLOCKING = sys.argv[1:] == ["sync"]
API: Any = sync if BLOCKING else kimi_agent
MARKER = re.compile(r"mark-\d+-\d+-[0-9a-f]{8}")
ANSWER = re.compile(r"answer=(\w+)")
# A thread of plain handlers without work ends by itself after 5 s. This program does not wait for that.
_threads._PATIENCE = 0.05


async def value(thing: Any) -> Any:
    """The outcome of a call of any API."""
    return await thing if inspect.isawaitable(thing) else thing


async def each(things: Any) -> AsyncIterator[Any]:
    """All of an iterator's, by whichever API."""
    if hasattr(things, "__aiter__"):
        async for thing in things:
            yield thing
    else:
        for thing in things:
            yield thing


async def pause(seconds: float) -> None:
    """Lets time pass."""
    if BLOCKING:
        time.sleep(seconds)
    else:
        await asyncio.sleep(seconds)


def drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs what never waits as a coroutine does."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a coroutine waits in a blocking program")


class Beside:
    """A task or a thread."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.error: BaseException | None = None
        self._make = make
        if BLOCKING:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        else:
            self._task = asyncio.ensure_future(make())

    def _run(self) -> None:
        try:
            drive(self._make())
        except BaseException as error:
            self.error = error

    async def join(self, cancel: bool = False) -> None:
        """Waits for its end, and raises what it raised."""
        if BLOCKING:
            self._thread.join()
            if self.error:
                raise self.error
            return
        if cancel:
            self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()


class Actor:
    """One session of a plan."""

    def __init__(self, plan: Json, agents: dict[str, Any]) -> None:
        self.plan = plan
        self.marker: str = plan["marker"]
        self.agents = agents
        self.at = "not begun"
        self.wrong: list[str] = []
        self.session: Any = None
        self.turn: Any = None
        self.over = threading.Event()
        self.meddled = False

    def look(self, thing: object, where: str) -> None:
        """Everything that reaches this actor passes here."""
        text = repr(thing)
        for marker in MARKER.findall(text):
            if marker != self.marker:
                self.wrong.append(f"crossed: {where} has {marker}: {text[:500]}")
        for answer in ANSWER.findall(text):
            if answer.startswith("approve") and not self.may_approve():
                self.wrong.append(f"approved though nobody did: {text[:500]}")
            elif answer == "reject" and self.plan["calm"] and self.must_approve():
                self.wrong.append(f"rejected though it was approved: {text[:500]}")

    def may_approve(self) -> bool:
        plan = self.plan
        return plan["approval"] != "none" and plan["answer"] != "reject" and plan["behaviour"] != "raise"

    def must_approve(self) -> bool:
        # A request for a manual answer has no answer if the turn is not read.
        return self.may_approve() and self.plan["approval"] == "handler"

    def options(self) -> Json:
        plan = self.plan
        options: Json = {"work_dir": plan["work_dir"], **plan["deadlines"]}
        options["on_event"] = lambda event: self.look(event, "on_event")
        if plan["agent"] is None:
            options |= {"executable": [AGENT, plan["script_file"]], "dialect": plan["dialect"]}
            options["on_stderr"] = lambda line: self.look(line, "on_stderr")
        if plan["buffer"]:
            options["event_buffer_bytes"] = plan["buffer"]
        if plan["secret"]:
            options["config"] = {"secret": self.marker}
        if plan["tools"]:
            options["tools"] = [ExternalTool("echo", "Says it again", {"type": "object"}, self.echo)]
        if plan["approval"] == "manual":
            options["on_approval"] = "manual"
        elif plan["approval"] == "handler":
            options["on_approval"] = self.plainly if BLOCKING or plan["marker"][-1] in "02468" else self.asked
        options["on_question"] = self.questioned
        return options

    def echo(self, arguments: Json) -> str:
        self.look(arguments, "a tool's call")
        return self.marker

    def questioned(self, request: QuestionRequest) -> dict[str, str]:
        self.look(request, "on_question")
        return {one.question: one.options[0].label for one in request.questions}

    def plainly(self, request: ApprovalRequest) -> str:
        """A plain handler, which runs on a thread."""
        self.look(request, "on_approval")
        if self.plan["behaviour"] == "hang":
            self.over.wait()
        return self.answer(time.sleep)

    async def asked(self, request: ApprovalRequest) -> str:
        self.look(request, "on_approval")
        if self.plan["behaviour"] == "hang":
            await asyncio.Event().wait()
        if self.plan["behaviour"] == "slow":
            await asyncio.sleep(0.05)
        return self.answer(lambda _: None)

    def answer(self, slowly: Callable[[float], None]) -> str:
        if self.plan["behaviour"] == "slow":
            slowly(0.05)
        if self.plan["behaviour"] == "raise":
            raise RuntimeError(f"{self.marker} fails")
        return str(self.plan["answer"])

    async def play(self) -> None:
        try:
            await self._play()
        except KimiAgentError as error:
            self.failed(error)
        except Exception as error:
            self.wrong.append(f"odd error at {self.at}: {error!r}")
        finally:
            self.over.set()
            self.turn = self.session = None

    def failed(self, error: KimiAgentError) -> None:
        """An error of the package: to be expected unless the plan is calm."""
        self.look((str(error), error.__dict__), "an error")
        if self.plan["calm"]:
            self.wrong.append(f"failed at {self.at}: {error!r}")

    async def _play(self) -> None:
        meddling = Beside(self.meddle) if self.plan["meddler"] else None
        try:
            await self.through()
        finally:
            self.over.set()
            if meddling:
                self.at += ", the meddler"
                with contextlib.suppress(KimiAgentError):
                    await meddling.join()

    async def meddle(self) -> None:
        meddler = self.plan["meddler"]
        await pause(meddler["after_ms"] / 1000)
        session, turn = self.session, self.turn
        if session is None:
            return
        if meddler["do"] == "kill":
            self.signal(signal.SIGKILL)
        elif meddler["do"] == "close":
            await value(session.close())
        elif turn is not None:
            await value(turn.cancel())

    def signal(self, number: signal.Signals) -> None:
        pid = self.session and self.session.pid
        # The agent may have exited meanwhile. Its id is not reused, because the system assigns ids in order.
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    async def through(self) -> None:
        self.at = "opening"
        origin = API if self.plan["agent"] is None else self.agents[self.plan["agent"]]
        self.session = await value(origin.create_session(**self.options()))
        for number, turn in enumerate(self.plan["turns"]):
            try:
                await self.one_turn(turn, number)
            except KimiAgentError as error:
                self.failed(error)
                self.turn = None
        self.at = f"the end by {self.plan['end']}"
        if self.plan["end"] == "block":
            if BLOCKING:
                with self.session:
                    pass
            else:
                async with self.session:
                    pass
        elif self.plan["end"] != "drop":
            for _ in range(2 if self.plan["end"] == "twice" else 1):
                await value(self.session.close())

    async def one_turn(self, plan: Json, number: int) -> None:
        self.at = f"turn {number}, prompt"
        turn = self.turn = self.session.prompt(f"{self.marker} {number}" + " and so on" * (plan["prompt_size"] // 10))
        self.at = f"turn {number}, {plan['read']}, then {plan['then']}"
        early = plan["then"] not in ("none", "timeout", "steer")
        result: list[PromptResult] = []

        async def wait() -> None:
            result.append(await value(turn.result()))

        waiting = Beside(wait) if plan["read"] in ("result", "both") else None
        try:
            pieces = await self.read(plan, turn, early)
            if early:
                await pause(plan["pause_ms"] / 1000)
                await self.end_early(plan["then"], turn)
            if plan["then"] == "drop":
                self.turn = turn = None
            elif plan["then"] not in ("leave", "interrupt") and waiting is None:
                self.at += ", the result"
                await wait()
        except BaseException:
            if waiting:
                with contextlib.suppress(KimiAgentError):
                    await value(turn.cancel())
            raise
        finally:
            if waiting:
                self.at += ", the wait beside"
                await waiting.join()
        for one in result:
            self.look(one, "a result")
        calm = self.plan["calm"] and plan["pieces"] is not None and plan["read"] not in ("result", "both")
        if calm and pieces != plan["pieces"]:
            self.wrong.append(f"{pieces} pieces instead of {plan['pieces']} at {self.at}")

    async def read(self, plan: Json, turn: Any, early: bool) -> int:
        """Reads as far as the plan says, and returns how many pieces of text came."""
        seen = pieces = 0
        if plan["read"] == "result":
            if plan["then"] == "steer":
                await value(turn.steer(f"{self.marker} steered"))
            return 0
        if early and not plan["stop_after"]:
            return 0
        async with contextlib.aclosing(self.events(turn, plan["read"])) as events:
            async for event in events:
                seen += 1
                self.look(event, "an event")
                pieces += isinstance(event, TextPart)
                if isinstance(event, ApprovalRequest) and self.plan["approval"] == "manual":
                    await value(turn.respond(event, self.plan["answer"]))
                if seen == plan["stop_after"] and plan["then"] == "steer":
                    await value(turn.steer(f"{self.marker} steered"))
                if seen == plan["stop_after"] and early:
                    break
        return pieces

    async def events(self, turn: Any, read: str) -> AsyncIterator[Any]:
        if read != "steps":
            async for event in each(turn):
                yield event
            return
        async for step in each(turn.steps):
            async for event in each(step):
                yield event

    async def end_early(self, way: str, turn: Any) -> None:
        if way == "leave":
            if BLOCKING:
                with turn:
                    pass
            else:
                async with turn:
                    pass
        elif way == "cancel" or (way == "interrupt" and BLOCKING):
            await value(turn.cancel())
        elif way == "interrupt":
            task = asyncio.ensure_future(turn.result())
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, KimiAgentError):
                await task
            await turn.cancel()
        elif way == "close":
            await value(self.session.close())
        elif way == "kill":
            self.signal(signal.SIGKILL)
        elif way == "stop":
            self.signal(signal.SIGSTOP)
            await value(self.session.close())


async def play_round(plan: Json, actors: list[Actor]) -> None:
    agents: dict[str, Any] = {}
    for agent in plan["agents"]:
        agents[agent["name"]] = await value(
            API.open_agent(
                executable=[AGENT, agent["script_file"]],
                dialect="acp",
                handshake_timeout=agent["handshake_timeout"],
                close_timeout=agent["close_timeout"],
            )
        )
    actors += [Actor(one, agents) for one in plan["actors"]]
    waiting = list(reversed(actors))

    async def work() -> None:
        while waiting:
            actor = waiting.pop()
            began = time.monotonic()
            await actor.play()
            if os.environ.get("KIMI_SOAK_SHOW"):
                print(
                    f"{time.monotonic() - began:.2f} s {actor.marker} calm={actor.plan['calm']} {actor.at}",
                    file=sys.stderr,
                )
            ends = [one for one in plan["agents"] if one["name"] == actor.plan["agent"] and one["end"] == "early"]
            for agent in ends:
                await value(agents[agent["name"]].close())
            if plan["collect"]:
                gc.collect()

    workers = [Beside(work) for _ in range(plan["width"])]
    for worker in workers:
        await worker.join()
    for agent in plan["agents"]:
        if agent["end"] != "drop":
            await value(agents[agent["name"]].close())
    agents.clear()


def counts() -> Json:
    """The live objects of the package."""
    gc.collect()
    things = gc.get_objects()
    ours = Counter(
        type(thing).__name__
        for thing in things
        if (type(thing).__module__ or "").startswith("kimi_agent") and not isinstance(thing, LoopMailbox)
    )
    mailboxes = [thing for thing in things if isinstance(thing, LoopMailbox)]
    waiting = sum(len(kept) for box in mailboxes for kept in (box._tickets, box._jobs, box._streams, box._handlers))
    return {"objects": dict(ours), "waiting": waiting, "threads": len(threading.enumerate())}


async def main() -> None:
    """Reads paths of plans, or "counts", to the end."""
    loop = None if BLOCKING else asyncio.get_running_loop()
    while True:
        # The loop continues meanwhile, like that of a program that waits for its next request.
        line = sys.stdin.readline() if loop is None else await loop.run_in_executor(None, sys.stdin.readline)
        if not line:
            return
        if line.strip() == "counts":
            print(json.dumps(counts()), flush=True)
            continue
        with open(line.strip()) as file:
            plan = json.load(file)
        actors: list[Actor] = []
        watchdog = threading.Timer(plan["patience"], dump, [actors, loop])
        watchdog.start()
        try:
            await play_round(plan, actors)
        finally:
            watchdog.cancel()
            del watchdog
        wrong = [f"{actor.marker}: {text}" for actor in actors for text in actor.wrong]
        del actors
        # What was dropped may be in a circle, as handlers lead to their actor.
        gc.collect()
        print(json.dumps({"wrong": wrong}), flush=True)


def dump(actors: list[Actor], loop: asyncio.AbstractEventLoop | None) -> None:
    """Says where everybody is, and ends the program."""
    for actor in actors:
        print(
            f"{actor.marker} hangs at {actor.at}" if not actor.over.is_set() else f"{actor.marker}: over",
            file=sys.stderr,
        )
    for task in asyncio.all_tasks(loop) if loop else ():
        task.print_stack(file=sys.stderr)
    faulthandler.dump_traceback(all_threads=True)
    sys.stderr.flush()
    os._exit(70)


if __name__ == "__main__":
    AGENT = os.environ["KIMI_SOAK_AGENT"]
    # The runner sends it when nothing comes any more, not even from the watchdog.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    # Some are dropped on purpose.
    warnings.filterwarnings("ignore", ".* was never closed", ResourceWarning)
    logging.getLogger("kimi_agent").addHandler(logging.NullHandler())
    drive(main()) if BLOCKING else asyncio.run(main())
