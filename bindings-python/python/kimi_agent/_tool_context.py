"""`ToolContext`: what a tool knows about the call that it runs for."""

from __future__ import annotations

import functools
import inspect
import threading
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Union

__all__ = ["ToolContext", "context_parameter"]

_UNIONS = (Union, getattr(types, "UnionType", Union))


class ToolContext:
    """The context of one call of a tool: its ID, whether its result is still needed, and a way to report progress.

    A tool gets it as the parameter that has this type, which is not part of the schema that the model sees. Its methods
    may be called in any thread.

    Args:
        call_id: The ID of the call. A context that a program makes itself has no agent; use it to test a tool.

    >>> @tool
    ... def index(folder: str, context: ToolContext) -> str:
    ...     '''Indexes a folder.'''
    ...     for page in range(10):
    ...         if context.cancelled.is_set():
    ...             break
    ...         context.progress(page / 10, f"page {page}")
    ...     return "indexed"
    >>> list(index.parameters["properties"])
    ['folder']
    >>> index("src", ToolContext())
    'indexed'
    """

    __slots__ = ("_call_id", "_cancelled", "_report")

    def __init__(self, call_id: str = "") -> None:
        self._call_id = call_id
        self._cancelled = threading.Event()
        self._report: Callable[[float | None, str | None], None] | None = None

    @property
    def call_id(self) -> str:
        """The ID of the call, as its `ToolCallRequest` has it."""
        return self._call_id

    @property
    def cancelled(self) -> threading.Event:
        """Is set when the result is not needed any more: the call was cancelled, or its time is over.

        A plain function cannot be stopped, so it has to look: `cancelled.is_set()`, or `cancelled.wait(seconds)` as a
        pause that ends early. An async function is cancelled as a task, too.

        >>> ToolContext().cancelled.wait(0)
        False
        """
        return self._cancelled

    def progress(self, fraction: float | None = None, message: str | None = None) -> None:
        """Reports how far the call is. Returns immediately.

        Agents that speak ACP get the report as MCP progress if they ask for it. Over Wire nothing is sent, because this
        protocol has no progress of tools. A newer report replaces one that is not sent yet; the last report is sent
        before the result.

        Args:
            fraction: The part that is done, from 0 to 1. Other numbers are clamped. Default: the last one.
            message: A text for people. Default: none.

        Raises:
            TypeError: An argument has a wrong type.

        >>> ToolContext().progress(0.5, "half of the files")
        """
        if fraction is not None and (isinstance(fraction, bool) or not isinstance(fraction, (int, float))):
            raise TypeError(f"fraction: expected a number from 0 to 1 or None, got {fraction!r}")
        if message is not None and not isinstance(message, str):
            raise TypeError(f"message: expected text or None, got {message!r}")
        if self._report is not None:
            # A whole number can be too large for a float.
            self._report(None if fraction is None else float(min(max(fraction, 0), 1)), message)

    def __repr__(self) -> str:
        return f"ToolContext({self._call_id!r})"


def context_parameter(function: Callable[..., Any], names: Mapping[str, Any] | None = None) -> str | None:
    """Returns the name of the parameter that has the type `ToolContext`, if there is one.

    Args:
        function: A function, or another object that can be called.
        names: Names for annotations that are text, besides those of the function's module.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        # Some functions written in C have no signature.
        return None
    for parameter in parameters:
        if _is_context(parameter.annotation, function, names or {}):
            return parameter.name
    return None


def _is_context(annotation: Any, function: Any, names: Mapping[str, Any]) -> bool:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    known = {"ToolContext": ToolContext, **_globals(function)}
    try:
        hint = typing.get_type_hints(holder, known, dict(names))["it"]
    except Exception:
        # An annotation that cannot be evaluated is reported with the schema, if it is part of one.
        return False
    return hint is ToolContext or (typing.get_origin(hint) in _UNIONS and ToolContext in typing.get_args(hint))


def _globals(function: Any) -> dict[str, Any]:
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    found: dict[str, Any] | None = getattr(function, "__globals__", None)
    return found if found is not None else getattr(getattr(function, "__call__", None), "__globals__", {})  # noqa: B004
