"""An agent that writes much, and fast: what a prompt says is what it does.

A prompt is JSON: `{"flood": EVENTS}` with small events one by one, `{"volume": BYTES}` in lines of 64 KiB among small
ones, `{"tool_result": BYTES}` as one event, `{"call_tool": BYTES}` of the program's tool, whose answer it measures.
With `"approval": true` a flood has a request for an approval right behind its first event; it does not wait
for the answer.

It speaks Wire, or with `--acp` the Agent Client Protocol; of that there is no `call_tool`.

The pipe that `$LIMITS_REPORT` names hears of what happens here, a line of JSON each: `asked`, `blocked` (the pipe to
the program is full, after so many events), `answered` and `ended`. So nobody has to guess how far the agent has got.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from typing import Any

# The bytes that a pipe with room takes without blocking.
PIECE = 4096
BETWEEN_TOOLS = 1000
LINE = 64 * 1024
TEXT = "sixty-four bytes of text, as much as a model's delta often has.."

cancelled = threading.Event()
answered = threading.Condition()
answers: dict[str, dict[str, Any]] = {}
prompts: list[tuple[Any, dict[str, Any]]] = []
writing = threading.Lock()
# Whether the program speaks the Agent Client Protocol.
acp = "--acp" in sys.argv
report_pipe = os.open(os.environ["LIMITS_REPORT"], os.O_WRONLY) if "LIMITS_REPORT" in os.environ else None


def report(what: str, **more: Any) -> None:
    """Tells the test."""
    if report_pipe is not None:
        os.write(report_pipe, json.dumps({"what": what, "pid": os.getpid(), **more}).encode() + b"\n")


def encoded(message: dict[str, Any]) -> bytes:
    """As a line."""
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def write(data: bytes | memoryview) -> None:
    """Writes all of it."""
    view = memoryview(data)
    with writing:
        while view:
            view = view[os.write(1, view) :]


def event(kind: str, payload: dict[str, Any]) -> bytes:
    """An event as a line."""
    return encoded({"method": "event", "params": {"type": kind, "payload": payload}})


def update(**fields: Any) -> bytes:
    """An update as a line of ACP."""
    return encoded({"method": "session/update", "params": {"sessionId": "s", "update": fields}})


def text(content: str) -> bytes:
    """A part of an answer."""
    if acp:
        return update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": content})
    return event("ContentPart", {"type": "text", "text": content})


def step(n: int) -> bytes:
    """A step begins. What a turn's result has of text is its last step's; over ACP, what came after the last tool."""
    if acp:
        return update(sessionUpdate="tool_call_update", toolCallId=f"t{n}", status="completed", title="T")
    return event("StepBegin", {"n": n})


def listen() -> None:
    """Reads the program's input, independently of the other thread."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method = message.get("method")
        if method in ("cancel", "session/cancel"):
            cancelled.set()
            if not acp:
                write(encoded({"id": message["id"], "result": {}}))
        elif method in ("prompt", "session/prompt"):
            said = message["params"]["prompt"][0]["text"] if acp else message["params"]["user_input"]
            with answered:
                prompts.append((message["id"], json.loads(said)))
                answered.notify_all()
        elif method == "session/new":
            write(encoded({"id": message["id"], "result": {"sessionId": "s"}}))
        elif method == "initialize" and acp:
            write(encoded({"id": message["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}}}))
        elif method == "initialize":
            tools = [tool["name"] for tool in message["params"].get("external_tools", [])]
            result = {
                "protocol_version": "1.10",
                "server": {"name": "limits", "version": "1"},
                "slash_commands": [],
                "external_tools": {"accepted": tools, "rejected": []},
            }
            write(encoded({"id": message["id"], "result": result}))
        elif "result" in message or "error" in message:
            report("answered", id=message["id"], bytes=len(line))
            with answered:
                answers[message["id"]] = message
                answered.notify_all()
    # The program has exited, or closes the session.
    os._exit(0)


def request(request_id: str, kind: str, payload: dict[str, Any]) -> bytes:
    """A request as a line."""
    return encoded({"id": request_id, "method": "request", "params": {"type": kind, "payload": payload}})


def approval_request() -> bytes:
    """May it run a command?"""
    asked = {
        "id": "a1",
        "tool_call_id": "t1",
        "sender": "Shell",
        "action": "run command",
        "description": "Run `ls`",
        "display": [],
    }
    return request("a1", "ApprovalRequest", asked)


def permission_request() -> bytes:
    """The same in ACP."""
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
    asked = {"sessionId": "s", "toolCall": {"toolCallId": "t1", "title": "Run `ls`"}, "options": options}
    return encoded({"id": 0, "method": "session/request_permission", "params": asked})


def flood(count: int, approval: bool) -> None:
    """So many small events, in pieces that the pipe takes whole, so that `blocked` is told before it blocks."""
    one = text(TEXT)
    per_piece = PIECE // len(one) - 1
    sent = next_step = 0
    if approval:
        write(one)
        write(permission_request() if acp else approval_request())
        sent = 1
        report("asked")
    while sent < count and not cancelled.is_set():
        events = min(per_piece, count - sent)
        if not select.select([], [1], [], 0)[1]:
            report("blocked", sent=sent)
            select.select([], [1], [])
        # A step for each piece, in place of its first event. Over ACP a tool, which is two events, begins a new text;
        # the turn's result lists each call, so it is not for every piece.
        if events > 1 and sent >= next_step:
            write(step(2 + sent) + one * (events - (2 if acp else 1)))
            next_step = sent + (BETWEEN_TOOLS if acp else 1)
        else:
            write(one * events)
        sent += events
    report("ended", sent=sent)


def volume(total: int) -> None:
    """So many bytes, most of them in long lines, most of the lines short."""
    block = text("x" * LINE) + text(TEXT) * 20
    sent = 0
    while sent < total and not cancelled.is_set():
        write(step(2 + sent) + block)
        sent += len(block)
    report("ended", sent=sent)


def tool_result(size: int) -> None:
    """A tool's result of that size as one event."""
    if acp:
        write(update(sessionUpdate="tool_call", toolCallId="t1", title="ReadFile", rawInput={"path": "a"}))
        shown = [{"type": "content", "content": {"type": "text", "text": "x" * size}}]
        write(update(sessionUpdate="tool_call_update", toolCallId="t1", status="completed", content=shown))
        return
    call = {"type": "function", "id": "t1", "function": {"name": "ReadFile", "arguments": "{}"}}
    write(event("ToolCall", call))
    value = {"is_error": False, "output": "x" * size, "message": "", "display": []}
    write(event("ToolResult", {"tool_call_id": "t1", "return_value": value}))


def call_tool(size: int) -> None:
    """Calls the program's tool and measures what it says."""
    call = {"id": "t1", "name": "big", "arguments": json.dumps({"size": size})}
    write(request("r1", "ToolCallRequest", call))
    with answered:
        answered.wait_for(lambda: "r1" in answers)
        answer = answers.pop("r1")
    got = len(answer["result"]["return_value"]["output"]) if "result" in answer else 0
    write(text(str(got)))


def turn(prompt_id: Any, wish: dict[str, Any]) -> None:
    """One turn."""
    cancelled.clear()
    if not acp:
        write(event("TurnBegin", {"user_input": "go"}) + event("StepBegin", {"n": 1}))
    if "flood" in wish:
        flood(wish["flood"], wish.get("approval", False))
    elif "volume" in wish:
        volume(wish["volume"])
    elif "tool_result" in wish:
        tool_result(wish["tool_result"])
    elif "call_tool" in wish:
        call_tool(wish["call_tool"])
    status = "cancelled" if cancelled.is_set() else "finished"
    if acp:
        reason = "cancelled" if cancelled.is_set() else "end_turn"
        write(encoded({"id": prompt_id, "result": {"stopReason": reason}}))
        return
    write(event("TurnEnd", {}) + encoded({"id": prompt_id, "result": {"status": status}}))


def main() -> None:
    """Turn by turn."""
    threading.Thread(target=listen, daemon=True).start()
    while True:
        with answered:
            answered.wait_for(lambda: prompts)
            prompt_id, wish = prompts.pop(0)
        turn(prompt_id, wish)


if __name__ == "__main__":
    main()
