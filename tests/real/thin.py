"""Chooses among recordings: what shows nothing that others don't is left out, as they are kept small."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The order of messages matters in these, and their forms do not show it.
ALWAYS = frozenset({"cancel_in_stream", "cancel_with_approval_pending"})
# The model's own words have no shape of the protocol's.
_FREE = frozenset({"arguments", "input_data", "parameters", "answers"})

Shape = tuple[str, ...]


def types(value: Any) -> Iterator[Shape]:
    """The types of messages in a message."""
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            yield ("type", value["type"])
        for name, inner in value.items():
            if name not in _FREE:
                yield from types(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from types(inner)


def fields(value: Any, path: Shape = ()) -> Iterator[Shape]:
    """The fields that a message has, apart from those that say nothing."""
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            path = (*path[-1:], value["type"]) if "payload" not in value else (value["type"],)
        for name, inner in value.items():
            if name not in _FREE and inner not in (None, ""):
                yield (*path, name)
                yield from fields(inner, (*path, name))
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner, path)


def read(path: Path) -> tuple[set[Shape], set[Shape]]:
    """The parts of the protocol in a recording: those that each version has to show, and those that are enough once."""
    calls: dict[str, str] = {}
    each: set[Shape] = set()
    once: set[Shape] = set()
    for row in path.read_text("utf-8").split("\n"):
        message = json.loads(row[2:]) if row else {}
        method = message.get("method")
        if method in ("event", "request"):
            each |= set(types(message["params"]))
            once |= set(fields(message["params"]))
            if "replay" in calls.values():
                once.add(("replayed", str(message["params"]["type"])))
        elif method:
            calls[message["id"]] = method
            each.add(("call", method))
        elif row.startswith("<"):
            call = calls.pop(message["id"], "")
            result = message.get("result") or {}
            once |= set(fields(result, (call,)))
            once.add((call, str(result.get("status")), str(message.get("error", {}).get("code"))))
    return each, once


def superfluous(folder: Path, releases: dict[str, str]) -> list[Path]:
    """The recordings that can go, the newest of the releases (with their versions) being asked first."""
    seen: set[Shape] = set()
    by_version: dict[str, set[Shape]] = {}
    dropped: list[Path] = []
    for release, version in reversed(releases.items()):
        left = {path: read(path) for path in sorted((folder / release).glob("*.wire"))}
        mine = by_version.setdefault(version, set())
        for path in [path for path in left if path.stem in ALWAYS]:
            each, once = left.pop(path)
            mine |= each
            seen |= once
        while left:
            news = {path: len(each - mine) + len(once - seen) for path, (each, once) in left.items()}
            best = max(left, key=lambda path: news[path] / path.stat().st_size)
            if not news[best]:
                break
            each, once = left.pop(best)
            mine |= each
            seen |= once
        dropped += left
    return dropped
