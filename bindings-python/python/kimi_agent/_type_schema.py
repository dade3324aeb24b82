"""The JSON Schema of a type, and how JSON values become values of the type. Needs pydantic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["NOT_DESCRIBED", "PlainJsonSchema", "TypeSchema", "whole_numbers"]

# The errors of pydantic and of annotations for a type without a JSON Schema.
NOT_DESCRIBED = (PydanticUserError, NameError, SyntaxError, TypeError, ValueError)
# Pydantic's words before the text of an exception that a validator raised.
_PREFIXES = {"value_error": "Value error, ", "assertion_error": "Assertion failed, "}


class TypeSchema:
    """Describes a type to the model, and makes values of it.

    Raises:
        TypeError: The type cannot be described with a JSON Schema. The text says why.
    """

    __slots__ = ("_adapter", "json_schema")

    def __init__(self, kind: Any) -> None:
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
            self.json_schema = self._adapter.json_schema(schema_generator=_OutputSchema)
        except NOT_DESCRIBED as error:
            raise TypeError(f"the type cannot be described with a JSON Schema: {_reason(error)}") from error

    @staticmethod
    def text(value: Any) -> str:
        """Returns a JSON value as text, in which `true` is not equal to `1`."""
        return json.dumps(value)

    def parse(self, value: Any) -> Any:
        """Makes a value of the type from a JSON value.

        Raises:
            ValidationError: The JSON value does not fit the type.
        """
        # Only from JSON does strict validation take a string for a date, an enum or bytes.
        return self._adapter.validate_json(json.dumps(whole_numbers(value)))

    def read(self, value: Any) -> tuple[Any, list[dict[str, str]]]:
        """Returns the value of the type for a JSON value, and no errors. If it does not fit: None, and the errors."""
        try:
            return self.parse(value), []
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
            return None, [{"pointer": _pointer(each, value), "message": _message(each)} for each in found]


def _reason(error: Exception) -> str:
    if isinstance(error, PydanticSchemaGenerationError):
        # The rest is about the inner workings of pydantic.
        unknown = error.message.partition(" for ")[2].partition(". Set ")[0]
        return f"pydantic does not know {unknown}; use a pydantic model, a dataclass or a TypedDict instead"
    return error.message if isinstance(error, PydanticUserError) else str(error)


def _message(error: ErrorDetails) -> str:
    return error["msg"].removeprefix(_PREFIXES.get(error["type"], ""))


def _pointer(error: ErrorDetails, value: Any) -> str:
    """The place of an error as a JSON Pointer. Pydantic also names the members of unions, which JSON does not have."""
    *_, last = error["loc"] or ("",)
    missing = last if error["type"] == "missing" else None
    found = ""
    for part in error["loc"]:
        if isinstance(value, dict) and isinstance(part, str) and (part in value or part is missing):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            continue
        found += "/" + str(part).replace("~", "~0").replace("/", "~1")
    return found


def whole_numbers(value: Any) -> Any:
    """JSON has one kind of number: 3.0 is an integer, in JSON Schema too."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: whole_numbers(item) for key, item in value.items()}
    return [whole_numbers(item) for item in value] if isinstance(value, list) else value


class PlainJsonSchema(GenerateJsonSchema):
    """Leaves out titles that repeat a name: they do not help the model and cost tokens in every request."""

    # No warning for a default that is not in the schema: the function gets it, and only the model does not see it.
    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}

    def get_title_from_name(self, name: str) -> str:
        return name

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> dict[str, Any]:
        found = super().generate(schema, mode)
        definitions = found.get("$defs", {})
        # The items of a named tuple keep their titles, as these are the only place of their names.
        for named in (definitions, *(body.get("properties", {}) for body in (found, *definitions.values()))):
            for name, body in named.items():
                if body.get("title") == name:
                    del body["title"]
        return found


class _OutputSchema(PlainJsonSchema):
    """Keeps the order of keys, so that a schema that a program gives reaches the model as it was written."""

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value
