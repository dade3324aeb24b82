"""The same over the Agent Client Protocol, where the protocol makes a difference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.trace import Line

from . import turns
from .ends import IDLE, SHORT, WAYS, at_once
from .fault import CLOSE, DRAIN, FINISHED, OPEN, PROMPT, RESULT, Fault, Step, error, step
from .lines import DEEP, NOISE, NOTIFICATIONS, TEXT, Raw, line, seen
from .turns import ANSWERS, KILLS, full_turn, killed_at_calls, name_of, part

ACP: dict[str, Any] = {"dialect": "acp"}
MB = 1_000_000

FULL = [full_turn()]
FULL_OPTIONS: dict[str, Any] = {**ACP, **ANSWERS}
FULL_LINES = 18
"""How many lines the agent writes, the prompt's answer last."""
OPENED = (2, 3)
"""With these it is open; whether it is dead before the prompt comes is anybody's guess."""


def script(played: Any, **more: Any) -> dict[str, Any]:
    return {"wire": "acp", "turns": played, **more}


def told(kind: str, session: str = "{{session}}", **fields: Any) -> str:
    """An update of the session's."""
    params = {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params})


def says(text: str, **more: Any) -> str:
    return told("agent_message_chunk", content={"type": "text", "text": text}, **more)


def answer(call: str, result: str = '{"stopReason":"end_turn"}') -> Raw:
    return line(f'{{"jsonrpc":"2.0","id":{call},"result":{result}}}')


