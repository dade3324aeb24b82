"""Agents that exit, close a pipe, stop, or leave a process behind."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from harness.trace import Line

from .fault import CLOSE, DRAIN, FINISHED, OPEN, PROMPT, RESULT, Fault, Step, error, step

WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "TERM": ({"signal": "TERM"}, error("agent_exited", "^the agent was ended by SIGTERM", signal="SIGTERM")),
    "KILL": ({"signal": "KILL"}, error("agent_exited", "^the agent was ended by SIGKILL", signal="SIGKILL")),
    "exit 0": ({"exit": 0}, error("agent_exited", "^the agent exited with code 0", exit_code=0)),
    "exit 3": ({"exit": 3}, error("agent_exited", "^the agent exited with code 3", exit_code=3)),
}
"""How an agent ends, and the error of everything that waits."""

# A turn with one of everything.
FULL = [
    [
        {"think": "Hm."},
        {"text": ["One ", "two."]},
        {"external_tool": {"id": "c1", "name": "look", "arguments": {"at": "sky"}}},
        {
            "tool_call": {
                "id": "c2",
                "name": "Shell",
                "arguments": {"command": "ls"},
                "approve": {"id": "a1", "action": "run command", "description": "ls"},
                "result": "a.txt",
            }
        },
        {"question": {"id": "c3", "request_id": "q1", "questions": [{"question": "Which?", "options": ["A", "B"]}]}},
        {"usage": {"input_other": 10, "output": 2}},
        {"wait_steer": True},
        {"text": "And {{steer}}."},
    ]
]
FULL_OPTIONS: dict[str, Any] = {
    "on_approval": {"answers": ["approve"]},
    "on_question": {"answers": [{"Which?": "A"}]},
    "tools": [
        {"name": "look", "description": "Looks", "parameters": {"type": "object"}, "behaviour": {"return": "blue"}}
    ],
    "hooks": [{"event": "PreToolUse", "behaviour": "allow"}, {"event": "Stop", "behaviour": "allow"}],
}
FULL_STEPS = (
    OPEN,
    PROMPT,
    step("next", until="StatusUpdate"),
    step("steer", input="three"),
    DRAIN,
    RESULT,
    CLOSE,
)
FULL_LINES = 37
"""How many lines the agent writes, the prompt's answer last: an agent that dies after that has done everything."""

# Deadlines that are meant to pass. A machine that is busy must still get everything else done before.
SHORT = {"cancel_timeout": 0.2, "close_timeout": 0.2}
IDLE = 0.5
UNHEARD = error("timeout", "did not answer the cancel within 200ms")
"""A close cancels the running turn. If the agent does not read the cancel, the turn's error says so."""


def deaths() -> Iterator[Fault]:
    for way, (action, end) in WAYS.items():
        for lines in range(FULL_LINES + 1):
            yield Fault(
                f"killed after each message of a full turn: {way}",
                f"killed_{way}_{lines:02}".replace(" ", "_"),
                FULL_STEPS,
                {"turns": FULL, "cut": {"lines": lines, "actions": [action]}},
                options=FULL_OPTIONS,
                tolerant=end if lines < FULL_LINES else None,
                # With its first line it is open; whether it is dead before the prompt comes is anybody's guess.
                calm=lines != 1,
            )
        for method, steps in _calls(end).items():
            yield Fault(
                f"killed when a call has come, before its answer: {way}",
                f"killed_{way}_at_{method}".replace(" ", "_"),
                steps,
                {"turns": [[{"text": "a"}, {"wait_cancel": True}]], "cut": {"call": method, "actions": [action]}},
            )


def _calls(end: dict[str, Any]) -> dict[str, tuple[Step, ...]]:
    """A program for each call; where it can, an outcome is waited for meanwhile."""
    waiting = (OPEN, PROMPT, step("spawn_result"))
    rest = (step("join", end), step("set_plan_mode", end, on=True), CLOSE)
    return {
        "initialize": (step("open", end),),
        "prompt": (OPEN, PROMPT, step("drain", end), step("result", end), CLOSE),
        "steer": (*waiting, step("steer", end, input="more"), *rest),
        "cancel": (*waiting, step("cancel", end), *rest),
        "set_plan_mode": (*waiting, step("set_plan_mode", end, on=True), *rest),
        "replay": (OPEN, step("replay", end), step("prompt", end, input="hi"), CLOSE),
    }


def at_once(*actions: dict[str, Any]) -> dict[str, Any]:
    """Actions between which the agent does not listen: what the program does meanwhile can't come between."""
    return {"repeat": {"times": 1, "actions": list(actions)}, "bulk": True}


