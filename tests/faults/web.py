"""The same over the API of Kimi Code's server: HTTP that fails, a WebSocket that breaks, and servers that are none."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from harness.trace import Line

from . import turns
from .ends import IDLE, SHORT, WAYS, at_once
from .fault import CLOSE, DRAIN, FINISHED, OPEN, PROMPT, RESULT, Fault, Step, error, step
from .lines import TEXT, line, seen
from .turns import ANSWERS, KILLS, full_turn, killed_at_calls, name_of, part

WEB: dict[str, Any] = {"dialect": "kimi-web"}
# A server that is refused stays until it is ended.
REFUSED: dict[str, Any] = {**WEB, "close_timeout": 0.2}

FULL = [full_turn({"usage": {"input_other": 10, "output": 2}})]
FULL_OPTIONS: dict[str, Any] = {**WEB, **ANSWERS}
FULL_STEPS = (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": "Done."}), CLOSE)
FULL_LINES = 40
"""The number of lines that the agent writes, those of the opening included. The turn's end is among the last four."""
DEATHS = range(0, FULL_LINES - 3, 4)


def script(played: Any, **more: Any) -> dict[str, Any]:
    return {"wire": "kimi-web", "turns": played, **more}


def frame(kind: str, session: str = "{{session}}", **payload: Any) -> str:
    """A frame of the session's that is not replayed."""
    told = {"type": kind, "agentId": "main", "sessionId": session, **payload}
    return json.dumps({"type": kind, "session_id": session, "payload": told, "volatile": True})


def deaths() -> Iterator[Fault]:
    for way in KILLS:
        action, end = WAYS[way]
        for lines in DEATHS:
            yield Fault(
                f"server: killed after messages of a full turn: {way}",
                name_of("web", "killed", way, f"{lines:02}"),
                (OPEN, PROMPT, DRAIN, RESULT, CLOSE),
                script(FULL, cut={"lines": lines, "actions": [action]}),
                options=FULL_OPTIONS,
                tolerant=end,
                calm=False,
            )
        waiting = (OPEN, PROMPT, step("spawn_result"))
        rest = (step("join", end), step("set_plan_mode", end, on=True), CLOSE)
        calls: dict[str, tuple[Step, ...]] = {
            "new": (step("open", end),),
            "prompt": (OPEN, PROMPT, step("drain", end), step("result", end), CLOSE),
            "cancel": (*waiting, step("cancel", end), *rest),
            "steer": (*waiting, step("steer", end, input="more"), *rest),
            "transcript": (OPEN, step("replay", end), step("prompt", end, input="hi"), CLOSE),
        }
        yield from killed_at_calls("server", "web", way, calls, script, WEB)


