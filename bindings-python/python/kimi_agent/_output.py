"""`Output`: the value that a turn must return. `OutputCheck`: the check of values, which the core calls."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, overload

from ._encode import kind_of, to_jsonable
from ._errors import InvalidOption
from ._hints import clear_arguments

# mypy takes this name for true.
MYPY = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol, TypeAlias

    from typing_extensions import TypeForm, TypeVar

    from ._errors import OutputInvalid
    from ._type_schema import TypeSchema

    T = TypeVar("T", default=Any)
    T_co = TypeVar("T_co", covariant=True, default=Any)
    # A turn without `output` has the value None.
    V = TypeVar("V", default=None)

    # Values whose type is not known, so T is Any: it comes from `object.__reduce__`, which returns `tuple[Any, ...]`.
    class _JsonSchema(Protocol[T_co]):
        def keys(self) -> Iterable[str]: ...
        def __getitem__(self, name: str, /) -> Any: ...
        def __reduce__(self) -> str | tuple[T_co, ...]: ...

    # Older releases of mypy take a `TypeForm` for Any, and newer ones use none in a union. Only mypy reads this branch.
    if MYPY:
        from ._interface import NoForm as Form
    else:
        from typing_extensions import TypeForm as Form

    # For mypy, unions and annotated types are values here.
    class _Union(Protocol[T_co]):
        @property
        def __args__(self) -> tuple[Any, ...]: ...
        def __reduce__(self) -> str | tuple[T_co, ...]: ...

    class _SpecialForm(Protocol[T_co]):
        def __getitem__(self, parameters: object, /) -> Any: ...
        def __or__(self, other: Any, /) -> Any: ...
        def __reduce__(self) -> str | tuple[T_co, ...]: ...
else:
    # Defaults of type variables need Python 3.13 or typing_extensions.
    from typing import TypeVar

    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)
    V = TypeVar("V")

__all__ = ["Output", "OutputCheck", "T", "T_co", "V", "read_output"]

# These are not types, and the core names what it expects instead. `str` is one, `"str"` is not.
_VALUES = (str, bytes, bytearray, bool, int, float, list, tuple, set, frozenset)
_EXPECTED = "expected a type, a JSON Schema as a dict, or an Output with one of them"


class Output(Generic[T_co]):
    """The value that a turn must return, with details. For the option `output` of a session or a prompt.

    The option also takes the type or the JSON Schema itself, which is the same as an `Output` with all defaults.

    Args:
        schema: A pydantic model, a dataclass, a `TypedDict` or any other type that pydantic's `TypeAdapter` takes, or
            a JSON Schema as a dict. Types need pydantic: `pip install "kimi-agent[tools]"`.
        name: The name of the tool that takes the value: at most 64 letters, digits, `_` and `-`. Default:
            "final_result".
        description: A description of the value, which the model reads. Default: None.
        mode: How the model returns the value: "tool" (it calls a tool of the SDK), "text" (the value is taken from its
            answer), or "auto" (the tool if the SDK can offer it and the agent takes tools, else the text). Default:
            "auto".
        retries: How often the SDK asks for another value if one is invalid or missing. Default: 2.

    Raises:
        ImportError: Pydantic is not installed, and the schema is a type.
        InvalidOption: The type cannot be described with a JSON Schema.

    >>> review = Output({"type": "object"}, name="submit_review", retries=5)
    >>> review.name
    'submit_review'
    """

    __slots__ = ("_description", "_mode", "_name", "_retries", "_schema", "_type_schema")

    @overload
    def __init__(
        self: Output[T],
        schema: TypeForm[T],
        *,
        name: str = ...,
        description: str | None = ...,
        mode: Literal["auto", "tool", "text"] = ...,
        retries: int = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Output[Any],
        schema: Any,
        *,
        name: str = ...,
        description: str | None = ...,
        mode: Literal["auto", "tool", "text"] = ...,
        retries: int = ...,
    ) -> None: ...
    def __init__(
        self,
        schema: Any,
        *,
        name: str = "final_result",
        description: str | None = None,
        mode: Literal["auto", "tool", "text"] = "auto",
        retries: int = 2,
    ) -> None:
        self._schema = schema
        self._name = name
        self._description = description
        self._mode: Literal["auto", "tool", "text"] = mode
        self._retries = retries
        self._type_schema = _type_schema(schema)

    @property
    def schema(self) -> Any:
        """The type or the JSON Schema that it was made with."""
        return self._schema

    @property
    def json_schema(self) -> Any:
        """The JSON Schema that the model gets."""
        return self._schema if self._type_schema is None else self._type_schema.json_schema

    @property
    def name(self) -> str:
        """The name of the tool that takes the value."""
        return self._name

    @property
    def description(self) -> str | None:
        """The description of the value."""
        return self._description

    @property
    def mode(self) -> Literal["auto", "tool", "text"]:
        """How the model returns the value."""
        return self._mode

    @property
    def retries(self) -> int:
        """How often the SDK asks for another value."""
        return self._retries

    def __repr__(self) -> str:
        schema = self._schema
        return f"Output({schema.__qualname__ if isinstance(schema, type) else repr(schema)}, name={self._name!r})"

    def _to_json(self) -> dict[str, Any]:
        """The option as the core takes it, without the number of the check."""
        fields = {name: getattr(self, name) for name in ("name", "description", "mode", "retries")}
        try:
            given: dict[str, Any] = to_jsonable({"schema": self.json_schema, **fields})
        except TypeError as error:
            raise InvalidOption(f"invalid option `output`: {error}", "output") from None
        return given


if not TYPE_CHECKING:
    Output.__init__ = clear_arguments(Output.__init__, "Output")


class OutputCheck:
    """The check of values by a type. It is called like a handler, and keeps the last valid value for the result."""

    __slots__ = ("__weakref__", "_failure", "_schema", "_valid", "has_failed")

    # As of a handler that is a plain function.
    name: ClassVar[str] = "the check of `output`"
    asynchronous: ClassVar[bool] = False
    takes_context: ClassVar[bool] = False

    def __init__(self, schema: TypeSchema) -> None:
        self._schema = schema
        self._valid: tuple[str, Any] | None = None
        self._failure: Exception | None = None
        self.has_failed = False

    def function(self, value: Any) -> Any:
        """Returns the errors of a JSON value that matches the schema."""
        try:
            found, errors = self._schema.read(value)
        except Exception as failure:
            self._failure = failure
            raise
        if not errors:
            self._valid = (self._schema.text(value), found)
        return errors

    def take(self, value: Any) -> Any:
        """Returns the value of the type for a JSON value that was valid."""
        valid, self._valid = self._valid, None
        if valid is not None and valid[0] == self._schema.text(value):
            return valid[1]
        # A later turn of the session has been checked since then.
        return self._schema.parse(value)

    def take_failure(self, error: OutputInvalid) -> Exception | None:
        """Returns the last exception of the check itself if the turn with this error had one."""
        failure, self._failure = self._failure, None
        return failure if any(one.handler == "output" for one in error.result.handler_failures) else None


def read_output(given: Any) -> tuple[Any, OutputCheck | None]:
    """Returns the option as JSON for the core, and the check of its values.

    Raises:
        InvalidOption: The value is of a wrong kind.
    """
    if given is None:
        return None, None
    output = given if isinstance(given, Output) else Output(given)
    schema = output._type_schema
    return output._to_json(), None if schema is None else OutputCheck(schema)


def _type_schema(schema: Any) -> TypeSchema | None:
    if schema is None or isinstance(schema, Mapping):
        return None
    if isinstance(schema, Output):
        raise InvalidOption(
            "invalid option `output`: this is an Output already; set all details in one Output", "output"
        )
    # Pydantic takes a function as a type, and would call it with arguments of the model.
    if inspect.isroutine(schema) or isinstance(schema, _VALUES):
        raise InvalidOption(f"invalid option `output`: {_EXPECTED}; got {kind_of(schema)}", "output")
    try:
        from ._type_schema import TypeSchema
    except ImportError as error:
        raise ImportError(
            f'`output` with a type needs pydantic 2: pip install "kimi-agent[tools]" ({error}). '
            "A JSON Schema as a dict does not need it.",
            name=error.name,
        ) from error
    try:
        return TypeSchema(schema)
    except TypeError as error:
        # Types are classes, or made of them by `typing`.
        is_type = isinstance(schema, type) or type(schema).__module__.startswith(("typing", "types"))
        problem = error if is_type else f"{_EXPECTED}; got {kind_of(schema)}, which is not a type"
        raise InvalidOption(f"invalid option `output`: {problem}", "output") from error


if TYPE_CHECKING:
    # The option `output`. One parameter instead of overloads: a checker explains a wrong option in one line.
    OutputType: TypeAlias = type[T] | Form[T] | Output[T] | _JsonSchema[T] | _Union[T] | _SpecialForm[T]
else:
    OutputType = type | Output
