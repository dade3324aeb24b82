"""The measured cases: the agent's script, and the figures taken from a client's output."""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roster import AGENT, CLIENTS, SCRIPTED, Client

__all__ = ["FIGURES", "Measure", "Run", "Size", "measures", "play"]

MIB = 1 << 20
HANG = 600
# The jobs of a batch that run at once.
CONCURRENCY = 32


@dataclass(frozen=True)
class Size:
    """How much is done."""

    rounds: int
    starts: int
    events: int
    asks: int
    sessions: int
    pieces: int
    server_asks: int
    jobs: int


@dataclass(frozen=True)
class Run:
    """The figures of one process, and the agent's of its questions."""

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

    def cpu_us_a_piece(self) -> float:
        return float(self.told["cpu_s"]) * 1e6 / self.size.pieces

    def server_trip_us(self) -> float:
        return float(self.told["wall_s"]) * 1e6 / self.size.server_asks

    def server_cpu_us_an_ask(self) -> float:
        return float(self.told["cpu_s"]) * 1e6 / self.size.server_asks

    def growth_mb(self) -> float:
        return (float(self.told["peak_kb"]) - float(self.told["base_kb"])) * 1024 / 1e6

    def growth_kb_a_session(self) -> float:
        return self.growth_mb() * 1e3 / self.size.sessions

    def cpu_ms_a_job(self) -> float:
        finished, jobs = self.told["sessions"], self.size.jobs
        if finished != jobs:
            raise SystemExit(f"{finished} of {jobs} jobs of a batch have finished")
        return float(self.told["cpu_s"]) * 1e3 / jobs

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
    script: Any = None
    """The script of the scripted agent, which takes the place of the fast one."""


# Each figure by its name, with its unit and what it says.
FIGURES = {
    "events, in bulk": ("µs", "client CPU an event, the agent writing all with one call"),
    "events, one write each": ("µs", "client CPU an event, the agent writing each by itself"),
    "events, over ACP": ("µs", "client CPU an event of the Agent Client Protocol, the agent writing all with one call"),
    "approval, round trip": ("µs", "median time from the agent's question to the answer, both on one CPU"),
    "approval, CPU": ("µs", "client CPU an approval, both on one CPU"),
    "tool call, round trip": ("µs", "median time from the agent's call to the result, both on one CPU"),
    "start to first event": ("ms", "time from the start of the client's process, the agent's start included"),
    "start of a replayed agent": (
        "ms",
        "time from the start of an agent that plays a recording to its handshake result",
    ),
    "import": ("ms", "CPU time of `import kimi_agent`, where asyncio is imported already"),
    "sessions": ("ms", "client CPU a session, opened, with a turn of two events, and kept open"),
    "large line": ("MB", "peak memory of the process with a line of 50 MiB"),
    "server, text": ("µs", "client CPU a piece of text from Kimi Code's server, each in a frame of its own"),
    "server, memory of the text": ("MB", "growth of the client's process in such a turn, at its peak"),
    "server, approval": ("µs", "time of an approval over Kimi Code's server with the agent's work, both on one CPU"),
    "server, approval, CPU": ("µs", "client CPU an approval over Kimi Code's server, both on one CPU"),
    "server, sessions": ("ms", "client CPU a session of one process of Kimi Code's server, with a turn, and kept open"),
    "server, memory a session": ("KB", "growth of the client's process for such a session, at its peak"),
    "batch": ("ms", "client CPU a job of a batch, 32 concurrently, each with a session and a turn of its own"),
    "batch, memory": ("MB", "peak memory of the client's process in such a batch"),
    "slow reader": ("MB", "growth of the process while 200,000 events wait for a slow reader, by default options"),
    "idle session": ("KB", "memory for each of 199 idle sessions"),
    "descriptors": ("", "descriptors for each idle session"),
    "threads": ("", "threads that 199 more sessions add"),
}


def measures(size: Size) -> list[Measure]:
    """All that play the fast agent."""
    asks = {"ask_count": size.asks}
    stream = {"events": size.events}
    call = {"name": "Bash", "arguments": {"command": "ls"}, "approve": {"description": "ls"}, "result": "ok"}
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
        Measure(
            "server: text", "server", {},
            {"server, text": Run.cpu_us_a_piece, "server, memory of the text": Run.growth_mb}, size.rounds,
            script=repeated(size.pieces, {"text": "word "}),
        ),
        Measure(
            "server: approvals", "server", {},
            {"server, approval": Run.server_trip_us, "server, approval, CPU": Run.server_cpu_us_an_ask}, size.rounds,
            one_cpu=True, script=repeated(size.server_asks, {"tool_call": call}),
        ),
        Measure(
            f"server: {size.sessions} sessions", "server sessions", {},
            {"server, sessions": Run.cpu_ms_a_session, "server, memory a session": Run.growth_kb_a_session},
            size.rounds, env={"BENCH_SESSIONS": str(size.sessions)}, script=[[{"text": "Hello"}]],
        ),
        Measure(
            f"a batch of {size.jobs} jobs", "batch", {},
            {"batch": Run.cpu_ms_a_job, "batch, memory": Run.peak_mb}, size.rounds,
            env={"BENCH_JOBS": str(size.jobs), "BENCH_CONCURRENCY": str(CONCURRENCY)}, script=[[{"text": "Hello"}]],
        ),
    ]  # fmt: skip


def repeated(times: int, action: dict[str, Any]) -> Any:
    """A script of one turn that does this so often."""
    return [[{"repeat": {"times": times, "actions": [action]}}]]


def agent_of(measure: Measure, folder: Path) -> Path:
    """The program that plays the agent; with a script, one that needs no other argument for it."""
    if measure.script is None:
        return AGENT
    script, program = folder / "script.json", folder / "agent"
    script.write_text(json.dumps(measure.script), "utf-8")
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(str(SCRIPTED))} {script} "$@"\n', "utf-8")
    program.chmod(0o755)
    return program


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
        pinned = ("taskset", "-c", "0") if measure.one_cpu else ()
        argv = [*pinned, *client.argv, str(agent_of(measure, Path(folder)))]
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