# Where lines of the full turn are broken: at their first byte, in their envelope and payload, before their last.
def half_lines() -> Iterator[Fault]:
    died = WAYS["KILL"][1]
    silent = error("timeout", "idle_timeout")
    for name, before in (("text", []), ("prompt's answer", [{"text": "a"}])):
        whole = HALVES[name]
        for place in (1, len(whole) // 3, len(whole) // 2, len(whole) - 1):
            half = [*before, {"raw_base64": _base64(whole[:place])}]
            yield Fault(
                "killed within a line",
                f"half_{name.split()[0]}_{place:03}_killed",
                (OPEN, PROMPT, step("drain", died), step("result", died), CLOSE),
                [[*half, {"signal": "KILL"}]],
            )
            yield Fault(
                "half a line, then silence: `idle_timeout`",
                f"half_{name.split()[0]}_{place:03}_idle",
                (OPEN, PROMPT, step("drain", silent), step("result", silent), CLOSE),
                [[at_once(*half, {"stall": True})]],
                options={**SHORT, "idle_timeout": IDLE},
                calm=False,
            )
    whole = HALVES["text"]
    half = {"raw_base64": _base64(whole[: len(whole) // 2])}
    late = error("timeout", "turn_timeout")
    yield Fault(
        "half a line, then silence: `turn_timeout`",
        "half_line_turn_timeout",
        (OPEN, PROMPT, step("drain", late), step("result", late), CLOSE),
        [[at_once(half, {"stall": True})]],
        options={**SHORT, "turn_timeout": IDLE},
        calm=False,
    )
    given_up = error("timeout", "cancel")
    yield Fault(
        "half a line, then silence: `cancel()`",
        "half_line_cancel",
        (OPEN, PROMPT, step("next", count=2), step("cancel", given_up), step("result", given_up), CLOSE),
        [[at_once({"text": "a"}, half, {"stall": True})]],
        options=SHORT,
    )
    yield Fault(
        "half a line, then silence: `close()`",
        "half_line_close",
        (OPEN, PROMPT, step("next", count=2), CLOSE, step("result", UNHEARD)),
        [[at_once({"text": "a"}, half, {"stall": True})]],
        options=SHORT,
    )
    unopened = error("timeout", "did not answer the handshake within 200ms")
    yield Fault(
        "half a line, then silence: before the handshake",
        "half_line_handshake",
        (step("open", unopened),),
        {"before_handshake": [{"raw_base64": _base64(b'{"jsonrpc":"2.0","id":"initialize-1","res')}, {"stall": True}]},
        options={**SHORT, "handshake_timeout": 0.2},
    )


HALVES = {
    "text": b'{"jsonrpc":"2.0","method":"event","params":{"type":"ContentPart","payload":{"type":"text","text":"b"}}}',
    "prompt's answer": b'{"jsonrpc":"2.0","id":"prompt-2","result":{"status":"finished","steps":null}}',
}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def pipes() -> Iterator[Fault]:
    closed = error("agent_exited", "^the agent closed its pipes")
    left = error("agent_exited", "^the agent exited with code 0", exit_code=0)
    family = "stdout closed, the process stays"
    yield Fault(family, "stdout_closed_at_once", (step("open", closed),), mode="closes_stdout_at_once")
    yield Fault(
        family,
        "stdout_closed_in_turn",
        # At the end of its stdin, this one exits by itself.
        (OPEN, PROMPT, step("drain", left), step("result", left), CLOSE),
        [[{"text": "a"}, {"close_stdout": True}, {"wait_cancel": True}]],
        events=({"event": {"payload": {"text": "a"}}},),
    )
    yield Fault(
        family,
        "stdout_closed_between_turns",
        (OPEN, PROMPT, RESULT, step("state", {"state": "closed"}, until="closed"), step("prompt", closed, input="hi"),
         CLOSE),
        mode="closes_stdout_between_turns",
    )  # fmt: skip
    family = "stdin closed, the process stays"
    # Output that was written before the pipe was closed is lost without an error: only the deadline shows it.
    yield Fault(
        family,
        "stdin_closed_at_once",
        (step("open", (closed, error("timeout", "did not answer the handshake within 200ms"))),),
        mode="closes_stdin_at_once",
        options={**SHORT, "handshake_timeout": 0.2},
        calm=False,
    )
    yield Fault(
        family,
        "stdin_closed_in_turn",
        (OPEN, PROMPT, step("next", count=3), step("steer", closed, input="more"), step("drain", closed),
         step("result", closed), CLOSE),
        mode="closes_stdin_in_turn",
    )  # fmt: skip
    yield Fault(
        family,
        "stdin_closed_between_turns",
        (OPEN, PROMPT, RESULT, PROMPT, step("result", closed), CLOSE),
        mode="closes_stdin_between_turns",
    )


def stalls() -> Iterator[Fault]:
    mute = error("timeout", "did not answer the handshake within 200ms")
    family = "reads nothing"
    yield Fault(family, "reads_nothing", (step("open", mute),), mode="reads_nothing",
                options={**SHORT, "handshake_timeout": 0.2})  # fmt: skip
    silent = error("timeout", "idle_timeout")
    family = "reads nothing of 10 MB"
    big = "x" * 10_000_000
    yield Fault(
        family,
        "reads_no_prompt_idle",
        (OPEN, step("prompt", input=big), step("drain", silent), step("result", silent), CLOSE),
        mode="reads_no_prompt",
        options={**SHORT, "idle_timeout": IDLE},
        calm=False,
    )
    given_up = error("timeout", "cancel")
    yield Fault(
        family,
        "reads_no_prompt_cancel",
        (OPEN, step("prompt", input=big), step("cancel", given_up), step("result", given_up), CLOSE),
        mode="reads_no_prompt",
        options=SHORT,
    )
    yield Fault(
        family,
        "reads_no_prompt_close",
        (OPEN, step("prompt", input=big), CLOSE, step("result", UNHEARD)),
        mode="reads_no_prompt",
        options=SHORT,
    )
    tool = {"name": "big", "description": "Gives much", "parameters": {"type": "object"}, "behaviour": {"return": big}}
    yield Fault(
        family,
        "reads_no_answer_idle",
        (OPEN, PROMPT, step("drain", silent), step("result", silent), CLOSE),
        mode="reads_no_answer",
        options={**SHORT, "idle_timeout": IDLE, "tools": [tool]},
        calm=False,
    )
    yield Fault(
        "writes one byte at a time",
        "byte_by_byte",
        (OPEN, PROMPT, DRAIN, step("result", {**FINISHED, "text": "wörd by wörd"}), CLOSE),
        mode="writes_byte_by_byte",
    )
    # Each with the deadline that is meant to pass: what has to be done within it before has time enough.
    steer = error("timeout", "did not answer `steer` within 2s")
    plan = error("timeout", "did not answer `set_plan_mode` within 2s")
    replay = error("timeout", "the agent sent nothing of the replay for 2s")
    cancelled = (step("cancel"), step("result", {"status": "cancelled"}), CLOSE)
    for method, options, steps in (
        ("steer", {"handshake_timeout": 2.0}, (OPEN, PROMPT, step("steer", steer, input="more"), *cancelled)),
        (
            "set_plan_mode",
            {"handshake_timeout": 2.0},
            (OPEN, step("set_plan_mode", plan, on=True), PROMPT, step("next", count=3), *cancelled),
        ),
        # Late events could not be distinguished from live ones, so the session is closed.
        (
            "replay",
            {"handshake_timeout": 2.0},
            (OPEN, step("replay", replay), step("prompt", replay, input="hi"), CLOSE),
        ),
        ("cancel", SHORT, (OPEN, PROMPT, step("cancel", given_up), step("result", given_up), CLOSE)),
        # It says that no turn is there to cancel, and so long the prompt's answer is waited for.
        ("prompt", {"cancel_timeout": 2.0}, (OPEN, PROMPT, *cancelled)),
    ):
        yield Fault(
            "never answers a call",
            f"deaf_to_{method}",
            steps,
            {"turns": [[{"text": "a"}, {"wait_cancel": True}]], "deaf_to": [method]},
            options=options,
        )


def stubborn() -> Iterator[Fault]:
    yield Fault(
        "ignores the end of stdin, and TERM",
        "stubborn",
        (OPEN, PROMPT, step("next", count=3), CLOSE, step("result", UNHEARD)),
        [[{"ignore_eof": True}, {"ignore_signal": "TERM"}, at_once({"text": "a"}, {"stall": True})]],
        options=SHORT,
    )
    died = WAYS["exit 3"][1]
    for name in ("in_its_group", "in_another_session"):
        yield Fault(
            "dies; a child of its keeps the pipes open",
            f"leaves_a_child_{name}",
            (OPEN, PROMPT, step("drain", died), step("result", died), CLOSE, step("touch", path="{dir}/go")),
            mode=f"leaves_a_child_{name}",
        )


def faults() -> Iterator[Fault]:
    yield from deaths()
    yield from half_lines()
    yield from pipes()
    yield from stalls()
    yield from stubborn()


def _failed(lines: list[Line]) -> bool:
    return any(line.get("error") == "agent_exited" for line in lines)


def swept(traces: dict[str, dict[str, list[Line]]]) -> Iterator[str]:
    """What is wrong with the sweeps as a whole: each line more must bring the event that it holds, and no other."""
    for language, outcomes in traces.items():
        for way in WAYS:
            runs = [outcomes[f"killed_{way}_{n:02}".replace(" ", "_")] for n in range(FULL_LINES + 1)]
            yield from sweep(f"{language}, {way}", runs, most=1)


def sweep(what: str, runs: list[list[Line]], most: int) -> Iterator[str]:
    """What is wrong with the runs by the lines that the agent wrote; a line may bring so many events at most."""
    counts = [sum("event" in line for line in run) for run in runs]
    grown = [more - less for less, more in pairwise(counts)]
    if any(not _failed(run) for run in runs[:-1]):
        yield f"{what}: an agent that died early was not missed"
    if min(grown) < 0 or max(grown) > most:
        yield f"{what}: events by lines written are {counts}"
