"""Plays the scenarios with Python: `play.py async` or `play.py sync`.

Reads them from stdin, and prints the recorded spans and metrics.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from recorder import Recorder

from kimi_agent import ExternalTool, KimiAgentError, Reject, create_session, prompt, run_batch, sync
from kimi_agent.testing import scripted_agent


def options(scenario: dict[str, Any], recorder: Recorder) -> dict[str, Any]:
    """The options of the session of a scenario."""

    def add(_: Any) -> str:
        with recorder.tracer.start_as_current_span("work"):
            return "3"

    def fail(_: Any) -> Any:
        raise ValueError("broken on purpose")

    answers = {"approve": lambda _: "approve", "reject": lambda _: Reject("not now"), "fail": fail}
    tools = [("add", add), ("broken", fail)] if scenario.get("tools") else []
    return {
        **scenario.get("options", {}),
        "executable": scripted_agent({**scenario.get("script", {}), "turns": scenario["turns"]}),
        "output": scenario.get("output"),
        "on_approval": answers.get(scenario.get("on_approval", "")),
        "tools": [ExternalTool(name, "", {"type": "object"}, handler) for name, handler in tools],
        "telemetry": recorder.telemetry(scenario.get("capture_content")),
    }


async def finish(turn: Any, cancel_at: str | None) -> None:
    """Waits for the end of a turn, and cancels it at the first event of a type."""
    try:
        if cancel_at is not None:
            async for event in turn:
                if type(event).__name__ == cancel_at:
                    await turn.cancel()
        await turn.result()
    except KimiAgentError:
        # The span has it.
        pass


def finish_blocking(turn: Any, cancel_at: str | None) -> None:
    """The same, blocking."""
    try:
        if cancel_at is not None:
            for event in turn:
                if type(event).__name__ == cancel_at:
                    turn.cancel()
        turn.result()
    except KimiAgentError:
        # The span has it.
        pass


async def play(scenario: dict[str, Any], recorder: Recorder) -> None:
    """Plays a scenario with the asynchronous API."""
    given, cancel_at = options(scenario, recorder), scenario.get("cancel_at")
    if scenario.get("one_shot"):
        with recorder.tracer.start_as_current_span("caller"):
            await finish(prompt("Go", **given), cancel_at)
        return
    if "jobs" in scenario:
        with recorder.tracer.start_as_current_span("caller"):
            assert [result.error async for result in run_batch(scenario["jobs"], concurrency=1, **given)] == [
                None,
                None,
            ]
        return
    async with create_session(**given) as session:
        if scenario.get("without_caller"):
            await finish(session.prompt("Go"), cancel_at)
        else:
            with recorder.tracer.start_as_current_span("caller"):
                await finish(session.prompt("Go"), cancel_at)


def play_blocking(scenario: dict[str, Any], recorder: Recorder) -> None:
    """Plays a scenario with the blocking API."""
    given, cancel_at = options(scenario, recorder), scenario.get("cancel_at")
    if scenario.get("one_shot"):
        with recorder.tracer.start_as_current_span("caller"):
            finish_blocking(sync.prompt("Go", **given), cancel_at)
        return
    if "jobs" in scenario:
        with recorder.tracer.start_as_current_span("caller"):
            assert [result.error for result in sync.run_batch(scenario["jobs"], concurrency=1, **given)] == [None, None]
        return
    with sync.create_session(**given) as session:
        if scenario.get("without_caller"):
            finish_blocking(session.prompt("Go"), cancel_at)
        else:
            with recorder.tracer.start_as_current_span("caller"):
                finish_blocking(session.prompt("Go"), cancel_at)


def main() -> None:
    found: dict[str, Any] = {}
    for scenario in json.load(sys.stdin):
        recorder = Recorder()
        if sys.argv[1] == "sync":
            play_blocking(scenario, recorder)
        else:
            asyncio.run(play(scenario, recorder))
        found[scenario["name"]] = recorder.recorded()
        recorder.meters.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
