"""Converts Python values to JSON values for the agent."""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["kind_of", "seconds", "to_jsonable"]

_DEEPEST = 200


def to_jsonable(value: Any, _depth: int = 0) -> Any:
    """Returns the JSON form of `value`.

    Accepts JSON's own types, dataclasses, named tuples, enums, sets, dates, paths, UUIDs, decimals, pydantic models and
    the classes of this package.

    Raises:
        TypeError: A value has no JSON form. The text names it.
    """
    if value is None or (isinstance(value, (bool, str, int)) and not isinstance(value, enum.Enum)):
        # Also an object of a subclass of str or int.
        return value if type(value) in (bool, str, int, type(None)) else _plain(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{value!r} is not a finite number")
        return float(value)
    if _depth > _DEEPEST:
        raise TypeError(f"nested more than {_DEEPEST} deep, or containing itself")
    deeper = _depth + 1
    if isinstance(value, enum.Enum):
        return to_jsonable(value.value, deeper)
    payload = getattr(type(value), "to_payload", None)
    if payload is not None:
        return to_jsonable(payload(value), deeper)
    if hasattr(type(value), "__dataclass_fields__"):
        import dataclasses

        return {field.name: to_jsonable(getattr(value, field.name), deeper) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): to_jsonable(item, deeper) for key, item in value.items()}
    if isinstance(value, tuple) and (names := getattr(value, "_fields", None)) is not None:
        return {name: to_jsonable(getattr(value, name), deeper) for name in names}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_jsonable(item, deeper) for item in value]
    if _is_one_of(value, ("datetime.date", "datetime.time")):
        return value.isoformat()
    if _is_one_of(value, ("pathlib.PurePath", "uuid.UUID", "decimal.Decimal")):
        return str(value)
    dump = getattr(type(value), "model_dump", None)
    if dump is not None:
        return dump(value, mode="json")
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} has no JSON form")


def seconds(value: Any) -> Any:
    """Returns a `timedelta` as seconds, any other value unchanged."""
    return value.total_seconds() if _is_one_of(value, ("datetime.timedelta",)) else value


def kind_of(value: Any) -> str:
    """Describes a wrong value in an error: a short text or number itself, any other value by its type."""
    if isinstance(value, (str, int)) and len(str(value)) <= 80:
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


def _plain(value: Any) -> Any:
    return str.__str__(value) if isinstance(value, str) else int(value)


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
