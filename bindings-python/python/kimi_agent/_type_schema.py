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
NOT_DESCRIBED = (PydanticUserError, AttributeError, NameError, SyntaxError, TypeError, ValueError)
# Pydantic's words before the text of an exception that a validator raised.
_PREFIXES = {"value_error": "Value error, ", "assertion_error": "Assertion failed, "}
# Of the texts of pydantic itself; a pattern can be of any length.
_LONGEST = 300


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
            found = relevant_errors(error, value)
            return None, [{"pointer": _pointer(each, value), "message": message_of(each)} for each in found]


def _reason(error: Exception) -> str:
    if isinstance(error, PydanticSchemaGenerationError):
        # The rest is about the inner workings of pydantic.
        unknown = error.message.partition(" for ")[2].partition(". Set ")[0]
        return f"pydantic does not know {unknown}; use a pydantic model, a dataclass or a TypedDict instead"
    return error.message if isinstance(error, PydanticUserError) else str(error)


def relevant_errors(error: ValidationError, value: Any) -> list[ErrorDetails]:
    """Returns the errors that help the model: of a union without a discriminator, those of the members that fit best.

    A member fits better if the value has its type, if fewer of its literals are wrong, because these tell members
    apart, and then if it has fewer errors.
    """
    found = error.errors(include_url=False, include_context=False, include_input=False)
    unions: dict[tuple[int | str, ...], dict[tuple[int | str, ...], list[ErrorDetails]]] = {}
    for each in found:
        if (at := _member_at(each, value)) is not None:
            place = each["loc"]
            unions.setdefault(place[:at], {}).setdefault(place[: at + 1], []).append(each)
    kept = [each for members in unions.values() for each in _nearest(members)]
    others = [each for members in unions.values() for errors in members.values() for each in errors]
    dropped = {id(each) for each in others} - {id(each) for each in kept}
    return [each for each in found if id(each) not in dropped]


def _nearest(members: dict[tuple[int | str, ...], list[ErrorDetails]]) -> list[ErrorDetails]:
    """Returns the errors of the members of a union that fit best. Of several ones with wrong literals, only these."""

    def literals(place: tuple[int | str, ...]) -> list[ErrorDetails]:
        return [
            each for each in members[place] if each["type"] == "literal_error" and len(each["loc"]) == len(place) + 1
        ]

    def distance(place: tuple[int | str, ...]) -> tuple[bool, int, int]:
        is_other_type = any(each["loc"] == place and each["type"] not in _PREFIXES for each in members[place])
        wrong = len(literals(place))
        return is_other_type, wrong, 0 if wrong else len(members[place])

    nearest = min(map(distance, members))
    places = [place for place in members if distance(place) == nearest]
    if len(places) > 1 and nearest[1] > 0:
        return [each for place in places for each in literals(place)]
    return [each for place in places for each in members[place]]


def message_of(error: ErrorDetails) -> str:
    """The text of an error without pydantic's words before it, and with no more of a pattern than a reader needs."""
    text = error["msg"].removeprefix(_PREFIXES.get(error["type"], ""))
    is_own = error["type"] in _PREFIXES
    return text if is_own or len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _member_at(error: ErrorDetails, value: Any) -> int | None:
    """The first part of the place of an error that is not one of the value, but the name of a member of a union."""
    for at, part in enumerate(error["loc"]):
        is_missing = at == len(error["loc"]) - 1 and error["type"].startswith("missing")
        if isinstance(value, dict) and isinstance(part, str) and (part in value or is_missing):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return at
    return None


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
