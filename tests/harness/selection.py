"""A selection of scenarios: few that together have all that a binding translates.

The bindings do not see the protocol, and the blocking API of Python is generated. So a run plays all scenarios where a
difference can arise. Elsewhere it plays as many as it takes to have each operation, option, action of an agent, event,
result and error once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from .scenario import LANGUAGES, Scenario

T = TypeVar("T")
# Python's blocking API plays a selection over Wire. Over other protocols it adds nothing to the coroutines.
FULL = {"Wire": ("rust", "python", "node")}
SELECTED = {"Wire": ("python-sync",)}
FULL_ELSEWHERE, SELECTED_ELSEWHERE = ("rust",), ("python", "node")


def covering(items: Iterable[T], features: Callable[[T], set[str]]) -> list[T]:
    """The items, in their order, of a small set that has each feature that any item has."""
    rest = list(items)
    owned = {id(item): features(item) for item in rest}
    missing = set[str]().union(*owned.values())
    chosen: list[T] = []
    for item in sorted(rest, key=lambda item: -len(owned[id(item)])):
        if owned[id(item)] & missing:
            chosen.append(item)
            missing -= owned[id(item)]
    # A large item may have made an earlier one needless.
    for item in list(chosen):
        others = set[str]().union(*(owned[id(other)] for other in chosen if other is not item))
        if owned[id(item)] <= others:
            chosen.remove(item)
    kept = {id(item) for item in chosen}
    return [item for item in rest if id(item) in kept]


def features(scenario: Scenario) -> set[str]:
    """What a scenario has that a binding translates."""
    options = [scenario.data.get("options", {}), *(op.get("options", {}) for op in scenario.data["program"])]
    return {
        *(f"option {name}" for given in options for name in _members(given)),
        *(f"operation {op['op']}.{name}" for op in scenario.data["program"] for name in ("", *_members(op))),
        *(f"action {name}" for name in _actions(scenario.data["agent"].get("script", []))),
        *(name for line in scenario.expect or [] for name in _shown(line)),
    }


def left_out(scenarios: list[Scenario], protocol: str) -> dict[str, set[str]]:
    """The names of the scenarios that a run leaves out, by language."""
    full = FULL.get(protocol, FULL_ELSEWHERE)
    selected = SELECTED.get(protocol, SELECTED_ELSEWHERE)
    # What a language is declared not to play covers nothing.
    left = {language: {one.name for one in scenarios} for language in LANGUAGES if language not in full}
    for language in selected:
        able = [one for one in scenarios if not one.skipped(language)]
        left[language] -= {one.name for one in covering(able, features)}
    return left


def _members(given: dict[str, Any]) -> Iterator[str]:
    """The names of the members, and of their members."""
    for name, value in given.items():
        yield name
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict) and name not in ("options", "env", "config"):
                yield from (f"{name}.{key}" for key in inner)


def _actions(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _actions(item)
    elif isinstance(value, dict):
        yield from value


def _shown(line: dict[str, Any]) -> Iterator[str]:
    event = line.get("event")
    if isinstance(event, dict):
        payload = event.get("payload")
        members = payload if isinstance(payload, dict) else {}
        yield from (f"event {event.get('type')}.{name}" for name in ("", *members))
    for name in ("error", "handler", "status"):
        if isinstance(line.get(name), str):
            yield f"{name} {line[name]}"
    if "op" in line:
        yield from (f"outcome {line['op']}.{name}" for name in line)
