"""Types that JSON writes as strings."""

from __future__ import annotations

import base64
import datetime
import decimal
import pathlib
import re
import uuid
from typing import Any

from .nodes import Text

_FRACTION = re.compile(r"\.(\d+)")
_DATE = re.compile(r"^\d{4}-\d\d-\d\d$", re.ASCII)


def _iso(text: str) -> str:
    # Python 3.10 reads neither "Z" nor fractions of other lengths than 3 and 6.
    text = _FRACTION.sub(lambda found: "." + found.group(1)[:6].ljust(6, "0"), text)
    return text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text.replace("t", "T")


def _datetime(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(_iso(text))


def _date(text: str) -> datetime.date:
    if not _DATE.match(text):
        raise ValueError(text)
    return datetime.date.fromisoformat(text)


def _time(text: str) -> datetime.time:
    return datetime.time.fromisoformat(_iso(text))


def _decimal(value: Any) -> decimal.Decimal:
    # Models like to send a number where a numeric string is asked for; its shortest text is what they wrote.
    found = decimal.Decimal(str(value))
    if not found.is_finite():
        raise ValueError(value)
    return found


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def text_node(kind: Any) -> Text | None:
    """The node of a type written as a string, None if `kind` is none of them."""
    if kind is datetime.datetime:
        return Text("date and time", _datetime, {"type": "string", "format": "date-time"})
    if kind is datetime.date:
        return Text("date", _date, {"type": "string", "format": "date"})
    if kind is datetime.time:
        return Text("time", _time, {"type": "string", "format": "time"})
    if kind is uuid.UUID:
        return Text("UUID", uuid.UUID, {"type": "string", "format": "uuid"})
    if kind is decimal.Decimal:
        return Text("decimal number", _decimal, {"type": "string", "format": "decimal"}, (str, int, float))
    if kind is bytes:
        return Text("base64 text", _bytes, {"type": "string", "contentEncoding": "base64"})
    if isinstance(kind, type) and issubclass(kind, pathlib.PurePath):
        return Text("path", kind, {"type": "string", "format": "path"})
    return None
