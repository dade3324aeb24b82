"""External tools made of functions. Loaded when a program makes one."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from . import _docstring
from ._schema import Mismatch, Object, Resolver, member, render
from ._schema.nodes import Renderer
from ._tool import ExternalTool, ToolArgumentError, is_async

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["FunctionTool", "tool"]

P = ParamSpec("P")
R = TypeVar("R")
_EMPTY = inspect.Parameter.empty


class FunctionTool(ExternalTool, Generic[P, R]):
    """What `tool` makes: an ExternalTool that can still be called as the function it was.

    Used on a method, looking it up on an instance gives the tool bound to that instance.
    """

    __slots__ = ("__wrapped__", "_call")

    def __init__(
        self, function: Callable[P, R], name: str, description: str, timeout: float | timedelta | None, call: _Call
    ) -> None:
        handler = _refuse_unbound(name) if call.skips_self else _handler(function, call)
        super().__init__(name, description, call.schema, handler, timeout)
        self._call = call
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool[..., R]:
        if instance is None or not self._call.skips_self:
            return self
        method: Callable[..., R] = types.MethodType(self.__wrapped__, instance)
        return FunctionTool(method, self.name, self.description, self.timeout, self._call.bound())


class _Call:
    """How JSON arguments become a call."""

    __slots__ = ("arguments", "positional", "schema", "skips_self")

    def __init__(
        self, arguments: Object, positional: tuple[tuple[str, Any], ...], schema: dict[str, Any], skips_self: bool
    ) -> None:
        self.arguments = arguments
        self.positional = positional
        self.schema = schema
        self.skips_self = skips_self

    def bound(self) -> _Call:
        return _Call(self.arguments, self.positional, self.schema, False)

    def convert(self, arguments: Any) -> tuple[list[Any], dict[str, Any]]:
        try:
            values: dict[str, Any] = self.arguments.convert(arguments, ())
        except Mismatch as error:
            raise ToolArgumentError(f"invalid arguments: {error}") from error
        return [values.pop(name, default) for name, default in self.positional], values


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    function: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | timedelta | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | timedelta | None = None,
) -> FunctionTool[P, R]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | timedelta | None = None,
) -> Any:
    """Makes an `ExternalTool` from a function's signature and docstring.

    The annotations become the JSON Schema that the model sees, the docstring its descriptions. Arguments are
    checked and turned back into the declared types before the function is called; what does not fit is
    answered with an error that names the place, and the function is not called.

    Args:
        function: a plain or async function, method, `functools.partial` or object with `__call__`.
        name: instead of the function's name.
        description: instead of the docstring's text.
        timeout: seconds a call may take, or a `timedelta`; None: as long as it likes.

    >>> @tool
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Adds two numbers.'''
    ...     return a + b
    >>> add.parameters["properties"]["b"]
    {'type': 'integer', 'default': 1}
    >>> add(2, 3)
    5
    """
    # Types defined inside the calling function can be named in annotations given as text.
    localns = sys._getframe(1).f_locals
    if function is None:
        return lambda function: _make(function, name, description, timeout, localns)
    return _make(function, name, description, timeout, localns)


def _make(
    function: Callable[..., Any],
    name: str | None,
    description: str | None,
    timeout: float | timedelta | None,
    localns: Mapping[str, Any],
) -> FunctionTool[..., Any]:
    if isinstance(function, staticmethod):
        function = function.__func__
    if isinstance(function, (classmethod, type)) or not callable(function):
        raise TypeError(f"@tool needs a function, got {function!r}")
    inner = _innermost(function)
    name = name or _name_of(function, inner)
    resolver = Resolver(getattr(inner, "__globals__", {}), localns)
    doc = _docstring.parse(_doc_of(function, inner))
    call = _signature(function, inner, name, resolver, doc)
    return FunctionTool(function, name, doc.description if description is None else description, timeout, call)


def _innermost(function: Callable[..., Any]) -> Any:
    """The function whose module the annotations are written in."""
    found: Any = function
    while True:
        if isinstance(found, functools.partial):
            found = found.func
        elif isinstance(found, types.MethodType):
            found = found.__func__
        elif hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        elif not isinstance(found, (types.FunctionType, types.BuiltinFunctionType)) and inspect.ismethod(
            found.__call__
        ):
            found = found.__call__
        else:
            return found


def _name_of(function: Any, inner: Any) -> str:
    if not hasattr(function, "__name__") and not isinstance(function, functools.partial):
        return type(function).__name__
    name: str = getattr(function, "__name__", None) or inner.__name__
    if name == "<lambda>":
        raise TypeError("a tool made of a lambda needs a name: tool(name=…)")
    return name


def _doc_of(function: Any, inner: Any) -> str | None:
    if isinstance(function, (types.FunctionType, types.MethodType)):
        return function.__doc__
    if isinstance(function, functools.partial):
        return getattr(function.func, "__doc__", None)
    return inner.__doc__ or type(function).__doc__


def _signature(function: Any, inner: Any, name: str, resolver: Resolver, doc: _docstring.Docstring) -> _Call:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError) as error:
        raise TypeError(f"{name}(): its signature is unknown: {error}") from None
    skips_self = _is_unbound_method(function, parameters)
    if skips_self:
        del parameters[0]
    arguments = Object(name, lambda values, path: values)
    positional: list[tuple[str, Any]] = []
    given = _given(function)
    for parameter in parameters:
        if parameter.name in given:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise TypeError(
                f"{name}(): parameter '*{parameter.name}': arguments come by name, so there can be no *args; use a list"
            )
        try:
            hint = resolver.named(parameter.name, parameter.annotation) if parameter.annotation is not _EMPTY else Any
            node = resolver.node(hint)
            if parameter.kind is parameter.VAR_KEYWORD:
                arguments.rest = node
                continue
            made = member(parameter.name, node, parameter.default, doc.parameters.get(parameter.name))
            made.schema(Renderer())
        except (TypeError, RuntimeError) as error:
            raise TypeError(f"{name}(): parameter {parameter.name!r}: {error}") from error
        arguments.members[parameter.name] = made
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append((parameter.name, parameter.default))
    return _Call(arguments, tuple(positional), render(arguments), skips_self)


def _given(function: Any) -> set[str]:
    """What functools.partial has settled by keyword: the program's business, not the model's."""
    found: set[str] = set()
    while isinstance(function, functools.partial):
        found.update(function.keywords)
        function = function.func
    return found


def _is_unbound_method(function: Any, parameters: list[inspect.Parameter]) -> bool:
    if not isinstance(function, types.FunctionType) or not parameters:
        return False
    owner = function.__qualname__.rpartition(".")[0]
    first = parameters[0]
    return bool(owner) and not owner.endswith("<locals>") and first.name == "self" and first.annotation is _EMPTY


def _refuse_unbound(name: str) -> Callable[[dict[str, Any]], Any]:
    def handler(arguments: dict[str, Any]) -> Any:
        raise TypeError(f"{name} is a method: pass the tool of an instance, not of the class")

    return handler


def _handler(function: Callable[..., Any], call: _Call) -> Callable[[dict[str, Any]], Any]:
    if is_async(function):

        async def run_async(arguments: dict[str, Any]) -> Any:
            args, kwargs = call.convert(arguments)
            return await function(*args, **kwargs)

        return run_async

    def run(arguments: dict[str, Any]) -> Any:
        args, kwargs = call.convert(arguments)
        return function(*args, **kwargs)

    return run
