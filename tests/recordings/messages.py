"""The messages of a log, and the recording that they become."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


class NotTraffic(Exception):
    """A file without messages of an agent; the text says why."""


@dataclass(frozen=True)
class Said:
    """A message between the SDK and the agent."""

    from_sdk: bool
    time: float
    line: str

    @cached_property
    def json(self) -> dict[str, Any] | None:
        """The message, unless the line is not a JSON object."""
        try:
            value = json.loads(self.line)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    @property
    def method(self) -> str | None:
        return (self.json or {}).get("method")

    @property
    def params(self) -> dict[str, Any]:
        params = (self.json or {}).get("params")
        return params if isinstance(params, dict) else {}

    def entry(self) -> dict[str, Any]:
        """The entry of a recording."""
        entry = {"time": self.time, "type": "message", "from": "sdk" if self.from_sdk else "agent"}
        return {**entry, "message": self.json} if self.json is not None else {**entry, "line": self.line}


@dataclass
class Converted:
    """The messages of a session, and its recording."""

    dialect: str
    said: list[Said]
    opened: int | None = None
    """The place of the first message of the open session, if the reader of the log knows it."""
    steered: frozenset[str] = frozenset()
    """Over the protocol of Kimi Code's server: the ids of prompts that are steers."""
    name: str = ""
    """The session, if the log has several."""
    options: dict[str, Any] = field(default_factory=dict)
    entries: list[dict[str, Any]] = field(default_factory=list)


def sdk_and_agent(part: Converted) -> str:
    """The text of a recording."""
    return "".join(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n" for entry in part.entries)
