"""The program of a recording: a scenario that makes the recorded calls and gives the recorded answers."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

Entry = dict[str, Any]
Event = dict[str, Any]

_HANDLERS = {
    "ApprovalRequest": "on_approval",
    "QuestionRequest": "on_question",
    "ReadFileRequest": "on_read_file",
    "WriteFileRequest": "on_write_file",
    "TerminalRequest": "on_terminal",
}


class Program:
    """Derives the program. `events` are those of the recording, with the entries that caused them."""

    def __init__(self, name: str, recording: Path, events: list[Event]) -> None:
        rows = recording.read_text("utf-8").removesuffix("\n").split("\n")
        self.name = name
        self.recording = recording
        self.header, *self.entries = [json.loads(row) for row in rows]
        self.events = events
        self._ops: list[Entry] = []
        self._turn = 0
        self._read = 0

    def scenario(self, work_dir: Path) -> Entry:
        """The scenario, as a runner gets it."""
        return {
            "name": self.name,
            "agent": {"script": []},
            "options": {**self._options(), "work_dir": str(work_dir), "executable": {"recording": str(self.recording)}},
            # The languages are played side by side, and each needs the state of its own walk.
            "program": copy.copy(self)._program(),
        }

    def waits(self) -> bool:
        """Whether the agent leaves a turn without an end, so that the SDK waits until a time limit."""
        turns = [entry["turn"] for entry in self.entries if _is_call(entry, "prompt")]
        return not all(map(self._is_ended, turns))

    # --- calls ---

    def _program(self) -> list[Entry]:
        self._ops, self._turn, self._read = [{"op": "open"}], 0, 0
        for place, entry in enumerate(self.entries):
            if entry["type"] == "call":
                self._call(place, entry)
        return self._ops

    def _call(self, place: int, entry: Entry) -> None:
        arguments = entry.get("arguments", {})
        match entry["call"]:
            case "prompt":
                self._finish_turn()
                self._turn, self._read = entry["turn"], 0
                self._ops.append({"op": "prompt", "input": arguments["input"], "as": self._name})
            case "cancel" | "steer" as call:
                self._read_until(place)
                self._ops.append({"op": call, "as": self._name, **arguments})
            case "set_plan_mode":
                self._read_until(place)
                self._ops.append({"op": "set_plan_mode", **arguments})
            case "set_config_option":
                self._read_until(place)
                self._ops.append({"op": "set_config_option", "id": arguments["option"], "value": arguments["value"]})
            case "replay":
                self._ops.append({"op": "replay"})
            case "close":
                self._finish_turn()
                self._ops.append({"op": "close"})

    @property
    def _name(self) -> str:
        return f"turn{self._turn}"

    def _read_until(self, place: int) -> None:
        """Reads the events that came before a call."""
        if not self._turn:
            return
        count = sum(1 for event in self.events if event["turn"] == self._turn and event["entry"] < place)
        if count > self._read:
            self._ops.append({"op": "next", "count": count - self._read, "as": self._name})
            self._read = count

    def _finish_turn(self) -> None:
        if not self._turn:
            return
        if self._is_cancelled() or self._is_ended(self._turn):
            self._ops += [{"op": "drain", "as": self._name}, {"op": "result", "as": self._name}]
        else:
            self._read_until(len(self.entries))
        self._turn = 0

    def _is_cancelled(self) -> bool:
        return any(_is_call(entry, "cancel") for entry in self._entries_of(self._turn))

    def _is_ended(self, turn: int) -> bool:
        """Whether the prompt of a turn is answered, or the server says that the turn has ended."""
        messages = [entry["message"] for entry in self._entries_of(turn) if "message" in entry]
        prompt = next(message for message in messages if "method" in message and "id" in message)
        for message in messages:
            if message.get("method") == "turn.ended":
                return True
            is_answer = "method" not in message and message.get("id") == prompt["id"]
            if is_answer and ("prompt_id" not in (message.get("result") or {}) or "error" in message):
                return True
        return False

    def _entries_of(self, turn: int) -> list[Entry]:
        """The entries from a prompt to the next one."""
        begin = next(at for at, entry in enumerate(self.entries) if _is_call(entry, "prompt", turn))
        rest = self.entries[begin:]
        end = next((at for at, entry in enumerate(rest) if at and _is_call(entry, "prompt")), len(rest))
        return rest[:end]

    # --- answers ---

    def _options(self) -> Entry:
        options: Entry = {}
        if self.header["dialect"] == "legacy":
            options["yolo"] = True
        if self.header["dialect"] == "acp":
            # Raw traffic has no records of the agent.
            options["read_session_files"] = False
        answers: dict[str, list[Any]] = {}
        for event in self.events:
            handler = _HANDLERS.get(event["event"]["type"])
            if handler:
                answers.setdefault(handler, []).append(self._answer(event))
        options.update({handler: {"answers": given} for handler, given in answers.items()})
        if self.header.get("tools"):
            options["tools"] = [{**tool, "behaviour": self._behaviour(tool["name"])} for tool in self.header["tools"]]
        hooks = [hook for entry in self.entries for hook in _params(entry).get("hooks") or [] if "id" in hook]
        if hooks:
            options["hooks"] = [{**_without(hook, "id"), "behaviour": self._hook(hook["id"])} for hook in hooks]
        return options

    def _answer(self, event: Event) -> Any:
        """The answer of the program to a request; it never comes if the recording has none."""
        request = event["event"]["payload"]
        message = self.entries[event["entry"]]["message"]
        if "id" in message:
            found = self._outcome(event["entry"], message["id"])
            if found is None:
                return {"hang": True}
            if self.header["dialect"] == "acp":
                return _answer_of_acp(event["event"]["type"], request, message["params"], found)
            return _answer_of_wire(found)
        return self._answer_of_web(event["entry"], request)

    def _outcome(self, place: int, request: Any) -> Entry | None:
        for entry in self.entries[place:]:
            message = entry.get("message") or {}
            if entry.get("from") == "sdk" and "method" not in message and message.get("id") == request:
                return dict(message)
        return None

    def _answer_of_web(self, place: int, request: Entry) -> Any:
        for entry in self.entries[place:]:
            method = str((entry.get("message") or {}).get("method"))
            if entry.get("from") != "sdk" or str(request["id"]) not in method:
                continue
            if method.endswith(":dismiss"):
                return None
            body = _params(entry)
            if "questions" in request:
                return _chosen(request["questions"], body)
            return _approval(body.get("decision"), body.get("scope") == "session", body.get("feedback"))
        return {"hang": True}

    def _behaviour(self, tool: str) -> Entry:
        for event in self.events:
            request = event["event"]["payload"]
            if event["event"]["type"] == "ToolCallRequest" and request["name"] == tool:
                found = self._outcome(event["entry"], self.entries[event["entry"]]["message"]["id"])
                if found:
                    return {"return_value": found["result"]["return_value"]}
        return {"hang": True}

    def _hook(self, hook: str) -> Any:
        for event in self.events:
            if event["event"]["type"] != "HookRequest" or event["event"]["payload"]["subscription_id"] != hook:
                continue
            found = self._outcome(event["entry"], self.entries[event["entry"]]["message"]["id"])
            if found:
                result = found["result"]
                return {"block": result["reason"]} if result["action"] == "block" else "allow"
        return "allow"


def _is_call(entry: Entry, call: str, turn: int | None = None) -> bool:
    return entry["type"] == "call" and entry["call"] == call and turn in (None, entry.get("turn"))


def _params(entry: Entry) -> Entry:
    params = (entry.get("message") or {}).get("params")
    return params if entry.get("from") == "sdk" and isinstance(params, dict) else {}


def _without(value: Entry, *names: str) -> Entry:
    return {name: item for name, item in value.items() if name not in names}


def _approval(response: Any, for_session: bool, feedback: Any) -> Any:
    if response in ("approve", "approved", "approve_for_session"):
        return "approve_for_session" if for_session else "approve"
    return {"reject": feedback} if feedback else "reject"


def _answer_of_wire(message: Entry) -> Any:
    result = message.get("result") or {}
    if "response" in result:
        return _approval(result["response"], result["response"] == "approve_for_session", result.get("feedback"))
    return result.get("answers") or None


def _answer_of_acp(kind: str, request: Entry, asked: Entry, message: Entry) -> Any:
    result = message.get("result")
    if kind in ("ReadFileRequest", "WriteFileRequest", "TerminalRequest"):
        return _answer_of_service(kind, message)
    if "error" in message:
        # The client was one that knows no such request.
        return None
    result = result or {}
    if "action" in result:
        return _answer_of_form(request.get("questions", []), result)
    outcome = result.get("outcome") or {}
    if outcome.get("outcome") != "selected":
        return {"hang": True}
    chosen = next(option for option in asked["options"] if option["optionId"] == outcome["optionId"])
    if kind == "QuestionRequest":
        questions = request["questions"]
        labels = [option["label"] for option in questions[0]["options"]]
        return {questions[0]["question"]: chosen["name"]} if chosen["name"] in labels else None
    return _approval("approve" if chosen["kind"].startswith("allow") else "", chosen["kind"] == "allow_always", None)


def _answer_of_form(questions: list[Entry], result: Entry) -> Entry | None:
    """The answers in a form. A client that checks nothing may have chosen what is not offered."""
    answers: Entry = {}
    for question, value in zip(questions, (result.get("content") or {}).values(), strict=False):
        labels = {option["label"] for option in question["options"]}
        given = value if isinstance(value, list) else [value]
        if not question.get("other_label") and "other" not in question and not labels.issuperset(given):
            return None
        answers[question["question"]] = ", ".join(given)
    return answers if result["action"] == "accept" else None


def _answer_of_service(kind: str, message: Entry) -> Any:
    if "error" in message:
        return {"not_found": message["error"]["message"]}
    if kind == "ReadFileRequest":
        return {"return": message["result"]["content"]}
    return None if kind == "WriteFileRequest" else {"output": "", "exit_code": 0}


def _chosen(questions: list[Entry], body: Entry) -> Entry | None:
    """The answers to questions of Kimi Code's server."""
    if "selected_label" in body:
        return {questions[0]["question"]: body["selected_label"]}
    answers: Entry = {}
    for question, given in zip(questions, body.get("answers", {}).values(), strict=False):
        labels = [option["label"] for option in question["options"]]
        ids = [given["option_id"]] if "option_id" in given else given.get("option_ids", [])
        chosen = [labels[int(one.rpartition("_")[2])] for one in ids]
        answers[question["question"]] = ", ".join(chosen) if chosen else given.get("text", "")
    return answers or None