MINE = "{{id.prompt}}"
TURN = (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": "b"}), CLOSE)


def deaths() -> Iterator[Fault]:
    for way in KILLS:
        action, end = WAYS[way]
        for lines in range(FULL_LINES + 1):
            yield Fault(
                f"ACP: killed after each message of a full turn: {way}",
                name_of("acp", "killed", way, f"{lines:02}"),
                (OPEN, PROMPT, DRAIN, RESULT, CLOSE),
                script(FULL, cut={"lines": lines, "actions": [action]}),
                options=FULL_OPTIONS,
                tolerant=end if lines < FULL_LINES else None,
                calm=lines not in OPENED,
            )
        waiting = (OPEN, PROMPT, step("spawn_result"))
        rest = (step("join", end), step("set_plan_mode", end, on=True), CLOSE)
        calls: dict[str, tuple[Step, ...]] = {
            "initialize": (step("open", end),),
            "new": (step("open", end),),
            "prompt": (OPEN, PROMPT, step("drain", end), step("result", end), CLOSE),
            "cancel": (*waiting, step("cancel", end), *rest),
            "set_config_option": (*waiting, step("set_plan_mode", end, on=True), *rest),
        }
        yield from killed_at_calls("ACP", "acp", way, calls, script, ACP)


def truncations() -> Iterator[Fault]:
    died, silent = WAYS["KILL"][1], error("timeout", "idle_timeout")
    for name, whole in (("update", says("b")), ("answer", answer(MINE)["raw"])):
        half = part(whole[: len(whole) // 2])
        yield Fault(
            "ACP: killed within a line",
            f"acp_half_{name}_killed",
            (OPEN, PROMPT, step("drain", died), step("result", died), CLOSE),
            script([[half, {"signal": "KILL"}]]),
            options=ACP,
        )
        yield Fault(
            "ACP: half a line, then silence",
            f"acp_half_{name}_idle",
            (OPEN, PROMPT, step("drain", silent), step("result", silent), CLOSE),
            script([[at_once(half, {"stall": True})]]),
            options={**ACP, **SHORT, "idle_timeout": IDLE},
            calm=False,
        )


def noise() -> Iterator[Fault]:
    # Over ACP the events of Wire are unknown notifications.
    delivered = {*NOTIFICATIONS, "event_without_type", "event_of_number", "event_without_params"}
    for family, lines in NOISE.items():
        for name, raw in lines:
            yield Fault(
                f"ACP: {family}",
                f"acp_{family}_{name}".replace(" ", "_").replace(",", ""),
                (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": "ab"}), CLOSE),
                script([[{"text": "a"}, raw, {"text": "b"}]]),
                options=ACP,
                total=6 if name in delivered else 5,
            )


def updates() -> Iterator[Fault]:
    """Messages of another session do not reach this one; unknown messages are delivered."""
    for name, raw, total in (
        ("text", says("x", session="other"), 4),
        ("empty", says("x", session=""), 4),
        ("call", told("tool_call", session="other", toolCallId="c1", title="Bash"), 4),
        ("none", says("x").replace('"sessionId"', '"session"'), 5),
    ):
        yield Fault("ACP: updates of no session, or of another", f"acp_session_{name}", TURN,
                    script([[line(raw), {"text": "b"}]]), options=ACP, total=total)  # fmt: skip
    deep = told("novelty", more="@").split('"@"')
    for name, raw_, pattern in (
        ("kind", line(told("novelty", mood="good")), seen({"mood": "good"}, "novelty")),
        ("content", line(told("agent_message_chunk", content=3)), {"event": {"type": "agent_message_chunk"}}),
        ("tool_call", line(told("tool_call", toolCallId=True)), {"event": {"type": "tool_call"}}),
        ("deep", {"raw": {"before": deep[0], "repeat": "[", "times": DEEP, "after": "]" * DEEP + deep[1]}},
         {"event": {"type": "novelty"}}),
    ):  # fmt: skip
        yield Fault("ACP: updates that can't be read", f"acp_update_{name}", TURN,
                    script([[raw_, {"text": "b"}]]), options=ACP, events=(pattern, TEXT), total=5)  # fmt: skip


def ids() -> Iterator[Fault]:
    family = "ACP: answers to no call, or to another"
    for name, raw in (
        ("unknown", answer("999")),
        ("handshake_again", answer("0")),
        ("text", answer('"prompt-2"')),
        ("negative", answer("-1")),
        ("fraction", answer("2.5")),
        ("null", answer("null")),
        ("missing", line('{"jsonrpc":"2.0","result":{"stopReason":"end_turn"}}')),
    ):
        yield Fault(family, f"acp_answer_{name}", TURN, script([[raw, {"text": "b"}]]), options=ACP, total=4)
    yield Fault(
        family,
        "acp_answered_twice",
        (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": "b"}), PROMPT, DRAIN,
         step("result", {**FINISHED, "text": "c"}), CLOSE),
        script([[{"text": "b"}, {"end": "finished"}, answer(MINE)], [{"text": "c"}]]),
        options=ACP,
    )  # fmt: skip
    unread = error("protocol_error", "answer to `prompt` can't be read")
    yield Fault(
        "ACP: an answer with an unknown reason",
        "acp_answer_of_unknown_reason",
        (OPEN, PROMPT, DRAIN, RESULT, PROMPT, RESULT, CLOSE),
        script([[{"never_answer": True}, answer(MINE, '{"stopReason":"whim"}')], [{"text": "b"}]]),
        options=ACP,
    )
    yield Fault(
        "ACP: an answer of another form",
        "acp_answer_of_nothing",
        (OPEN, PROMPT, DRAIN, RESULT, PROMPT, RESULT, CLOSE),
        script([[{"never_answer": True}, line(f'{{"jsonrpc":"2.0","id":{MINE}}}')], [{"text": "b"}]]),
        options=ACP,
    )
    for name, result in (("number", "7"), ("list", "[]")):
        yield Fault(
            "ACP: an answer of another form",
            f"acp_answer_of_{name}",
            (OPEN, PROMPT, step("drain", unread), step("result", unread), PROMPT, RESULT, CLOSE),
            script([[{"never_answer": True}, answer(MINE, result)], [{"text": "b"}]]),
            options=ACP,
        )
    for name, code, data, outcome in (
        ("refused", -32603, "null", error("rpc_error", "^session prompt failed", rpc_code=-32603)),
        ("busy", -32600, '{"code":"turn.agent_busy"}', error("turn_in_progress", "^session prompt failed",
                                                             rpc_code=-32600)),
        ("login", -32000, "null", error("auth_expired", "^session prompt failed", rpc_code=-32000)),
    ):  # fmt: skip
        said = f'{{"code":{code},"message":"session prompt failed","data":{data}}}'
        yield Fault(
            "ACP: a prompt that is refused, of 20 MB and others",
            f"acp_prompt_{name}",
            (OPEN, step("prompt", input="x" * 20 * MB if name == "refused" else "hi"), step("drain", outcome),
             step("result", outcome), PROMPT, step("result", {**FINISHED, "text": "b"}), CLOSE),
            script([[{"never_answer": True}, line(f'{{"jsonrpc":"2.0","id":{MINE},"error":{said}}}')],
                    [{"text": "b"}]]),
            options=ACP,
        )  # fmt: skip


def permissions() -> Iterator[Fault]:
    def ask(kinds: list[str], rpc_id: str = "7", session: str = "{{session}}") -> Raw:
        options = [{"optionId": kind, "name": kind.capitalize(), "kind": kind} for kind in kinds]
        params = {"sessionId": session, "toolCall": {"toolCallId": "c1", "title": "Bash"}, "options": options}
        request = {"jsonrpc": "2.0", "id": "@", "method": "session/request_permission", "params": params}
        return line(json.dumps(request).replace('"@"', rpc_id))

    odd = ["allow_once", "allow_on_sundays"]
    plain = ["allow_once", "reject_once"]

    def chosen(option: str) -> dict[str, Any]:
        # One that the question has: a failed handler's event may come after the turn's end, for which nothing waits.
        return {"on_approval": {"answers": ["approve"]}, "on_question": {"answers": [{"Bash": option}]}}

    handlers = chosen("Allow_on_sundays")
    question = {"event": {"type": "QuestionRequest", "payload": {"questions": [{"question": "Bash"}]}}}
    approval = {"event": {"type": "ApprovalRequest"}}
    family = "ACP: permissions with unusual options"
    # The turn, its step and its text, the call that was not announced, and the request.
    for name, kinds, event, answered in (
        ("unknown_kind", odd, question, handlers),
        ("none", [], approval, handlers),
        ("twice_allowed", ["allow_once", "allow_once", "reject_once"], question, chosen("Allow_once")),
        ("for_good_twice", ["allow_always", "allow_always", *plain], approval, handlers),
    ):
        for with_handlers in (True, False):
            yield Fault(family, f"acp_permission_{name}_{'asked' if with_handlers else 'unasked'}", TURN,
                        script([[ask(kinds), {"text": "b"}]]), options={**ACP, **(answered if with_handlers else {})},
                        events=(event,), total=6)  # fmt: skip
    family = "ACP: permissions with unusual ids, or of another session"
    for name, raw, total in (("text", ask(plain, '"a"'), 6), ("same_as_ours", ask(plain, MINE), 6),
                             ("float", ask(plain, "1.5"), 6), ("other_session", ask(plain, session="other"), None),
                             ("null", ask(plain, "null"), 5)):  # fmt: skip
        yield Fault(family, f"acp_permission_{name}", TURN, script([[raw, {"text": "b"}]]),
                    options={**ACP, **handlers}, total=total)  # fmt: skip
    yield Fault(family, "acp_permission_repeated", TURN, script([[ask(plain), ask(plain), {"text": "b"}]]),
                options={**ACP, **handlers}, events=(TEXT,))  # fmt: skip
    call = {"tool_call": {"name": "Bash", "arguments": {}, "approve": {"description": "ls"}, "result": "ok"}}
    yield Fault(
        "ACP: cancelled with a permission open",
        "acp_cancel_with_permission",
        (OPEN, PROMPT, step("next", until="ApprovalRequest"), step("cancel"), step("result", {"status": "cancelled"}),
         PROMPT, step("result", {**FINISHED, "text": "b"}), CLOSE),
        script([[call], [{"text": "b"}]]),
        options={**ACP, "on_approval": {"answers": [{"hang": True}]}},
    )  # fmt: skip


def deaf() -> Iterator[Fault]:
    """It has read the call, and does not answer."""
    unopened = error("timeout", "did not answer the handshake within 200ms")
    given_up = error("timeout", "cancel")
    cases: dict[str, tuple[Step, ...]] = {
        "initialize": (step("open", unopened),),
        "new": (step("open", unopened),),
    }
    for method, steps in cases.items():
        yield Fault("ACP: never answers a call", f"acp_deaf_to_{method}", steps,
                    script([[{"text": "a"}]], deaf_to=[method]),
                    options={**ACP, **SHORT, "handshake_timeout": 0.2})  # fmt: skip
    yield Fault(
        "ACP: never answers a call",
        "acp_deaf_to_cancel",
        (OPEN, PROMPT, step("next", count=3), step("cancel", given_up), step("result", given_up), CLOSE),
        script([[at_once({"text": "a"}, {"stall": True})]]),
        options={**ACP, **SHORT},
    )


def sizes() -> Iterator[Fault]:
    limit = 64 * 1024
    over = error("protocol_error", f"bytes or more; `max_line_bytes` is {limit}")
    before, after = says("@").split("@")
    yield Fault(
        "ACP: a line over `max_line_bytes`",
        "acp_line_over_the_limit",
        (OPEN, PROMPT, step("drain", over), step("result", over), CLOSE),
        script([[{"raw": {"before": before, "repeat": "x", "times": limit, "after": after}}, {"wait_cancel": True}]]),
        options={**ACP, "max_line_bytes": limit},
    )


# The option, and an action that has its handler called.
SERVICES: dict[str, tuple[str, dict[str, Any]]] = {
    "ReadFileRequest": ("on_read_file", {"read_file": {"path": "/a"}}),
    "WriteFileRequest": ("on_write_file", {"write_file": {"path": "/a", "content": "x"}}),
    "TerminalRequest": ("on_terminal", {"terminal": {"command": "x"}}),
}
MIB = 1024 * 1024


def services() -> Iterator[Fault]:
    """Handlers of files and terminals that fail or never end, and agents that ask for too much or for nothing there."""
    problem = {"text": "{{last.error.code}} {{last.error.message}}"}

    def turn(text: str) -> tuple[Step, ...]:
        return (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": text}), CLOSE)

    def about(method: str, terminal: str = "terminal-1") -> dict[str, Any]:
        return {"request": {"type": f"terminal/{method}", "payload": {"terminalId": terminal}}}

    def answered(option: str, answer: Any) -> dict[str, Any]:
        return {**ACP, option: {"answers": [answer]}}

    cancelled = {"status": "cancelled"}
    for kind, (option, action) in SERVICES.items():
        failed = {"event": {"type": "HandlerFailed", "payload": {"message": "no such luck"}}}
        yield Fault("ACP: a handler of files or terminals fails", f"acp_{option}_fails", turn("-32603 no such luck"),
                    script([[action, problem]]), options=answered(option, {"raise": "no such luck"}),
                    events=(failed,))  # fmt: skip
        hangs = answered(option, {"hang": True})
        begun = (OPEN, PROMPT, step("next", until=kind))
        again = (PROMPT, step("result", {**FINISHED, "text": "b"}), CLOSE)
        family = "ACP: a handler of files or terminals never ends"
        yield Fault(f"{family}: cancel()", f"acp_{option}_hangs_and_is_cancelled",
                    (*begun, step("cancel"), step("result", cancelled), *again),
                    script([[action], [{"text": "b"}]]), options=hangs)  # fmt: skip
        late = error("timeout", "turn_timeout")
        yield Fault(f"{family}: `turn_timeout`", f"acp_{option}_hangs_over_the_timeout",
                    (OPEN, PROMPT, step("drain", late), step("result", late), *again),
                    script([[action], [{"text": "b"}]]),
                    options={**hangs, "turn_timeout": IDLE}, calm=False)  # fmt: skip
        yield Fault(f"{family}: close()", f"acp_{option}_hangs_and_its_session_is_closed",
                    (*begun, CLOSE, step("result", cancelled)), script([[action]]), options=hangs)  # fmt: skip
        for way in KILLS:
            death, end = WAYS[way]
            request = {"read_file": "fs/read_text_file", "write_file": "fs/write_text_file",
                       "terminal": "terminal/create"}[next(iter(action))]  # fmt: skip
            asks = {"request": {"type": request, "payload": next(iter(action.values()))}, "wait": False}
            yield Fault(f"ACP: killed while a handler of files or terminals runs: {way}",
                        name_of("acp", option, "killed", way),
                        (*begun, step("touch", path="{dir}/go"), step("drain", end), step("result", end), CLOSE),
                        script([[asks, {"wait_file": "{dir}/go"}, death]]), options=hangs)  # fmt: skip
    family = "ACP: files and outputs above the limits"
    yield Fault(family, "acp_file_above_the_limit",
                turn(f"-32603 /a: these lines have {16 * MIB + 1} bytes, and at most {16 * MIB} are sent; ask for "
                     "fewer lines with `line` and `limit`"),
                script([[{"read_file": {"path": "/a"}}, problem]]),
                options=answered("on_read_file", {"return": "x" * (16 * MIB + 1)}))  # fmt: skip
    yield Fault(family, "acp_output_above_the_limit", turn("true"),
                script([[{"terminal": {"command": "x"}}, {"text": "{{last.truncated}}"}]]),
                options=answered("on_terminal", {"output": "x" * (4 * MIB + 1), "exit_code": 0}))  # fmt: skip
    yield Fault(family, "acp_terminals_above_the_limit",
                turn("-32603 32 terminals are open; release one of them first"),
                script([[{"repeat": {"times": 33, "actions": [
                    {"request": {"type": "terminal/create", "payload": {"command": "x"}}}]}}, problem]]),
                options=answered("on_terminal", {"output": "", "exit_code": 0}))  # fmt: skip
    family = "ACP: calls about no terminal, or about a released one"
    for method in ("output", "wait_for_exit", "kill", "release"):
        for name, actions in (
            ("unknown", [about(method, "terminal-9")]),
            ("released", [{"terminal": {"command": "x"}}, about(method)]),
        ):
            terminal = "terminal-9" if name == "unknown" else "terminal-1"
            yield Fault(family, f"acp_terminal_{method}_of_{name}",
                        turn(f"-32602 there is no terminal `{terminal}`"), script([[*actions, problem]]),
                        options=answered("on_terminal", {"output": "", "exit_code": 0}))  # fmt: skip
    family = "ACP: invalid line numbers of a file"
    for name, wrong in (("negative", -1), ("fraction", 1.5), ("text", "1"), ("huge", 2**32)):
        request = {"type": "fs/read_text_file", "payload": {"path": "/a", "line": wrong}}
        yield Fault(family, f"acp_line_{name}", turn("-32602"),
                    script([[{"request": request}, {"text": "{{last.error.code}}"}]]),
                    options=answered("on_read_file", {"return": "secret"}))  # fmt: skip


def faults() -> Iterator[Fault]:
    yield from deaths()
    yield from truncations()
    yield from noise()
    yield from updates()
    yield from ids()
    yield from permissions()
    yield from deaf()
    yield from sizes()
    yield from services()


def swept(traces: dict[str, dict[str, list[Line]]]) -> Iterator[str]:
    """A line of ACP may hold several events, since turns and steps are made of nothing."""
    return turns.swept(traces, "ACP", "acp", range(FULL_LINES + 1), most=3)
