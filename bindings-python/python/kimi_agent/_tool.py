"""`ExternalTool`: a function of the program that the model can call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ._encode import seconds
from ._tool_context import context_parameter

if TYPE_CHECKING:
    from datetime import timedelta

    from ._tool_context import ToolContext

__all__ = ["ExternalTool", "ToolArgumentError", "is_async"]


class ToolArgumentError(ValueError):
    """The model called a tool with arguments that do not fit. The model reads the text.

    A handler can raise it for a value that a JSON Schema cannot exclude. It is not a failure of the handler.

    >>> @tool
    ... def read_page(number: int) -> str:
    ...     '''Returns a page of the manual.'''
    ...     if not 1 <= number <= 20:
    ...         raise ToolArgumentError("number: the manual has the pages 1 to 20")
    ...     return f"Page {number}"
    >>> read_page(3)
    'Page 3'
    """


class ExternalTool:
    """A tool that the agent's model can call (from Wire 1.1 on). `tool` makes one from a function's signature.

    Args:
        name: The tool's name. It must differ from the names of the agent's own tools.
        description: The description for the model: the purpose of the tool, and when to use it.
        parameters: A JSON Schema of type "object" for the arguments. Arguments are not checked against it.
        handler: A plain or async function that takes the arguments as a dict, and the `ToolContext` of the call if it
            has a parameter of this type. It returns text, a JSON value, content parts or a `ToolReturnValue`. If it
            raises, the model receives an error. Plain functions run in threads of their own and may block.
        timeout: The longest time of a call, in seconds or as a `timedelta`. Default: none.

    Raises:
        TypeError: An argument has a wrong type.

    >>> ExternalTool("add", "Adds two numbers.", {"type": "object"}, lambda arguments: arguments["a"] + arguments["b"])
    ExternalTool('add')
    """

    __slots__ = ("_context", "_description", "_handler", "_name", "_parameters", "_timeout")

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        handler: Callable[[dict[str, Any]], Any] | Callable[[dict[str, Any], ToolContext], Any],
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
        self._context = context_parameter(handler)
        self._timeout = timeout

    @property
    def name(self) -> str:
        """The tool's name."""
        return self._name

    @property
    def description(self) -> str:
        """The description that the model reads."""
        return self._description

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self._parameters

    @property
    def handler(self) -> Callable[..., Any]:
        """The function that takes the arguments as a dict, and perhaps the context of the call."""
        return self._handler

    @property
    def timeout(self) -> float | None:
        """The longest time of a call in seconds. None: no limit."""
        return self._timeout

    def _check_usable(self, place: str) -> None:
        """Checks that the handler can be called. `place`: the tool's place in the options."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"


def is_async(function: Any) -> bool:
    """Whether a call of the function returns a coroutine."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    # An object whose __call__ is async. The __call__ of functions is not.
    return inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
