"""A result as a table: a row for each client, with its ratio to ours of the same language."""

from __future__ import annotations

import statistics
from typing import Any

from measures import FIGURES
from roster import CLIENTS

__all__ = ["number", "rows", "table"]


def number(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratio(by_client: dict[str, list[float]], name: str) -> float | None:
    """Its cost relative to ours in its language: the median over the rounds."""
    language = next(client.language for client in CLIENTS if client.name == name)
    ours = next(client.name for client in CLIENTS if client.ours and client.language == language)
    if ours not in by_client or len(by_client[ours]) != len(by_client[name]):
        return None
    return statistics.median(
        peer / our if our else 1.0 for peer, our in zip(by_client[name], by_client[ours], strict=True)
    )


def rows(result: dict[str, Any], figure: str) -> list[tuple[str, str, str, str]]:
    """Client, median, range and ratio."""
    by_client: dict[str, list[float]] = result["figures"].get(figure, {})
    found = []
    for client in CLIENTS:
        if values := by_client.get(client.name):
            times = ratio(by_client, client.name)
            spread = f"{number(min(values))} to {number(max(values))}" if len(values) > 1 else ""
            found.append(
                (client.name, number(statistics.median(values)), spread, "" if times is None else f"{times:.2f}")
            )
    return found


def table(result: dict[str, Any]) -> str:
    """For a terminal."""
    lines = []
    for figure, (unit, says) in FIGURES.items():
        if figure in result["figures"]:
            lines += ["", f"{figure}{f' [{unit}]' if unit else ''}: {says}"]
            lines += [
                f"  {name:<32} {median:>8}  {spread:<20} {f'{times} x ours' if times else ''}"
                for name, median, spread, times in rows(result, figure)
            ]
    return "\n".join([*lines, ""])