def breaks() -> Iterator[Fault]:
    """No event is lost, and none comes twice."""
    for lines in range(4, FULL_LINES + 1):
        yield Fault(
            "server: the WebSocket breaks after a message of a full turn",
            f"web_broken_{lines:02}",
            FULL_STEPS,
            script(FULL, cut={"lines": lines, "actions": [{"break_socket": True}]}),
            options=FULL_OPTIONS,
            events=BROKEN,
            calm=False,
        )
    again: list[dict[str, Any]] = []
    for n in range(5):
        again += [{"text": f"{n} "}, {"break_socket": True}, {"wait_socket": True}]
    yield Fault(
        "server: the WebSocket breaks five times in a turn",
        "web_broken_again",
        (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": "0 1 2 3 4 b"}), CLOSE),
        script([[*again, {"text": "b"}]]),
        options=WEB,
        calm=False,
    )
    yield Fault(
        "server: the WebSocket breaks between turns",
        "web_broken_idle",
        (OPEN, PROMPT, DRAIN, RESULT, PROMPT, DRAIN, step("result", {**FINISHED, "text": "b"}), CLOSE),
        script([[{"text": "a"}, {"end": "finished"}, {"break_socket": True}], [{"text": "b"}]]),
        options=WEB,
        events=(TEXT,),
    )
    half = frame("assistant.delta", turnId=0, delta="b")[:60]
    died, silent = WAYS["KILL"][1], error("timeout", "idle_timeout")
    family = "server: half a frame"
    yield Fault(
        family,
        "web_half_broken",
        (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": "ab"}), CLOSE),
        script([[{"text": "a"}, part(half), {"break_socket": True}, {"wait_socket": True}, {"text": "b"}]]),
        options=WEB,
        calm=False,
    )
    yield Fault(
        family,
        "web_half_killed",
        (OPEN, PROMPT, step("drain", died), step("result", died), CLOSE),
        script([[part(half), {"signal": "KILL"}]]),
        options=WEB,
    )
    yield Fault(
        family,
        "web_half_idle",
        (OPEN, PROMPT, step("drain", silent), step("result", silent), CLOSE),
        script([[at_once(part(half), {"stall": True})]]),
        options={**WEB, **SHORT, "idle_timeout": IDLE},
        calm=False,
    )


BROKEN = (
    seen({"think": "Hm.", "type": "think"}, "ContentPart"),
    seen({"tool_call_id": "c1"}, "ToolResult"),
    seen({"tool_call_id": "c2"}, "ToolResult"),
)


def pings() -> Iterator[Fault]:
    yield Fault(
        "server: pings come while nobody reads",
        "web_pings",
        (
            OPEN,
            PROMPT,
            step("next", until="ContentPart"),
            step("run", argv=["sleep", "1"]),
            DRAIN,
            step("result", {**FINISHED, "text": "ab"}),
            CLOSE,
        ),
        script([[{"text": "a"}, {"delay": 0.6}, {"text": "b"}]], web={"heartbeat": 0.1}),
        options=WEB,
        events=(TEXT,),
    )


def silences() -> Iterator[Fault]:
    """The WebSocket is open, and one side gets nothing from the other."""
    for how, family in (
        ("pongs", "server: the client's pongs are lost"),
        ("silence", "server: it is silent, and the WebSocket stays open"),
    ):
        again = [{"break_socket": how}, {"wait_socket": True}]
        yield Fault(
            family,
            f"web_lost_{how}",
            (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": "ab"}), CLOSE),
            script([[{"text": "a"}, *again, {"text": "b"}]], web={"heartbeat": 0.3}),
            options=WEB,
            calm=False,
        )


def starts() -> Iterator[Fault]:
    family = "server: it is another one, or none"

    def fault(name: str, outcome: dict[str, Any], script_: dict[str, Any], **more: Any) -> Fault:
        return Fault(family, f"web_start_{name}", (step("open", outcome),), script_, **{"options": REFUSED, **more})

    handshake = error("handshake_error", ".")
    silent = error("timeout", "3s")
    yield fault("token_refused", handshake, script([], web={"refuses": True}))
    yield fault("other_server", handshake, script([], web={"foreign": True}))
    yield fault("other_version", handshake, script([], web={"protocol_version": 3}))
    mute = script([], before_handshake=[{"stall": True}])
    yield fault("no_banner", silent, mute, options={**REFUSED, "handshake_timeout": 3.0})
    yield fault(
        "port_refuses",
        handshake,
        script([], before_handshake=[line("  Local:    http://127.0.0.1:1/#token=x"), {"stall": True}]),
    )
    yield fault(
        "noise_without_end", handshake, script([], before_handshake=[{"raw": {"repeat": "noise ", "times": 100_000}}])
    )
    yield fault(
        "exit_before_banner", error("agent_exited", "code 3", exit_code=3), script([], before_handshake=[{"exit": 3}])
    )
    noise = [
        line(text) for text in ("Updating …", "http://127.0.0.1/", "http://127.0.0.1:x/", "see http://10.0.0.1:9/")
    ]
    yield Fault(
        "server: noise before its port",
        "web_start_noise",
        (OPEN, PROMPT, RESULT, CLOSE),
        script([[{"text": "a"}]], before_handshake=noise),
        options=WEB,
    )
    stale = {"server_id": "0", "pid": 1, "host": "127.0.0.1", "port": 9, "started_at": 1, "heartbeat_at": 1}
    write = (
        "import os, sys; home, text = sys.argv[1:]; os.makedirs(home + '/server/instances'); "
        "open(home + '/server/instances/0.json', 'w').write(text); open(home + '/server.token', 'w').write('x')"
    )
    yield Fault(
        "server: files of a server that was killed",
        "web_stale_files",
        (step("run", argv=["python3", "-c", write, "{dir}/home", json.dumps(stale)]), OPEN, PROMPT, RESULT, CLOSE),
        script([[{"text": "a"}]]),
        options={**WEB, "env": {"KIMI_CODE_HOME": "{dir}/home"}},
    )


def statuses() -> Iterator[Fault]:
    """HTTP 500 as the answer to each call."""
    failed = error("rpc_error", "500")
    approval = {"tool_call": {"id": "c1", "name": "Bash", "approve": {"id": "a1"}, "result": "ok"}}
    turn: list[Any] = [[{"text": "a"}, {"wait_cancel": True}], [{"text": "b"}]]
    for name, steps in {
        "meta": (step("open", error("handshake_error", "500")),),
        "new": (step("open", failed),),
        "config": (step("open", failed),),
        "profile": (step("open", failed),),
        "skills": (OPEN, CLOSE),
        "ws": (step("open", error("handshake_error", "500")),),
        "prompt": (OPEN, PROMPT, step("drain", failed), step("result", failed), CLOSE),
        "transcript": (OPEN, step("replay", failed), CLOSE),
        "undo": (OPEN, step("undo", failed), CLOSE),
        "cancel": (
            OPEN,
            PROMPT,
            step("next", until="ContentPart"),
            step("cancel", error("timeout", "refused the cancel.*500")),
            CLOSE,
        ),
        "steer": (OPEN, PROMPT, step("next", until="ContentPart"), step("steer", failed, input="x"), CLOSE),
    }.items():
        yield Fault(
            "server: HTTP 500",
            f"web_500_{name}",
            steps,
            script(turn, web={"status": {name: 500}}),
            options=REFUSED,
            calm=False,
        )
    yield Fault(
        "server: HTTP 500",
        "web_500_approval",
        (
            OPEN,
            PROMPT,
            step("drain", error("timeout", "idle_timeout")),
            step("result", error("timeout", "idle_timeout")),
            CLOSE,
        ),
        script([[approval]], web={"status": {"approval": 500}}),
        options={**WEB, **SHORT, "idle_timeout": IDLE, "on_approval": {"answers": ["approve"]}},
        calm=False,
    )


def orders() -> Iterator[Fault]:
    family = "server: answers come after what they began"
    for name in ("prompt", "approval", "question"):
        yield Fault(
            family,
            f"web_late_{name}",
            FULL_STEPS,
            script(FULL, web={"late": [name]}),
            options=FULL_OPTIONS,
            events=BROKEN,
        )
    yield Fault(
        family,
        "web_late_cancel",
        (
            OPEN,
            PROMPT,
            step("next", until="ContentPart"),
            step("cancel"),
            step("result", {"status": "cancelled"}),
            CLOSE,
        ),
        script([[{"text": "a"}, {"wait_cancel": True}]], web={"late": ["cancel", "prompt"]}),
        options=WEB,
    )


def frames() -> Iterator[Fault]:
    turn = (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": "ab"}), CLOSE)
    family = "server: invalid frames, frames of another session, repeated frames"
    again = json.dumps(
        {
            "type": "turn.step.started",
            "seq": 1,
            "session_id": "{{session}}",
            "epoch": "@",
            "payload": {"turnId": 0, "step": 1, "agentId": "main", "sessionId": "{{session}}"},
        }
    )
    for name, raw in (
        ("text", line("Loading 50% ...")),
        ("number", line("7")),
        ("array", line("[]")),
        ("no_type", line('{"session_id":"{{session}}"}')),
        ("no_session", line('{"type":"assistant.delta","payload":{"delta":"x","turnId":0}}')),
        ("other_session", line(frame("assistant.delta", session="session_other", turnId=0, delta="x"))),
        ("ping_again", line('{"type":"ping","payload":{}}')),
        ("ack_of_nothing", line('{"type":"ack","id":"999","code":0,"msg":"","payload":{}}')),
        ("hello_again", line('{"type":"server_hello","payload":{"protocol_version":2}}')),
        ("zeros", {"raw_base64": base64.b64encode(b"\0" * 100 + b"\n").decode()}),
        ("again", line(again.replace('"epoch": "@", ', ""))),
    ):
        yield Fault(
            family, f"web_frame_{name}", turn, script([[{"text": "a"}, raw, {"text": "b"}]]), options=WEB, total=6
        )
    odd = line(frame("novelty", mood="good"))
    yield Fault(
        "server: frames of a type that nobody knows",
        "web_frame_unknown",
        turn,
        script([[{"text": "a"}, odd, {"text": "b"}]]),
        options=WEB,
        events=(seen({"mood": "good"}, "novelty"),),
        total=7,
    )


def floods() -> Iterator[Fault]:
    """The agent does not wait for a reader. What is not read is bounded, and costs only its own session."""
    mb = 1 << 20
    flood = [{"repeat": {"times": 84, "actions": [{"text": "x" * mb}]}}]
    full = error("event_buffer_full", "unread")
    agent = step("open_agent", options=WEB)

    def of(session: str, op: str, outcome: Any = None, **fields: Any) -> Step:
        return step(op, outcome or {"ok": True}, **{"as": session}, **fields)

    def opened(session: str) -> Step:
        return step("open", agent="agent", session=session)

    def prompted(session: str) -> Step:
        return step("prompt", session=session, input="hi", **{"as": session})

    yield Fault(
        "server: a session reads none of 84 MB",
        "web_flood",
        (
            agent,
            opened("a"),
            opened("b"),
            prompted("a"),
            of("a", "next", count=1),
            prompted("b"),
            of("b", "result", FINISHED),
            of("a", "result", full),
            step("close", session="a"),
            step("close_agent"),
        ),
        script([flood, [{"text": "b"}]]),
        calm=False,
    )


def faults() -> Iterator[Fault]:
    yield from deaths()
    yield from breaks()
    yield from pings()
    yield from silences()
    yield from starts()
    yield from statuses()
    yield from orders()
    yield from frames()
    yield from floods()


def swept(traces: dict[str, dict[str, list[Line]]]) -> Iterator[str]:
    """Between two runs there are up to four messages."""
    return turns.swept(traces, "server", "web", DEATHS, most=8)
