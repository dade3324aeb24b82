"""The JSON Schema of a function's parameters, and how arguments are checked against it. Needs pydantic and griffe."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Optional

import griffe
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from ._tool import ToolArgumentError
from ._type_schema import NOT_DESCRIBED, PlainJsonSchema, message_of, relevant_errors, whole_numbers

__all__ = ["FunctionSchema", "read_docstring", "read_parameters"]

# As strict as the JSON Schema: "3" is not an integer, and unknown names are refused. Models keep their own rules.
_CONFIG = ConfigDict(extra="forbid", strict=True, val_json_bytes="base64", defer_build=True)
# The signature has the types, so a docstring without types needs no warning.
_GRIFFE_OPTIONS: Any = {
    "google": {"warnings": False, "returns_multiple_items": False, "returns_named_value": False},
    "numpy": {"warnings": False},
    "sphinx": {"warnings": False},
}
_MOST_ERRORS = 20


class FunctionSchema:
    """Describes a function's parameters to the model, and turns the model's arguments into those of a call."""

    __slots__ = ("_adapter", "_positional", "json_schema")

    def __init__(self, adapter: TypeAdapter[dict[str, Any]], positional: Sequence[str]) -> None:
        self._adapter = adapter
        self._positional = positional
        self.json_schema = adapter.json_schema(schema_generator=PlainJsonSchema)

    def convert(self, arguments: Any) -> tuple[list[Any], dict[str, Any]]:
        """Returns the positional arguments and the keyword arguments for the call.

        Raises:
            ToolArgumentError: The arguments do not fit. The text lists all mistakes.
        """
        if not isinstance(arguments, dict):
            raise ToolArgumentError(f"invalid arguments: expected an object, got {json.dumps(arguments)[:60]}")
        try:
            # Only from JSON does strict validation take a string for a date, an enum or bytes.
            values = self._adapter.validate_json(json.dumps(whole_numbers(arguments)))
        except ValidationError as error:
            raise ToolArgumentError(f"invalid arguments: {_mistakes(error, arguments)}") from error
        return [values.pop(name) for name in self._positional], values


def read_parameters(
    name: str,
    parameters: Sequence[inspect.Parameter],
    descriptions: Mapping[str, str],
    globalns: dict[str, Any],
    localns: dict[str, Any],
) -> FunctionSchema:
    """Makes the schema of a function's parameters.

    Args:
        name: The tool's name, for errors.
        parameters: The parameters that the model gives values for.
        descriptions: The docstring's texts, by the names of parameters.
        globalns: The names of the function's module, for annotations given as text.
        localns: The names of the function that defines the tool, for the same.

    Raises:
        TypeError: A parameter cannot be described with a JSON Schema. The text names it.
    """

    def read(chosen: Sequence[inspect.Parameter]) -> FunctionSchema:
        prepared = [_prepared(parameter, descriptions, globalns, localns) for parameter in chosen]
        positional = [parameter.name for parameter in chosen if parameter.kind is parameter.POSITIONAL_ONLY]
        return FunctionSchema(_adapter(prepared, localns), positional)

    try:
        return read(parameters)
    except NOT_DESCRIBED as error:
        failure = error
    # Pydantic does not say which parameter it is about.
    for parameter in parameters:
        try:
            read([parameter])
        except NOT_DESCRIBED as error:
            star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
            raise TypeError(f"{name}(): parameter '{star}{parameter.name}': {_reason(error)}") from error
    raise TypeError(f"{name}(): {_reason(failure)}") from failure


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Returns the description of a function, and those of its parameters by name.

    Google's, NumPy's and Sphinx's styles are recognised.
    """
    sections = griffe.parse_auto(griffe.Docstring(text or ""), method="max_sections", per_style_options=_GRIFFE_OPTIONS)
    kept: list[str] = []
    parameters: dict[str, str] = {}
    for section in sections:
        kind = section.kind.value
        if kind == "text":
            kept.append(section.value)
        elif kind in ("parameters", "other parameters"):
            parameters.update({item.name.lstrip("*"): item.description.strip() for item in section.value})
        elif kind == "returns":
            kept.append("Returns: " + "; ".join(item.description.strip() for item in section.value))
        elif kind == "admonition":
            kept.append(f"{section.title}: {section.value.contents}")
    return "\n\n".join(kept).strip(), {name: said for name, said in parameters.items() if said}


def _prepared(
    parameter: inspect.Parameter, descriptions: Mapping[str, str], globalns: dict[str, Any], localns: dict[str, Any]
) -> inspect.Parameter:
    """The parameter as pydantic is to see it: by name, its annotation resolved and with a description."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise TypeError("arguments come by name, so there can be no *args; use a list")
    kind = parameter.kind if parameter.kind is parameter.VAR_KEYWORD else parameter.KEYWORD_ONLY
    hint: Any = Any if parameter.annotation is parameter.empty else parameter.annotation
    # Only this annotation: that of the result need not be resolvable.
    holder = types.SimpleNamespace(__annotations__={"it": hint})
    hint = typing.get_type_hints(holder, globalns, localns, include_extras=True)["it"]
    extras: list[Any] = []
    if typing.get_origin(hint) is Annotated:
        hint, *extras = typing.get_args(hint)
    if parameter.default is None and hint is not Any and type(None) not in typing.get_args(hint):
        # "limit: int = None" is what people write for Optional[int].
        hint = Optional[hint]  # noqa: UP045
    description = _annotated_description(extras) or descriptions.get(parameter.name)
    # In front, so that the description of a Field that the annotation has wins.
    annotated: Any = Annotated
    described = (hint, Field(description=description), *extras)
    return parameter.replace(kind=kind, annotation=annotated[described])


def _annotated_description(extras: Sequence[Any]) -> str | None:
    """The text of `Annotated[int, "text"]` or `Annotated[int, Doc("text")]`."""
    for extra in extras:
        said = extra if isinstance(extra, str) else getattr(extra, "documentation", None)
        if isinstance(said, str):
            return inspect.cleandoc(said)
    return None


def _adapter(parameters: Sequence[inspect.Parameter], localns: dict[str, Any]) -> TypeAdapter[dict[str, Any]]:
    """Pydantic's check of a call with these parameters; it returns them by name."""

    def arguments(**values: Any) -> dict[str, Any]:
        return values

    function: Any = arguments
    function.__signature__ = inspect.Signature(parameters)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    adapter: TypeAdapter[Any] = TypeAdapter(function, config=_CONFIG)
    adapter.rebuild(_types_namespace=localns)
    return adapter


def _reason(error: BaseException) -> str:
    if isinstance(error, NameError):
        return f"{error}; it must be importable when the tool is made, not under TYPE_CHECKING only"
    if isinstance(error, PydanticUserError):
        return f"it cannot be described with a JSON Schema: {error.message}"
    return str(error)


def _mistakes(error: ValidationError, arguments: dict[str, Any]) -> str:
    """All of them, so that the model can correct them at once; not endlessly many."""
    texts: list[str] = []
    for found in relevant_errors(error, arguments):
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in found["loc"]).lstrip(".")
        texts.append(f"{where}: {message_of(found)}" if where else message_of(found))
    left = len(texts) - _MOST_ERRORS
    return "; ".join([*texts[:_MOST_ERRORS], f"and {left} more"] if left > 0 else texts)
