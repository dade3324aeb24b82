"""The targets of the measurements, and whether a result meets them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

__all__ = ["TARGETS", "Target", "Verdict", "judge", "targets"]

RUST, PYTHON, NODE = "kimi-agent, Rust", "kimi-agent, Python", "kimi-agent, Node"
TOKIO, SCHEMA = "tokio + serde by hand", "tokio + ACP's schema by hand"
ORJSON, JSON = "asyncio + orjson in batches", "asyncio + json"
BATCHES, OFFICIAL = "JSON.parse in batches", "official Node SDK"


@dataclass(frozen=True)
class Target:
    """A figure of this SDK. Its ratio to a peer's, or the figure itself, must be at most `limit`."""

    figure: str
    client: str
    limit: float
    peer: str = ""


TARGETS = (
    Target("events, in bulk", RUST, 0.4, TOKIO),
    Target("events, in bulk", PYTHON, 0.7, ORJSON),
    Target("events, in bulk", NODE, 0.5, BATCHES),
    Target("events, in bulk", NODE, 0.25, OFFICIAL),
    # The cost of the option `record`.
    *(Target("events, in bulk", f"{client}, recorded", 1.15, client) for client in (RUST, PYTHON, NODE)),
    Target("events, one write each", RUST, 0.8, TOKIO),
    Target("events, one write each", PYTHON, 0.8, ORJSON),
    Target("events, one write each", NODE, 0.7, BATCHES),
    Target("events, one write each", NODE, 0.4, OFFICIAL),
    Target("events, over ACP", RUST, 0.4, SCHEMA),
    Target("events, over ACP", PYTHON, 0.7, ORJSON),
    Target("events, over ACP", NODE, 0.5, BATCHES),
    Target("approval, round trip", RUST, 1.15, TOKIO),
    Target("approval, round trip", PYTHON, 1.1, JSON),
    Target("approval, round trip", NODE, 1.1, OFFICIAL),
    Target("start to first event", RUST, 1.2, TOKIO),
    Target("start to first event", PYTHON, 1.1, JSON),
    Target("start to first event", NODE, 0.45, OFFICIAL),
    Target("batch", PYTHON, 1.0, JSON),
    Target("batch", NODE, 0.9, OFFICIAL),
    Target("batch, memory", PYTHON, 1.0, JSON),
    Target("batch, memory", NODE, 0.7, OFFICIAL),
    Target("import", PYTHON, 30.0),
    *(Target("large line", client, limit) for client, limit in ((RUST, 115), (PYTHON, 130), (NODE, 165))),
    *(Target("idle session", client, limit) for client, limit in ((RUST, 16), (PYTHON, 24), (NODE, 32))),
    *(Target("threads", client, 0.0) for client in (RUST, PYTHON, NODE)),
)


@dataclass(frozen=True)
class Verdict:
    """The results for a target: the median of the rounds, the smallest and the largest."""

    target: Target
    median: float
    low: float
    high: float

    @property
    def met(self) -> bool:
        """By the median, as the page shows it: with two digits after the point."""
        return round(self.median, 2) <= round(self.target.limit, 2)


def judge(result: dict[str, Any], target: Target) -> Verdict | None:
    """Compares a result with a target. None if the result lacks the figures."""
    by_client: dict[str, list[float]] = result["figures"].get(target.figure, {})
    ours, peers = by_client.get(target.client, []), by_client.get(target.peer, [])
    if not ours or (target.peer and not peers):
        return None
    # Ratios within one round, so that a busy moment of the machine is a busy moment for both.
    values = [our / peer for our, peer in zip(ours, peers, strict=True)] if target.peer else ours
    return Verdict(target, statistics.median(values), min(values), max(values))


def targets(result: dict[str, Any]) -> str:
    """All of them, for a terminal."""
    lines = []
    for target in TARGETS:
        verdict = judge(result, target)
        if verdict:
            against = f" / {target.peer}" if target.peer else ""
            said = "met" if verdict.met else "NOT MET"
            spread = f"({verdict.low:.2f} to {verdict.high:.2f})"
            what = f"{target.figure}: {target.client}{against}"
            lines.append(f"{what:<84} <= {target.limit:6.2f}  {verdict.median:7.2f} {spread:<20} {said}")
    met = sum(line.endswith(" met") for line in lines)
    return "\n".join([*lines, f"{met} of {len(lines)} targets met"])
