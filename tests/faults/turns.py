"""The faults that ACP and Kimi Code's server share: a full turn, parts of messages, and deaths at calls."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harness.trace import Line

from .ends import WAYS, sweep
from .fault import Fault, Step
from .lines import Raw

Script = Callable[..., dict[str, Any]]
"""Makes the script of an agent that speaks the protocol."""

ANSWERS: dict[str, Any] = {"on_approval": {"answers": ["approve"]}, "on_question": {"answers": [{"Which?": "A"}]}}
"""The handlers for the requests of a full turn."""
KILLS = ("KILL", "exit 0")


def full_turn(*last: dict[str, Any]) -> list[dict[str, Any]]:
    """A turn with one of everything; `last` comes before its last text."""
    return [
        {"think": "Hm."},
        {"text": ["One ", "two."]},
        {
            "tool_call": {
                "id": "c1",
                "name": "Bash",
                "arguments": {"command": "ls"},
                "approve": {"id": "a1", "action": "run command", "description": "ls"},
                "result": "a.txt",
            }
        },
        {"question": {"id": "c2", "request_id": "q1", "questions": [{"question": "Which?", "options": ["A", "B"]}]}},
        *last,
        {"text": "Done."},
    ]


def part(text: str) -> Raw:
    """A text without the end of its line."""
    return {"raw_base64": base64.b64encode(text.encode()).decode()}


def name_of(*words: object) -> str:
    return "_".join(map(str, words)).replace(" ", "_")


def killed_at_calls(
    title: str, prefix: str, way: str, calls: Mapping[str, tuple[Step, ...]], script: Script, options: dict[str, Any]
) -> Iterator[Fault]:
    """The agent is killed when it has read a call."""
    for method, steps in calls.items():
        yield Fault(
            f"{title}: killed when a call has come, before its answer: {way}",
            name_of(prefix, "killed", way, "at", method),
            steps,
            script([[{"text": "a"}, {"wait_cancel": True}]], cut={"call": method, "actions": [WAYS[way][0]]}),
            options=options,
        )


def swept(
    traces: dict[str, dict[str, list[Line]]], title: str, prefix: str, numbers: Sequence[int], most: int
) -> Iterator[str]:
    """As `ends.swept`, with at most this many events between two runs."""
    for language, outcomes in traces.items():
        for way in KILLS:
            runs = [outcomes[name_of(prefix, "killed", way, f"{number:02}")] for number in numbers]
            yield from sweep(f"{language}, {title}, {way}", runs, most=most)
