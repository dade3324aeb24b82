"""Errors for attributes, loops and blocks that programs try on the wrong object. They name the right one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["CoroutinesOnly", "MadeByFunction", "Property", "clear_arguments", "no_attribute", "not_iterable"]

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
    elif kind in ("ApprovalRequest", "QuestionRequest") and name == "respond":
        text += (
            ": an answer is given to its turn: `await turn.respond(request, …)`, without `await` in the blocking API"
        )
    return AttributeError(text, name=name, obj=holder)


def not_iterable(holder: object, use: str) -> NoReturn:
    """Raises the error for a `for` or an `await` that an object does not support."""
    raise TypeError(f"a {type(holder).__name__} is read with {use}")


def clear_arguments(function: Callable[P, R], name: str | None = None) -> Callable[P, R]:
    """Gives a function clear errors for wrong arguments, with the nearest name.

    Args:
        function: The function.
        name: The name that the program calls. Default: that of the function.
    """
    called = name or function.__name__

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            # The error of the call itself has no frame of the function.
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            raise TypeError(_wrong_arguments(called, function, error, kwargs)) from None

    return call


def _wrong_arguments(called: str, function: Callable[..., Any], error: TypeError, named: dict[str, Any]) -> str:
    # Imported here, because they take long to import.
    import difflib
    import inspect

    parameters = [
        each for each in inspect.signature(function).parameters.values() if each.name not in ("self", "cls", "_cls")
    ]
    names = [each.name for each in parameters if each.kind is not inspect.Parameter.POSITIONAL_ONLY]
    other = next((name for name in named if name not in names), None)
    if other is not None:
        near = difflib.get_close_matches(other, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(names)}"
        return f"{called}() has no parameter {other!r}; {hint}"
    text = str(error)
    if "missing" in text:
        needed = ", ".join(each.name for each in parameters if each.default is inspect.Parameter.empty)
        rest = f"; it has the parameters {', '.join(names)}" if len(names) > 1 else ""
        return f"{called}() needs {needed}{rest}"
    return f"{called}(){text[text.index(')') + 1 :] if ')' in text else f': {text}'}"


class MadeByFunction:
    """Refuses a call of the class: only a function of the SDK makes its objects, from objects of the core."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            if not (args and type(args[0]).__module__.startswith("kimi_agent")):
                by = _MADE_BY.get(cls.__name__, "a method of the session or of the turn")
                raise TypeError(f"{cls.__name__} is not called to make an object: call {by}")
            return super().__new__(cls)


_MADE_BY = {
    "Agent": "`open_agent()`",
    "Batch": "`run_batch()`",
    "Replay": "`session.replay()`",
    "Session": "`create_session()`",
    "Turn": "`session.prompt()`",
}


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
