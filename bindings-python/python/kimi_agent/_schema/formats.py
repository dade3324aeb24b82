"""Types that JSON writes as strings. Their modules are not imported: a program that uses one of them has done so."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .nodes import Json, Text

if TYPE_CHECKING:
    import datetime
    import decimal


def _iso(text: str) -> str:
    # Python 3.10 reads neither "Z" nor fractions of other lengths than 3 and 6.
    text = re.sub(r"\.(\d+)", lambda found: "." + found.group(1)[:6].ljust(6, "0"), text)
    return text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text.replace("t", "T")


def _datetime(text: str) -> datetime.datetime:
    import datetime

    return datetime.datetime.fromisoformat(_iso(text))


def _date(text: str) -> datetime.date:
    import datetime

    if not re.match(r"^\d{4}-\d\d-\d\d$", text, re.ASCII):
        raise ValueError(text)
    return datetime.date.fromisoformat(text)


def _time(text: str) -> datetime.time:
    import datetime

    return datetime.time.fromisoformat(_iso(text))


def _decimal(value: Any) -> decimal.Decimal:
    import decimal

    # Models like to send a number where a numeric string is asked for; its shortest text is what they wrote.
    found = decimal.Decimal(str(value))
    if not found.is_finite():
        raise ValueError(value)
    return found


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_NOWHERE: Any = object()
_Takes = tuple[type, ...]
# By module and class: how it is read (None: by the class), what it is called, its schema, and what it is read of.
_FORMATS: dict[tuple[str, str], tuple[Callable[[Any], Any] | None, str, Json, _Takes]] = {
    ("datetime", "datetime"): (_datetime, "date and time", {"format": "date-time"}, (str,)),
    ("datetime", "date"): (_date, "date", {"format": "date"}, (str,)),
    ("datetime", "time"): (_time, "time", {"format": "time"}, (str,)),
    ("uuid", "UUID"): (None, "UUID", {"format": "uuid"}, (str,)),
    ("decimal", "Decimal"): (_decimal, "decimal number", {"format": "decimal"}, (str, int, float)),
    ("builtins", "bytes"): (_bytes, "base64 text", {"contentEncoding": "base64"}, (str,)),
}


def text_node(kind: Any) -> Text | None:
    """The node of a type written as a string, None if `kind` is none of them."""
    for (module, name), (read, label, schema, takes) in _FORMATS.items():
        if kind is getattr(sys.modules.get(module), name, _NOWHERE):
            return Text(label, kind if read is None else read, {"type": "string", **schema}, takes)
    path = getattr(sys.modules.get("pathlib"), "PurePath", None)
    if path is not None and isinstance(kind, type) and issubclass(kind, path):
        return Text("path", kind, {"type": "string", "format": "path"})
    return None
