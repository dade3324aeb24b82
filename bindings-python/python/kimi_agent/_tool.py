"""External tools: functions of the program that the agent's model may call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ._encode import seconds

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["ExternalTool", "ToolArgumentError", "is_async"]


class ToolArgumentError(ValueError):
    """The model called a tool with arguments that do not fit; the text goes back to the model."""


class ExternalTool:
    """A tool that the agent's model can call, and the function that does the work.

    Args:
        name: what the model calls it by; must differ from the agent's own tools.
        description: tells the model what it does and when to use it.
        parameters: a JSON Schema of type "object" for the arguments.
        handler: a plain or async function that takes the arguments as a dict and returns text, any JSON
            value, a list of content parts or a `ToolReturnValue`. What it raises becomes an error result
            that the model sees. Plain functions run in a thread of their own and may block.
        timeout: seconds the handler may take, or a `timedelta`; None: as long as it likes.

    `tool` makes one from a function's signature instead.

    >>> ExternalTool("add", "Adds two numbers.", {"type": "object"}, lambda arguments: arguments["a"] + arguments["b"])
    ExternalTool('add')
    """

    __slots__ = ("_description", "_handler", "_name", "_parameters", "_timeout")

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        handler: Callable[[dict[str, Any]], Any],
        timeout: float | timedelta | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"name: expected text, got {name!r}")
        if not isinstance(description, str):
            raise TypeError(f"tool {name}: description: expected text, got {description!r}")
        if not isinstance(parameters, Mapping):
            raise TypeError(f"tool {name}: parameters: expected a JSON Schema as a dict, got {parameters!r}")
        if not callable(handler):
            raise TypeError(f"tool {name}: handler: expected a function, got {handler!r}")
        timeout = seconds(timeout)
        if timeout is not None and (
            isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0
        ):
            raise TypeError(f"tool {name}: timeout: expected seconds above 0, got {timeout!r}")
        self._name = name
        self._description = description
        self._parameters = dict(parameters)
        self._handler = handler
        self._timeout = timeout

    @property
    def name(self) -> str:
        """What the model calls it by."""
        return self._name

    @property
    def description(self) -> str:
        """What the model is told of it."""
        return self._description

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self._parameters

    @property
    def handler(self) -> Callable[[dict[str, Any]], Any]:
        """Takes the arguments as a dict, does the work."""
        return self._handler

    @property
    def timeout(self) -> float | None:
        """Seconds the handler may take."""
        return self._timeout

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"


def is_async(function: Any) -> bool:
    """Does calling it give a coroutine?"""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    # An object whose __call__ is async; functions have a __call__ too, which is none.
    return inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
