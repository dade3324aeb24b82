"""`@tool`: makes an external tool from a function."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from ._errors import InvalidOption
from ._hints import clear_arguments
from ._tool import ExternalTool, is_async
from ._tool_context import ToolContext, context_parameter

if TYPE_CHECKING:
    from datetime import timedelta

    from ._function_schema import FunctionSchema

__all__ = ["FunctionTool", "tool"]

P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(ExternalTool, Generic[P, R]):
    """An `ExternalTool` made by `tool`; it can still be called like the function.

    As a method it is bound when it is looked up on an instance: `tools=[store.read]`.

    >>> class Store:
    ...     @tool
    ...     def read(self, key: str) -> str:
    ...         '''Returns the value of a key.'''
    ...         return f"value of {key}"
    >>> store = Store()
    >>> store.read
    FunctionTool('read')
    >>> store.read("color")
    'value of color'
    """

    __slots__ = ("__wrapped__", "_given_context", "_is_unbound", "_schema")

    def __init__(
        self,
        function: Callable[P, R],
        name: str,
        description: str,
        timeout: float | timedelta | None,
        schema: FunctionSchema,
        *,
        is_unbound: bool,
        context: str | None,
    ) -> None:
        handler = _refuse_unbound(name) if is_unbound else _handler(function, schema, context)
        super().__init__(name, description, schema.json_schema, handler, timeout)
        self.__wrapped__ = function
        self._is_unbound = is_unbound
        self._given_context = context
        self._schema = schema

    def _check_usable(self, place: str) -> None:
        if self._is_unbound:
            problem = f"{place} ({self.name}) is a method: pass the tool of an instance, not of the class"
            raise InvalidOption(f"invalid option `tools`: {problem}", "tools")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool[..., R]:
        if instance is None or not self._is_unbound:
            return self
        method: Callable[..., R] = types.MethodType(self.__wrapped__, instance)
        context = self._given_context
        return FunctionTool(
            method, self.name, self.description, self.timeout, self._schema, is_unbound=False, context=context
        )


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
@clear_arguments
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | timedelta | None = None,
) -> Any:
    """Makes an `ExternalTool` from a function's signature and docstring.

    The signature becomes the JSON Schema that the model sees, the docstring its descriptions. Pydantic checks the
    model's arguments and converts them to the declared types. If they do not fit, the function is not called, and the
    model receives an error that lists the mistakes. A parameter of the type `ToolContext` gets the context of the call.

    Needs pydantic and griffe: `pip install "kimi-agent[tools]"`.

    Args:
        function: A plain or async function, a method, a `functools.partial` or an object with `__call__`. Default:
            the function that the decorator stands before.
        name: The tool's name. Default: the function's name.
        description: The tool's description. Default: the docstring without its parameters and exceptions.
        timeout: The longest time of a call, in seconds or as a `timedelta`. Default: none.

    Returns:
        The tool, or a decorator that makes it if `function` is not given.

    Raises:
        ImportError: Pydantic or griffe is not installed.
        TypeError: The function has no name, or a parameter cannot be described with a JSON Schema.

    >>> @tool
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Adds two numbers.'''
    ...     return a + b
    >>> add.parameters["properties"]["b"]
    {'default': 1, 'type': 'integer'}
    >>> add(2, 3)
    5
    """
    # Annotations given as text may name types that the calling function defines.
    localns = sys._getframe(2).f_locals
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
    try:
        from ._function_schema import read_docstring, read_parameters
    except ImportError as error:
        raise ImportError(
            f'@tool needs pydantic 2 and griffe: pip install "kimi-agent[tools]" ({error}). '
            "An ExternalTool with a JSON Schema needs neither.",
            name=error.name,
        ) from error
    if isinstance(function, ExternalTool):
        raise TypeError(f"@tool needs a function, got the tool {function.name!r}, which is made already")
    if isinstance(function, staticmethod):
        function = function.__func__
    if isinstance(function, (classmethod, type)) or not callable(function):
        raise TypeError(f"@tool needs a function, got {function!r}")
    inner = _innermost(function)
    name = name or _name_of(function, inner)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError) as error:
        raise TypeError(f"{name}(): its signature is unknown: {error}") from None
    is_unbound = _is_unbound_method(function, parameters)
    if not is_unbound and _has_self(function, parameters):
        raise TypeError(f"{name}(): parameter 'self': a function has none; decorate the method in its class")
    if is_unbound and _exists_in_class(function, localns):
        raise TypeError(
            f"{name}(): it is a method of a class: pass the method of an instance, "
            f"`tool(instance.{function.__name__})`, or decorate it in its class"
        )
    preset = _preset(function)
    context = context_parameter(function, localns)
    if context is not None:
        if next(each for each in parameters if each.name == context).kind is inspect.Parameter.POSITIONAL_ONLY:
            raise TypeError(f"{name}(): parameter '{context}': a ToolContext cannot be positional-only")
        preset.add(context)
    parameters = [parameter for parameter in parameters[is_unbound:] if parameter.name not in preset]
    text, descriptions = read_docstring(_doc_of(function, inner))
    schema = read_parameters(name, parameters, descriptions, getattr(inner, "__globals__", {}), dict(localns))
    description = text if description is None else description
    return FunctionTool(function, name, description, timeout, schema, is_unbound=is_unbound, context=context)


def _innermost(function: Callable[..., Any]) -> Any:
    """The function in whose module the annotations are written."""
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


def _preset(function: Any) -> set[str]:
    """The parameters that `functools.partial` has set by keyword; the model does not see them."""
    found: set[str] = set()
    while isinstance(function, functools.partial):
        found.update(function.keywords)
        function = function.func
    return found


def _is_unbound_method(function: Any, parameters: list[inspect.Parameter]) -> bool:
    if not isinstance(function, types.FunctionType) or not parameters:
        return False
    owner = function.__qualname__.rpartition(".")[0]
    return bool(owner) and not owner.endswith("<locals>") and _has_self(function, parameters)


def _exists_in_class(function: Any, localns: Mapping[str, Any]) -> bool:
    """Whether the class of a method exists. A decorator in the class is called before."""
    path = function.__qualname__.rpartition("<locals>.")[2].split(".")
    found = localns.get(path[0], function.__globals__.get(path[0]))
    for part in path[1:]:
        found = inspect.getattr_static(found, part, None)
    return found is function


def _has_self(function: Any, parameters: list[inspect.Parameter]) -> bool:
    """Whether the first parameter of a function is the `self` of a method."""
    if not isinstance(function, types.FunctionType) or not parameters:
        return False
    return parameters[0].name == "self" and parameters[0].annotation is inspect.Parameter.empty


def _refuse_unbound(name: str) -> Callable[[dict[str, Any]], Any]:
    def handler(arguments: dict[str, Any]) -> Any:
        raise TypeError(f"{name} is a method: pass the tool of an instance, not of the class")

    return handler


def _handler(function: Callable[..., Any], schema: FunctionSchema, name: str | None) -> Callable[..., Any]:
    """Makes the handler of the tool. `name`: the parameter of the function that gets the context."""

    def call(arguments: dict[str, Any], context: ToolContext | None = None) -> Any:
        args, kwargs = schema.convert(arguments)
        if name is not None:
            kwargs[name] = ToolContext() if context is None else context
        return function(*args, **kwargs)

    if not is_async(function):
        return call

    async def call_async(arguments: dict[str, Any], context: ToolContext | None = None) -> Any:
        return await call(arguments, context)

    return call_async
