"""What we hold ourselves to, and whether a result keeps it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

__all__ = ["TARGETS", "Target", "Verdict", "judge", "targets"]

RUST, PYTHON, NODE = "kimi-agent, Rust", "kimi-agent, Python", "kimi-agent, Node"
BLOCKING = "kimi-agent, Python, blocking"
LIMIT, TOKIO, WIRE = "read + memchr (the limit)", "tokio + serde by hand", "kimi-wire 0.5"
ORJSON, JSON = "asyncio + orjson in batches", "asyncio + json"
BATCHES, OFFICIAL = "JSON.parse in batches", "official Node SDK"


@dataclass(frozen=True)
class Target:
    """A figure of ours: its ratio to a peer's, or the difference, or itself, is to be no more than `limit`."""

    figure: str
    client: str
    limit: float
    peer: str = ""
    how: str = "ratio"


TARGETS = (
    Target("events, in bulk", RUST, 1 / 3, TOKIO),
    Target("events, in bulk", RUST, 1 / 5, WIRE),
    Target("events, in bulk", PYTHON, 1 / 2, ORJSON),
    Target("events, in bulk", PYTHON, 1 / 8, JSON),
    Target("events, in bulk", BLOCKING, 1.0, PYTHON),
    Target("events, in bulk", NODE, 1 / 2, BATCHES),
    Target("events, in bulk", NODE, 1 / 4, OFFICIAL),
    Target("events, one write each", RUST, 0.8, TOKIO),
    Target("events, one write each", PYTHON, 0.6, ORJSON),
    Target("events, one write each", NODE, 1 / 3, OFFICIAL),
    Target("approval, round trip", RUST, 1.4, LIMIT),
    Target("approval, round trip", PYTHON, 0.7, JSON),
    Target("approval, round trip", NODE, 0.85, OFFICIAL),
    Target("approval, CPU", NODE, 0.5, OFFICIAL),
    Target("start to first event", RUST, 1.0, LIMIT, how="over"),
    Target("start to first event", PYTHON, 1.1, JSON),
    Target("start to first event", NODE, 0.5, OFFICIAL),
    Target("import", PYTHON, 30.0, how="itself"),
    Target("sessions", PYTHON, 0.5, JSON),
    Target("sessions", NODE, 0.25, OFFICIAL),
    *(Target("large line", client, limit, how="itself") for client, limit in ((RUST, 125), (PYTHON, 125), (NODE, 170))),
    *(Target("slow reader", client, 1.0, how="itself") for client in (RUST, PYTHON, NODE)),
    *(Target("idle session", client, 8.0, how="itself") for client in (RUST, PYTHON, NODE)),
    *(Target("descriptors", client, 3.0, how="itself") for client in (RUST, PYTHON, NODE)),
    *(Target("threads", client, 0.0, how="itself") for client in (RUST, PYTHON, NODE)),
)


@dataclass(frozen=True)
class Verdict:
    """What was measured of a target: the median of the rounds, the smallest and the largest."""

    target: Target
    median: float
    low: float
    high: float

    @property
    def met(self) -> bool:
        """By the median, as it is told: to two digits behind the point."""
        return round(self.median, 2) <= round(self.target.limit, 2)


def judge(result: dict[str, Any], target: Target) -> Verdict | None:
    """None if the result has not what it takes."""
    by_client: dict[str, list[float]] = result["figures"].get(target.figure, {})
    ours, peers = by_client.get(target.client, []), by_client.get(target.peer, [])
    if not ours or (target.peer and not peers):
        return None
    if target.how == "itself":
        values = ours
    elif target.how == "over":
        values = [our - peer for our, peer in zip(ours, peers, strict=True)]
    else:
        # Within one round, so that a busy moment of the machine is a busy moment for both.
        values = [our / peer for our, peer in zip(ours, peers, strict=True)]
    return Verdict(target, statistics.median(values), min(values), max(values))


def targets(result: dict[str, Any]) -> str:
    """All of them, for a terminal."""
    lines = []
    for target in TARGETS:
        verdict = judge(result, target)
        if verdict:
            against = {"ratio": f" / {target.peer}", "over": f" - {target.peer}"}.get(target.how, "")
            said = "met" if verdict.met else "NOT MET"
            spread = f"({verdict.low:.2f} to {verdict.high:.2f})"
            what = f"{target.figure}: {target.client}{against}"
            lines.append(f"{what:<84} <= {target.limit:6.2f}  {verdict.median:7.2f} {spread:<20} {said}")
    met = sum(line.endswith(" met") for line in lines)
    return "\n".join([*lines, f"{met} of {len(lines)} targets met"])
