"""Errors for attributes that programs look for on the wrong object. They name the right one."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["no_attribute", "not_iterable"]

_RESULT = frozenset({"text", "status", "output", "tool_calls", "rejected", "handler_failures", "raise_for_status"})


def no_attribute(holder: object, name: str, wait: str = "await ") -> AttributeError:
    """Returns the error for an attribute that a turn or a session does not have.

    Args:
        holder: The object without the attribute.
        name: The name of the attribute.
        wait: How the program waits for a call; empty in the blocking API.
    """
    kind = type(holder).__name__
    text = f"{kind!r} object has no attribute {name!r}"
    if kind == "Turn" and name in _RESULT:
        field = f"{name}()" if name == "raise_for_status" else name
        text += f": it is of the turn's result: `result = {wait}turn.result()`, then `result.{field}`"
    elif kind == "Session" and name == "steer":
        text += f": a steer is for a running turn: `turn = session.prompt(…)`, then `{wait}turn.steer(…)`"
    return AttributeError(text, name=name, obj=holder)


def not_iterable(holder: object, use: str) -> NoReturn:
    """Raises the error for a `for` or an `await` that an object does not support."""
    raise TypeError(f"a {type(holder).__name__} is read with {use}")
