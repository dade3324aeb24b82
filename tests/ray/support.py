"""Helpers of the tests with a cluster."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray

from kimi_agent.testing import scripted_agent

__all__ = ["DEADLINE", "Gate", "agents", "echo", "eventually", "waited"]

DEADLINE = 120.0
"""Seconds. Nothing takes that long."""


def echo() -> list[str]:
    """An agent that repeats the prompt."""
    return scripted_agent([[{"text": "You said: {{prompt}}"}]])


class Gate:
    """Holds agents in the middle of their turns, and knows the nodes that they run on.

    An agent asks for an approval, and then waits for a file. The handler `on_approval` of `options` runs in the actor.
    """

    def __init__(self, folder: Path) -> None:
        self._turns = folder / "turns"
        self._turns.mkdir()
        self._go = folder / "go"

    @property
    def options(self) -> dict[str, Any]:
        turns = self._turns

        def approve(request: Any) -> str:
            name = f"{ray.get_runtime_context().get_node_id()}.{os.getpid()}.{time.monotonic_ns()}"
            (turns / name).touch()
            return "approve"

        turn = [
            {"tool_call": {"name": "Shell", "approve": True, "result": "ok"}},
            {"wait_file": str(self._go)},
            {"text": "You said: {{prompt}}"},
        ]
        return {"executable": scripted_agent([turn]), "on_approval": approve}

    def nodes(self) -> list[str]:
        """The id of the node of each turn that has begun."""
        return [turn.name.split(".")[0] for turn in self._turns.iterdir()]

    def actors(self) -> set[str]:
        """The actors that have run a turn, by node and process."""
        return {turn.name.rpartition(".")[0] for turn in self._turns.iterdir()}

    def open(self) -> None:
        """Lets all turns end."""
        self._go.touch()


def agents(executable: list[str]) -> set[int]:
    """The processes of an agent, by its script (Linux)."""
    found: set[int] = set()
    for folder in Path("/proc").iterdir():
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if executable[-1].encode() in arguments:
            found.add(int(folder.name))
    return found


def waited(condition: Callable[[], bool]) -> bool:
    """Waits until a condition holds that no event reports."""
    until = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


async def eventually(condition: Callable[[], bool]) -> bool:
    """The same while the event loop runs."""
    return await asyncio.to_thread(waited, condition)
