"""Errors for attributes, loops and blocks that programs try on the wrong object. They name the right one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

__all__ = ["CoroutinesOnly", "Property", "no_attribute", "not_iterable"]

_RESULT = frozenset(
    {"text", "status", "output", "tool_calls", "rejected", "handler_failures", "plan", "cost", "raise_for_status"}
)


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
    elif kind == "Session" and name == "session_id":
        text += ": it is `session.id`"
    elif kind == "Session" and (name in _RESULT or name == "result"):
        text += f": it is of a turn: `result = {wait}session.prompt(…).result()`"
    elif kind == "Session" and name == "steer":
        text += f": a steer is for a running turn: `turn = session.prompt(…)`, then `{wait}turn.steer(…)`"
    return AttributeError(text, name=name, obj=holder)


def not_iterable(holder: object, use: str) -> NoReturn:
    """Raises the error for a `for` or an `await` that an object does not support."""
    raise TypeError(f"a {type(holder).__name__} is read with {use}")


class CoroutinesOnly:
    """Refuses plain `for` and `with`, which Python would refuse without a remedy."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            not_iterable(self, "`async for`; plain `for` needs the blocking API, `kimi_agent.sync`")

        def __enter__(self) -> NoReturn:
            use = "`async with`; plain `with` needs the blocking API, `kimi_agent.sync`"
            raise TypeError(f"a {type(self).__name__} is entered with {use}")

        def __exit__(self, *_: object) -> None:
            # Python looks for `__exit__` before it calls `__enter__`.
            pass


class Property:
    """Refuses to be called: a turn has it as a property."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __call__(self, *_: object, **__: object) -> NoReturn:
            name = "text_stream" if type(self).__name__ == "TextStream" else "steps"
            raise TypeError(f"`{name}` is a property: write `turn.{name}` without parentheses")
