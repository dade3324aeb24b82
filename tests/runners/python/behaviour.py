"""Options of a scenario: plain ones as they are, functions made of what describes them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from output import print_line
from pydantic import AfterValidator, ValidationError, WithJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError

from kimi_agent import (
    Block,
    ExternalTool,
    Hook,
    InvalidOption,
    Output,
    Reject,
    TerminalResult,
    ToolContext,
    ToolReturnValue,
    terminals,
    testing,
)

if TYPE_CHECKING:
    from apis import Api, Record

__all__ = ["HANG", "Records", "answer_of", "make_options", "make_output"]

HANG = object()
"""The decision of a behaviour that never returns."""

Decide = Callable[[Any], Any]


class Records:
    """The records of the handlers' arguments."""

    def __init__(self, api: Api, trace_handlers: bool) -> None:
        self.events: Record = api.record()
        self.stderr: Record = api.record()
        self.trace_handlers = trace_handlers

    def called(self, handler: str, request: Any) -> None:
        if self.trace_handlers:
            print_line({"handler": handler, "request": request.to_payload()})

    def tool_called(self, name: str, arguments: Any) -> None:
        if self.trace_handlers:
            print_line({"handler": "tool", "name": name, "arguments": arguments})

    def output_checked(self, value: Any) -> None:
        if self.trace_handlers:
            print_line({"handler": "output", "value": value})


def make_options(described: dict[str, Any], executable: list[str] | None, records: Records, api: Api) -> dict[str, Any]:
    """Options of a session or an agent from a scenario's. Wrong ones are the package's to refuse."""
    options = dict(described)
    for name in ("on_approval", "on_question", "on_read_file", "on_write_file", "on_terminal"):
        value = options.get(name)
        if isinstance(value, dict) and isinstance(value.get("answers"), list):
            options[name] = api.handler(_answerer(name.removeprefix("on_"), value["answers"], records))
        elif name == "on_terminal" and isinstance(value, dict) and "root" in value:
            options[name] = terminals(value["root"])
    for name, record in (("on_event", records.events), ("on_stderr", records.stderr)):
        if options.get(name) == "record":
            options[name] = api.handler(record.put)
    if isinstance(options.get("tools"), list):
        options["tools"] = [_tool(item, records, api) for item in options["tools"]]
    if isinstance(options.get("hooks"), list):
        options["hooks"] = [_hook(item, records, api) for item in options["hooks"]]
    if "output" in options:
        options["output"] = make_output(options["output"], records)
    if options.get("executable") is None and executable is not None:
        options["executable"] = executable
    agent = options.get("executable")
    # A recording: `{"recording": path, "mode": name}`.
    if isinstance(agent, dict) and "recording" in agent:
        options["executable"] = testing.replayed_agent(agent["recording"], mode=agent.get("mode", "replay"))
    return options


def make_output(described: Any, records: Records) -> Any:
    """The option `output`. A check of its values is the type's, which has the schema of the scenario."""
    if not isinstance(described, dict):
        return described
    details = {name: value for name, value in described.items() if name not in ("schema", "check")}
    schema: Any = described.get("schema")
    if "check" in described:
        check = _checker(described["check"]["answers"], records)
        schema = Annotated[Any, AfterValidator(check), WithJsonSchema(schema)]
    return Output(schema, **details)


def _checker(answers: list[Any], records: Records) -> Decide:
    answer = _in_turn(answers)

    def check(value: Any) -> Any:
        records.output_checked(value)
        given = _given(answer())
        if given is HANG:
            threading.Event().wait()
        if given:
            raise ValidationError.from_exception_data("output", [_violation(each, value) for each in given])
        return value

    return check


def _violation(described: Any, value: Any) -> InitErrorDetails:
    pointer, message = ("", described) if isinstance(described, str) else (described["pointer"], described["message"])
    names = [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]
    location = tuple(int(name) if name.isdigit() else name for name in names)
    return InitErrorDetails(type=PydanticCustomError("scenario", message), loc=location, input=value)


def answer_of(value: Any) -> Any:
    """The answer to a request, as a program gives it."""
    if isinstance(value, dict) and set(value) == {"reject"} and isinstance(value["reject"], str):
        return Reject(value["reject"])
    return value


def _answerer(kind: str, answers: list[Any], records: Records) -> Decide:
    """Answers used in their order."""
    next_answer = _in_turn(answers)

    def decide(request: Any) -> Any:
        records.called(kind, request)
        answer = next_answer()
        given = _given(answer)
        returned = isinstance(answer, dict) and "return" in answer
        if kind == "terminal" and not returned and isinstance(given, dict):
            return TerminalResult(**given)
        return answer_of(given if returned else _to_question(request, given))

    return decide


def _in_turn(answers: list[Any]) -> Callable[[], Any]:
    """Returns one answer after the other, the last one again and again."""
    lock = threading.Lock()
    used = 0

    def take() -> Any:
        nonlocal used
        with lock:
            answer = answers[min(used, len(answers) - 1)] if answers else None
            used += 1
        return answer

    return take


def _to_question(request: Any, answer: Any) -> Any:
    """An only label for an only question, whatever the scenario calls it: a real agent's text may have a path in it."""
    questions = getattr(request, "questions", None) or []
    if len(questions) == 1 and isinstance(answer, dict) and len(answer) == 1:
        (label,) = answer.values()
        return {questions[0].question: label}
    return answer


def _given(behaviour: Any) -> Any:
    """The result of a behaviour that all kinds of handlers have."""
    if isinstance(behaviour, dict):
        if isinstance(behaviour.get("raise"), str):
            raise RuntimeError(behaviour["raise"])
        if "not_found" in behaviour:
            raise FileNotFoundError(behaviour["not_found"])
        if "hang" in behaviour:
            return HANG
        if "return" in behaviour:
            return behaviour["return"]
    return behaviour


def _tool(described: Any, records: Records, api: Api) -> Any:
    if not isinstance(described, dict):
        return described
    fields = {name: value for name, value in described.items() if name != "behaviour"}
    behaviour = described.get("behaviour", {})

    def decide(arguments: Any, context: ToolContext) -> Any:
        records.tool_called(str(fields.get("name")), arguments)
        if "progress" in behaviour:
            context.progress(**behaviour["progress"])
        if "call_id" in behaviour:
            return context.call_id
        if "echo" in behaviour:
            return arguments
        if "return_value" in behaviour:
            return ToolReturnValue.from_payload(behaviour["return_value"])
        return _given(behaviour)

    try:
        return ExternalTool(**fields, handler=api.tool_handler(decide))
    except TypeError as error:
        # Where the program makes the tool Python says so at once, not when the session opens.
        raise InvalidOption(str(error), "tools") from None


def _hook(described: Any, records: Records, api: Api) -> Any:
    if not isinstance(described, dict):
        return described
    fields = {name: value for name, value in described.items() if name != "behaviour"}
    fields.setdefault("matcher", None)
    behaviour = described.get("behaviour")

    def decide(request: Any) -> Any:
        records.called("hook", request)
        if isinstance(behaviour, dict) and isinstance(behaviour.get("block"), str):
            return Block(behaviour["block"])
        return _given(behaviour)

    try:
        return Hook(**fields, handler=api.handler(decide))
    except TypeError as error:
        raise InvalidOption(str(error), "hooks") from None
