"""The trace: one JSON object a line, keys in alphabetical order, the same in every language."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from kimi_agent import Event, KimiAgentError, PromptResult

__all__ = ["Line", "canonical", "outcome", "print_done", "print_error", "print_event", "print_line"]

Line = dict[str, Any]
_lock = threading.Lock()


def print_line(line: Line) -> None:
    """Writes a line at once: a runner may be ended at any moment."""
    text = json.dumps(line, sort_keys=True, separators=(",", ":"))
    with _lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def canonical(event: Event) -> Line:
    """An event as the wire has it."""
    return event.to_dict()


def print_event(event: Event) -> None:
    print_line({"event": canonical(event)})


def print_done(op: Line, outputs: Line | None) -> None:
    """The last line of an operation: what it gave, or `ok` where there is nothing to give."""
    print_line({"op": op["op"], **({"ok": True} if outputs is None else outputs)})


def print_error(op: Line, error: KimiAgentError) -> None:
    """The last line of an operation that failed. Texts differ between systems: they are there only if asked for."""
    line: Line = {"op": op["op"], "error": error.code}
    for name in ("exit_code", "signal", "rpc_code", "option"):
        value = getattr(error, name, None)
        if value is not None:
            line[name] = value
    if op.get("message") is True:
        line["message"] = str(error)
    if op.get("fields") is True:
        fields = {name: getattr(error, name, None) for name in ("message", "data", "stderr", "steps")}
        line["fields"] = {name: value for name, value in fields.items() if value is not None}
    print_line(line)


def outcome(result: PromptResult) -> Line:
    """What came of a turn."""
    return {"status": result.status, "steps": result.steps, "text": result.text, "usage": result.usage.to_payload()}
