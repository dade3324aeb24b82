"""The measurements of a client in Python, and their output; `rust/src/measure.rs` is the same in Rust."""

from __future__ import annotations

import contextlib
import resource
import time


def cpu_seconds() -> float:
    """User and system time of this process, without its children."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def status_kb(field: str) -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field):
                return int(line.split()[1])
    return 0


class Measure:
    """From the session being open to the turn's end."""

    def __init__(self) -> None:
        self.base_kb = status_kb("VmRSS:")
        # The high-water mark begins anew, where the system allows it.
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as clear:
            clear.write("5")
        self.first_ns: int | None = None
        self.began = time.perf_counter()
        self.cpu = cpu_seconds()

    def first(self) -> None:
        """The first event is here."""
        self.first_ns = time.monotonic_ns()

    def end(self, events: int = 0, sessions: int = 0) -> None:
        cpu, wall = cpu_seconds() - self.cpu, time.perf_counter() - self.began
        # Later than what is measured: who only reads has no need of it before.
        import json

        told = {
            "events": events,
            "sessions": sessions,
            "cpu_s": cpu,
            "wall_s": wall,
            "first_ns": self.first_ns,
            "base_kb": self.base_kb,
            "peak_kb": status_kb("VmHWM:"),
        }
        print(json.dumps(told), flush=True)
