"""The trace: one JSON object a line, keys in alphabetical order, the same in every language."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from kimi_agent import AuthExpired, BudgetExceeded, Event, KimiAgentError, OutputInvalid, PromptResult

__all__ = ["Line", "canonical", "outcome", "print_done", "print_error", "print_event", "print_line", "print_tool_call"]

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
        names = ("message", "data", "stderr", "steps", "counter", "limit", "used")
        fields = {name: getattr(error, name, None) for name in names}
        if isinstance(error, OutputInvalid):
            fields.update(attempts=error.attempts, text=error.text, errors=[vars(each) for each in error.errors])
        if isinstance(error, AuthExpired) and error.methods:
            fields["methods"] = [vars(method) for method in error.methods]
        if isinstance(error, (BudgetExceeded, OutputInvalid)):
            fields["result"] = outcome(error.result)
        line["fields"] = {name: value for name, value in fields.items() if value is not None}
    if op.get("ended") is True:
        text = None if error.result is None else error.result.text
        status, retry_after = getattr(error, "status", None), getattr(error, "retry_after", None)
        ended = {"retryable": error.retryable, "status": status, "retry_after": retry_after, "text": text}
        line["ended"] = {name: value for name, value in ended.items() if value is not None}
    print_line(line)


def outcome(result: PromptResult[Any], details: bool = False, ended: bool = False) -> Line:
    """The outcome of a turn; `details` are its tool calls, rejections and failures."""
    line: Line = {
        "status": result.status,
        "steps": result.steps,
        "text": result.text,
        "usage": result.usage.to_payload(),
    }
    if result.output is not None:
        line["output"] = result.output
    if ended:
        line["stop_reason"] = result.stop_reason
    if details:
        line["tool_calls"] = [
            {**_told(call), "timed": call.duration is not None and call.duration >= 0} for call in result.tool_calls
        ]
        line["rejected"] = [_told(rejection) for rejection in result.rejected]
        line["handler_failures"] = [_told(failure) for failure in result.handler_failures]
        if result.plan is not None:
            line["plan"] = result.plan.to_payload()
        if result.cost is not None:
            line["cost"] = result.cost.to_payload()
    return line


def _told(record: Any) -> Line:
    """A record as JSON, without what is absent, and without its duration."""
    line: Line = {}
    for name, value in vars(record).items():
        if value is None or name == "duration":
            continue
        if isinstance(value, list):
            line[name] = [part.to_payload() for part in value]
        else:
            line[name] = value.to_payload() if hasattr(value, "to_payload") else value
    return line


def print_tool_call(event: Event) -> None:
    """Prints the tool call that the package has added to an event, if there is one."""
    inner = getattr(event, "event", None)
    call = getattr(event, "tool_call", None)
    if inner is not None:
        print_tool_call(inner)
    elif call is not None:
        print_line({"tool_call": call.to_payload()})
