"""The same over the Agent Client Protocol, where the protocol makes a difference."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from harness.trace import Line

from .ends import IDLE, SHORT, WAYS, at_once, sweep
from .fault import CLOSE, DRAIN, FINISHED, OPEN, PROMPT, RESULT, Fault, Step, error, step
from .lines import DEEP, NOISE, TEXT, Raw, line, seen

ACP: dict[str, Any] = {"dialect": "acp"}
MB = 1_000_000

# A turn with one of everything.
FULL = [
    [
        {"think": "Hm."},
        {"text": ["One ", "two."]},
        {
            "tool_call": {
                "id": "c1",
                "name": "Bash",
                "arguments": {"command": "ls"},
                "approve": {"id": "a1", "action": "run command", "description": "ls"},
                "result": "a.txt",
            }
        },
        {"question": {"id": "c2", "request_id": "q1", "questions": [{"question": "Which?", "options": ["A", "B"]}]}},
        {"text": "Done."},
    ]
]
FULL_OPTIONS: dict[str, Any] = {
    **ACP,
    "on_approval": {"answers": ["approve"]},
    "on_question": {"answers": [{"Which?": "A"}]},
}
FULL_LINES = 18
"""How many lines the agent writes, the prompt's answer last."""
OPENED = (2, 3)
"""With these it is open; whether it is dead before the prompt comes is anybody's guess."""


def script(turns: Any, **more: Any) -> dict[str, Any]:
    return {"wire": "acp", "turns": turns, **more}


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
    for way in ("KILL", "exit 0"):
        action, end = WAYS[way]
        for lines in range(FULL_LINES + 1):
            yield Fault(
                f"ACP: killed after each message of a full turn: {way}",
                f"acp_killed_{way}_{lines:02}".replace(" ", "_"),
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
        for method, steps in calls.items():
            yield Fault(
                f"ACP: killed when a call has come, before its answer: {way}",
                f"acp_killed_{way}_at_{method}".replace(" ", "_"),
                steps,
                script([[{"text": "a"}, {"wait_cancel": True}]], cut={"call": method, "actions": [action]}),
                options=ACP,
            )


def halves() -> Iterator[Fault]:
    died, silent = WAYS["KILL"][1], error("timeout", "idle_timeout")
    for name, whole in (("update", says("b")), ("answer", answer(MINE)["raw"])):
        half = line_part(whole[: len(whole) // 2])
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


def line_part(text: str) -> Raw:
    """Without an end."""
    return {"raw_base64": base64.b64encode(text.encode()).decode()}


def noise() -> Iterator[Fault]:
    for family, lines in NOISE.items():
        for name, raw in lines:
            yield Fault(
                f"ACP: {family}",
                f"acp_{family}_{name}".replace(" ", "_").replace(",", ""),
                (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": "ab"}), CLOSE),
                script([[{"text": "a"}, raw, {"text": "b"}]]),
                options=ACP,
                total=5,
            )


def updates() -> Iterator[Fault]:
    """What is told of another session is not of this one; what is not known is delivered all the same."""
    for name, raw in (
        ("text", says("x", session="other")),
        ("empty", says("x", session="")),
        ("call", told("tool_call", session="other", toolCallId="c1", title="Bash")),
        ("none", says("x").replace('"sessionId"', '"session"')),
    ):
        yield Fault("ACP: updates of no session, or of another", f"acp_session_{name}", TURN,
                    script([[line(raw), {"text": "b"}]]), options=ACP, total=4)  # fmt: skip
    deep = told("novelty", more="@").split('"@"')
    for name, raw_, pattern in (
        ("kind", line(told("novelty", mood="good")), seen({"mood": "good"}, "novelty")),
        ("content", line(told("agent_message_chunk", content=3)), {"event": {"type": "agent_message_chunk"}}),
        ("tool_call", line(told("tool_call", toolCallId=7)), {"event": {"type": "tool_call"}}),
        ("deep", {"raw": {"before": deep[0], "repeat": "[", "times": DEEP, "after": "]" * DEEP + deep[1]}},
         {"event": {"type": "novelty", "error": "nested deeper than 100 levels, and left out"}}),
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
        ("neither", line(f'{{"jsonrpc":"2.0","id":{MINE}}}')),
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
    for name, result in (("number", "7"), ("null", "null"), ("unknown_reason", '{"stopReason":"whim"}')):
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

    odd = ["allow_once", "allow_on_sundays", "reject_once"]
    plain = ["allow_once", "reject_once"]

    def chosen(option: str) -> dict[str, Any]:
        # One that the question has: a failed handler's event may come after the turn's end, for which nothing waits.
        return {"on_approval": {"answers": ["approve"]}, "on_question": {"answers": [{"Bash": option}]}}

    handlers = chosen("Allow_on_sundays")
    question = {"event": {"type": "QuestionRequest", "payload": {"questions": [{"question": "Bash"}]}}}
    approval = {"event": {"type": "ApprovalRequest"}}
    family = "ACP: permissions with odd options"
    # The turn, its step and its text, the call that nobody told of, and the request.
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
    family = "ACP: permissions with odd ids, or of another session"
    for name, raw, total in (("text", ask(plain, '"a"'), 6), ("same_as_ours", ask(plain, MINE), 6),
                             ("float", ask(plain, "1.5"), 6), ("other_session", ask(plain, session="other"), None),
                             ("null", ask(plain, "null"), 4)):  # fmt: skip
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


def faults() -> Iterator[Fault]:
    yield from deaths()
    yield from halves()
    yield from noise()
    yield from updates()
    yield from ids()
    yield from permissions()
    yield from deaf()
    yield from sizes()


def swept(traces: dict[str, dict[str, list[Line]]]) -> Iterator[str]:
    """As `ends.swept`; a line of ACP may hold several events, since turns and steps are made of nothing."""
    for language, outcomes in traces.items():
        for way in ("KILL", "exit 0"):
            runs = [outcomes[f"acp_killed_{way}_{n:02}".replace(" ", "_")] for n in range(FULL_LINES + 1)]
            yield from sweep(f"{language}, ACP, {way}", runs, most=3)
