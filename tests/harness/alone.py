"""Plays of real agents do not disturb each other.

A play begins when no other agent of its release is starting. A play whose agent ended by itself is played again, when
no other agent runs: a race in somebody else's program is not a defect of the SDK. The report names such plays.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .runners import Outcome, parallel

Job = Callable[[str], str | None]
"""Plays a case. The argument is added to the names of its folders. It returns why to play it again, if it has to be."""


class Starts:
    """Lets the agents of a release start one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_release: dict[str, threading.Lock] = {}

    @contextlib.contextmanager
    def turn(self, release: str) -> Iterator[Callable[[], None]]:
        """Waits for the turn. It ends when the function that it yields is called first, or at the end of the block."""
        with self._lock:
            turn = self._of_release.setdefault(release, threading.Lock())
        turn.acquire()
        ended = threading.Lock()

        def end() -> None:
            if ended.acquire(blocking=False):
                turn.release()

        try:
            yield end
        finally:
            end()


def own_failure(expect: list[dict[str, Any]] | None, outcome: Outcome) -> str | None:
    """Says how the agent ended by itself. `None` if it did not, or if the case expects the end of the agent."""
    exits = [line for line in outcome.lines if line.get("error") == "agent_exited"]
    if not exits or '"agent_exited"' in json.dumps(expect):
        return None
    status = exits[0].get("exit_code")
    signal = exits[0].get("signal")
    return f"its agent ended by itself, with {signal or ('no status' if status is None else f'exit code {status}')}"


def play_all(jobs: dict[str, Job], at_once: int, say: Callable[[str], None]) -> None:
    """Plays the cases, named by their titles, and then one by one those that have to be played again."""
    again: dict[str, str] = {}

    def first(title: str, job: Job) -> None:
        if reason := job(""):
            again[title] = reason

    def bound(title: str, job: Job) -> Callable[[], None]:
        return lambda: first(title, job)

    parallel([bound(title, job) for title, job in jobs.items()], at_once)
    for title, reason in sorted(again.items()):
        say(f"played again, alone: {title}: {reason}")
        jobs[title]("-again")
