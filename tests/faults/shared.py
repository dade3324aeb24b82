"""Sessions that share a process: its exit ends all of them, and the faults of one do not affect the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from .ends import WAYS
from .fault import AGENTS, DONE, FINISHED, Fault, Outcome, Step, error, step

AGENT = (sys.executable, "-I", "-S", str(AGENTS / "many.py"))
OPEN_AGENT = step("open_agent", options={"dialect": "acp"})
CLOSE_AGENT = step("close_agent")

FATAL: dict[str, str] = {"TERM": "signal TERM", "KILL": "signal KILL", "exit 0": "exit 0", "exit 3": "exit 3"}
"""The prompt for an agent that is to end in that way."""
BYTES = 1 << 20


def _open(session: str, outcome: Outcome | None = None, **options: Any) -> Step:
    return step("open", outcome or DONE, agent="agent", session=session, options=options)


def _prompt(session: str, words: str, outcome: Outcome | None = None) -> Step:
    return step("prompt", outcome or DONE, session=session, input=words, **{"as": session})


def _of(session: str, op: str, outcome: Outcome | None = None, **fields: Any) -> Step:
    """An operation on the session's turn."""
    return step(op, outcome or DONE, **{"as": session}, **fields)


def _works(session: str, number: int) -> tuple[Step, ...]:
    """A turn that hears what this session is called."""
    said = {**FINISHED, "text": f"I am session-{number}."}
    return (_prompt(session, "who"), _of(session, "result", said))


def _both_end(words: str, end: Outcome) -> tuple[Step, ...]:
    """One session's prompt ends the process while another's turn runs; then the agent gets a new one."""
    return (
        OPEN_AGENT, _open("a"), _open("b"),
        _prompt("a", "hang"), _of("a", "next", count=3),
        _prompt("b", words), _of("b", "result", end), _of("a", "result", end),
        _prompt("a", "who", end), _prompt("b", "who", end),
        step("close", session="a"),
        _open("c"), *_works("c", 1),
        CLOSE_AGENT, step("state", {"state": "closed"}, session="c"),
    )  # fmt: skip


def deaths() -> Iterator[Fault]:
    family = "a process that sessions share ends"
    for way, (_, end) in WAYS.items():
        yield Fault(family, f"shared_{way}".replace(" ", "_"), _both_end(FATAL[way], end), command=AGENT)
    closed = error("agent_exited", "^the agent closed its pipes")
    yield Fault(family, "shared_stdout_closed", _both_end("close", closed), command=AGENT)
    too_long = error("protocol_error", f"{BYTES}")
    yield Fault(
        "a line over `max_line_bytes` in a process that sessions share",
        "shared_line_too_long",
        _both_end(f"line {BYTES + 1}", too_long),
        command=AGENT,
        options={"max_line_bytes": BYTES},
    )


def neighbours() -> Iterator[Fault]:
    family = "another session of the process"
    opened = (OPEN_AGENT, _open("a"), _open("b"))
    yield Fault(
        f"{family} does not answer",
        "shared_silent",
        (*opened, _prompt("a", "hang"), *_works("b", 2), *_works("b", 2), _of("a", "cancel"),
         _of("a", "result", {"status": "cancelled"}), *_works("a", 1), CLOSE_AGENT),
        command=AGENT,
    )  # fmt: skip
    yield Fault(
        f"{family} waits for an approval",
        "shared_approval",
        (OPEN_AGENT, _open("a", on_approval="manual"), _open("b"),
         _prompt("a", "ask"), _of("a", "next", until="ApprovalRequest"),
         *_works("b", 2), *_works("b", 2),
         _of("a", "respond", answer="approve"), _of("a", "result", {**FINISHED, "text": "yes"}), CLOSE_AGENT),
        command=AGENT,
    )  # fmt: skip
    yield Fault(
        f"{family} reads none of 2 MiB",
        "shared_unread",
        (*opened, _prompt("a", "pour 32"), *_works("b", 2), _of("a", "result", FINISHED), CLOSE_AGENT),
        command=AGENT,
    )
    full = error("event_buffer_full", "16777216 bytes unread")
    yield Fault(
        f"{family} reads none of 24 MiB",
        "shared_flood",
        (*opened, _prompt("a", "pour 384"), *_works("b", 2), _of("a", "result", full), _prompt("a", "who", full),
         step("close", session="a"), *_works("b", 2), _open("c"), *_works("c", 3), CLOSE_AGENT),
        command=AGENT,
    )  # fmt: skip


def faults() -> Iterator[Fault]:
    """All of them."""
    yield from deaths()
    yield from neighbours()
