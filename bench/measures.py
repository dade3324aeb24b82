"""What is measured: what the agent does, and which figures are taken from what a client tells."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roster import AGENT, CLIENTS, Client

__all__ = ["FIGURES", "Measure", "Run", "Size", "measures", "play"]

MIB = 1 << 20
HANG = 600


@dataclass(frozen=True)
class Size:
    """How much is done."""

    rounds: int
    starts: int
    events: int
    asks: int
    sessions: int


@dataclass(frozen=True)
class Run:
    """What one process told of itself, and the agent of its questions."""

    told: dict[str, Any]
    began_ns: int
    trips_ns: list[int]
    size: Size

    def cpu_us_an_event(self) -> float:
        return float(self.told["cpu_s"]) * 1e6 / self.size.events

    def cpu_us_an_ask(self) -> float:
        return float(self.told["cpu_s"]) * 1e6 / len(self.trips_ns)

    def trip_us(self) -> float:
        return statistics.median(self.trips_ns) / 1e3

    def first_ms(self) -> float:
        return float(self.told["first_ns"] - self.began_ns) / 1e6

    def cpu_ms_a_session(self) -> float:
        return float(self.told["cpu_s"]) * 1e3 / self.size.sessions

    def peak_mb(self) -> float:
        return float(self.told["peak_kb"]) * 1024 / 1e6


@dataclass(frozen=True)
class Measure:
    """A run of every client that takes part in `task`."""

    name: str
    task: str
    plan: dict[str, Any]
    figures: dict[str, Callable[[Run], float]]
    rounds: int
    one_cpu: bool = False
    env: dict[str, str] = field(default_factory=dict)


# Each figure by its name, with its unit and what it says.
FIGURES = {
    "events, in bulk": ("µs", "client CPU an event, the agent writing all at once"),
    "events, one write each": ("µs", "client CPU an event, the agent writing each by itself"),
    "events, over ACP": ("µs", "client CPU an event of the Agent Client Protocol, the agent writing all at once"),
    "approval, round trip": ("µs", "median time from the agent's question to the answer, both on one CPU"),
    "approval, CPU": ("µs", "client CPU an approval, both on one CPU"),
    "tool call, round trip": ("µs", "median time from the agent's call to the result, both on one CPU"),
    "start to first event": ("ms", "time from the start of the client's process, the agent's start included"),
    "import": ("ms", "CPU time of `import kimi_agent`, where asyncio is imported already"),
    "sessions": ("ms", "client CPU a session, opened, with a turn of two events, and kept open"),
    "large line": ("MB", "peak memory of the process with a line of 50 MiB"),
    "slow reader": ("MB", "growth of the process while 200,000 events wait for a slow reader, by default options"),
    "idle session": ("KB", "memory for each of 199 idle sessions"),
    "descriptors": ("", "descriptors for each idle session"),
    "threads": ("", "threads that 199 more sessions add"),
}


def measures(size: Size) -> list[Measure]:
    """All that play the fast agent."""
    asks = {"ask_count": size.asks}
    stream = {"events": size.events}
    return [
        Measure(
            "events in bulk", "events", {**stream, "writes": "bulk"},
            {"events, in bulk": Run.cpu_us_an_event}, size.rounds,
        ),
        Measure(
            "events in a write each", "events", {**stream, "writes": "single"},
            {"events, one write each": Run.cpu_us_an_event}, size.rounds,
        ),
        Measure(
            "events over ACP in bulk", "acp", {**stream, "writes": "bulk"},
            {"events, over ACP": Run.cpu_us_an_event}, size.rounds,
        ),
        Measure(
            "approvals", "approvals", {"asks": "approval", **asks},
            {"approval, round trip": Run.trip_us, "approval, CPU": Run.cpu_us_an_ask}, size.rounds, one_cpu=True,
        ),
        Measure(
            "tool calls", "tools", {"asks": "tool", **asks},
            {"tool call, round trip": Run.trip_us}, size.rounds, one_cpu=True,
        ),
        Measure("starts", "start", {}, {"start to first event": Run.first_ms}, size.starts),
        Measure(
            f"{size.sessions} sessions", "sessions", {},
            {"sessions": Run.cpu_ms_a_session}, size.rounds, env={"BENCH_SESSIONS": str(size.sessions)},
        ),
        Measure("a line of 50 MiB", "large", {"line": 50 * MIB}, {"large line": Run.peak_mb}, min(size.rounds, 3)),
    ]  # fmt: skip


def play(client: Client, measure: Measure, size: Size) -> Run:
    """Runs the client once."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        trips = Path(folder) / "trips.json"
        env = {
            **os.environ,
            **measure.env,
            "BENCH_TASK": measure.task,
            "BENCH_PLAN": json.dumps(measure.plan),
            "BENCH_REPORT": str(trips),
        }
        argv = [*(("taskset", "-c", "0") if measure.one_cpu else ()), *client.argv, str(AGENT)]
        began = time.monotonic_ns()
        done = subprocess.run(argv, env=env, cwd=folder, stdout=subprocess.PIPE, text=True, timeout=HANG, check=False)
        if done.returncode or not done.stdout:
            raise SystemExit(f"{client.name} failed at {measure.name!r}: exit {done.returncode}")
        told = json.loads(done.stdout.splitlines()[-1])
        asked = json.loads(trips.read_text("utf-8")) if measure.plan.get("ask_count") else []
        return Run(told, began, asked, size)


def taking_part(measure: Measure, chosen: list[str]) -> list[Client]:
    """The clients that can do it."""
    return [
        client
        for client in CLIENTS
        if measure.task in client.tasks and (not chosen or any(part in client.name for part in chosen))
    ]
