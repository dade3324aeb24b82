"""Converts Python values to JSON values for the agent."""

from __future__ import annotations

import enum
import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["NotUnicode", "checked_unicode", "kind_of", "option_problem", "seconds", "to_jsonable", "valid_unicode"]

# The core reads at most 200 levels, and some values are a part of another one, for example of a job.
_DEEPEST = 190


# A larger number is infinite as a JSON number of other languages.
_MAX_BITS = 1023


class NotUnicode(TypeError):
    """A name has half of a surrogate pair, as the name of a file that is not UTF-8 has. The core cannot take it."""

    def __init__(self, error: UnicodeEncodeError) -> None:
        self.found = f"{error.object[error.start]!a} at index {error.start}, which is half of a surrogate pair"
        remedy = 'replace it with `text.encode("utf-8", "replace").decode()`'
        super().__init__(f"expected valid Unicode, got text with {self.found}; {remedy}")


def checked_unicode(text: str) -> str:
    """Returns the text, or raises `NotUnicode` if it is not valid Unicode."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise NotUnicode(error) from None
    return text


def valid_unicode(text: str) -> str:
    """Returns the text with U+FFFD for each half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def option_problem(name: str, value: Any, error: TypeError) -> str:
    """Describes why the value of an option has no JSON form. Paths get a remedy of their own."""
    if not isinstance(error, NotUnicode) or isinstance(value, Mapping) or not _is_path_option(name):
        return str(error)
    return f"expected a path in UTF-8, got text with {error.found}; rename the file or directory"


def _is_path_option(name: str) -> bool:
    from . import _native

    return name in (*_native.path_options(), "executable", "journal", "policy", "prices")


def to_jsonable(value: Any, text: Callable[[str], str] = checked_unicode, _depth: int = 0) -> Any:
    """Returns the JSON form of `value`. Its texts become what `text` returns, for example `valid_unicode`.

    Accepts JSON's own types, dataclasses, named tuples, enums, sets, dates, paths, UUIDs, decimals, pydantic models and
    the classes of this package. A compiled regular expression becomes its text.

    Raises:
        TypeError: A value has no JSON form. The text names it.
        NotUnicode: A text is not valid Unicode.
    """
    if value is None:
        return None
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        # Also an object of a subclass of str; likewise below.
        return text(value if type(value) is str else str.__str__(value))
    if isinstance(value, int) and not isinstance(value, enum.Enum):
        number = value if type(value) in (bool, int) else int.__int__(value)
        if number.bit_length() > _MAX_BITS:
            raise TypeError("expected a number below 1e308, got a larger one")
        return number
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{value!r} is not a finite number")
        return float(value)
    if _depth > _DEEPEST:
        raise TypeError(f"nested more than {_DEEPEST} deep, or containing itself")
    deeper = _depth + 1
    if isinstance(value, enum.Enum):
        return to_jsonable(value.value, text, deeper)
    payload = getattr(type(value), "to_payload", None)
    if payload is not None:
        return to_jsonable(payload(value), text, deeper)
    if hasattr(type(value), "__dataclass_fields__"):
        import dataclasses

        fields = (field.name for field in dataclasses.fields(value))
        return {name: to_jsonable(getattr(value, name), text, deeper) for name in fields}
    if isinstance(value, Mapping):
        return {text(_key(key)): to_jsonable(item, text, deeper) for key, item in value.items()}
    if isinstance(value, tuple) and (names := getattr(value, "_fields", None)) is not None:
        return {name: to_jsonable(getattr(value, name), text, deeper) for name in names}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_jsonable(item, text, deeper) for item in value]
    if _is_one_of(value, ("datetime.date", "datetime.time")):
        return value.isoformat()
    if _is_one_of(value, ("pathlib.PurePath", "uuid.UUID", "decimal.Decimal")):
        return to_jsonable(str(value), text, deeper)
    if isinstance(value, re.Pattern):
        return to_jsonable(_pattern_text(value), text, deeper)
    dump = getattr(type(value), "model_dump", None)
    if dump is not None:
        return to_jsonable(dump(value, mode="json"), text, deeper)
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} has no JSON form")


def seconds(value: Any) -> Any:
    """Returns a `timedelta` as seconds, any other value unchanged."""
    return value.total_seconds() if _is_one_of(value, ("datetime.timedelta",)) else value


def _pattern_text(value: re.Pattern[Any]) -> str:
    """Returns a compiled regular expression as text, with its flags as `(?i)`."""
    if not isinstance(value.pattern, str):
        raise TypeError(f"{value!r} is a pattern for bytes; expected one for text")
    names = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
    flags = "".join(name for name, flag in names.items() if value.flags & flag)
    return f"(?{flags}){value.pattern}" if flags else value.pattern


def kind_of(value: Any) -> str:
    """Describes a wrong value in an error: a short text or number itself, any other value by its type."""
    try:
        return _kind_of(value)
    except Exception:
        # The value refuses to be read.
        return "an object that cannot be read"


def _kind_of(value: Any) -> str:
    # Python makes no text of thousands of digits.
    is_long_number = isinstance(value, int) and value.bit_length() > 256
    if isinstance(value, (str, int)) and not is_long_number and len(str(value)) <= 80:
        return f'"{value}"' if isinstance(value, str) else repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__}"
    if isinstance(value, float):
        # Infinite or not a number: others have a JSON form.
        return repr(value)
    if value is None:
        return "None"
    module, name = type(value).__module__, type(value).__qualname__
    return f"an object of type {name}" if module == "builtins" else f"an object of type {module}.{name}"


def _is_one_of(value: Any, names: tuple[str, ...]) -> bool:
    """Whether the value is of one of these classes, named `module.Class`.

    Imports nothing: there are no objects of modules that are not imported.
    """
    for name in names:
        module, _, kind = name.partition(".")
        found = getattr(sys.modules.get(module), kind, None)
        if found is not None and isinstance(value, found):
            return True
    return False


def _key(key: Any) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    if _is_one_of(key, ("uuid.UUID", "pathlib.PurePath", "datetime.date")):
        return str(key)
    raise TypeError(f"key {key!r}: JSON has string keys only")
