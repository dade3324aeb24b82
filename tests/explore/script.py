"""Random scripts of the scripted agent: turns made of actions, with gates at which the agent waits for the program.

Every text names its prompt, its turn and its place in the turn (`p3.1.2;`), so that a lost, repeated or misplaced
event shows in the trace of one language.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .choices import Choices

Json = dict[str, Any]

WIRES: tuple[str, ...] = ("1.10", "1.10", "1.10", "acp", "acp", "1.8", "1.5", "1.3", "1.2", "1.0")
# The versions of Wire that brought something. Before SETTLES, a prompt that is cancelled while it asks is never
# answered; over ACP, the agent may first see that it is cancelled, or first the answer.
STEER, QUESTIONS, TOOLS, HOOKS, FEEDBACK, SETTLES = (1, 4), (1, 4), (1, 1), (1, 8), (1, 6), (1, 3)
FOCI: tuple[str, ...] = ("", "", "", "death", "silence", "shared", "once", "lines")
INVALID_LINES: tuple[Json, ...] = (
    {"raw": "no JSON"},
    {"raw": "[]"},
    {"raw": '{"jsonrpc": "2.0"}'},
    {"raw": '{"jsonrpc": "2.0", "id": "nobody", "result": {}}'},
    {"raw_base64": "/8D+Cg=="},
)
DEATHS: tuple[tuple[Json, ...], ...] = (
    ({"exit": 0},),
    ({"exit": 3},),
    ({"signal": "KILL"},),
    ({"signal": "TERM"},),
    ({"close_stdout": True}, {"ignore_eof": True}, {"stall": True}),
)
OUTSIDE = {"event": {"type": "Outside", "payload": {}}, "verbatim": True}
"""The agent's text after a turn."""


@dataclass(frozen=True)
class Setting:
    """The properties of a whole program, which decide which actions make sense."""

    focus: str
    """The features that this program has more of than others, so that rare cases occur in each seed."""
    wire: str
    sessions: int
    exact: bool
    """Whether the order of everything is fixed, so that traces can be compared."""
    approval: Any
    """`manual`, `none`, `yolo`, or what the handler answers every time."""
    question: Any
    """`manual`, `none`, or whether the handler answers."""
    tool: Any
    """The behaviour of the program's tool, if there is one."""
    hook: Any
    stderr_marks: bool
    """A line on stderr says that a gate is reached; otherwise an event."""
    silence: bool
    """An agent may fall silent, so that a deadline ends the turn."""
    small_buffer: bool

    @property
    def acp(self) -> bool:
        return self.wire == "acp"

    def has(self, since: tuple[int, int]) -> bool:
        """Whether the agent speaks a version of Wire from this one on."""
        return not self.acp and tuple(map(int, self.wire.split("."))) >= since

    @property
    def rejects(self) -> bool:
        """Whether each approval that is asked for ends its turn."""
        refused = self.approval in ("none", "reject") or "raise" in self.approval
        return not self.acp and (refused or ("reject" in self.approval and not self.feedback))

    @property
    def feedback(self) -> bool:
        """Whether the agent continues after a rejection with feedback."""
        return self.acp or self.has(FEEDBACK)

    def once(self, turn: int) -> bool:
        """Whether the turn is to end by itself, for what plays a whole turn in one call."""
        return self.focus == "once" and turn == 1

    @property
    def fills_unread(self) -> bool:
        """Whether the agent says, unread, more than the buffer holds: then the time says how much a cancel discards."""
        return self.small_buffer and self.stderr_marks

    @property
    def settles(self) -> bool:
        """Whether a turn can be cancelled while a request is pending, and ends in one way."""
        return not self.exact or self.has(SETTLES)


@dataclass(frozen=True)
class Gate:
    """A point at which the agent waits: for a file, a steer, an answer, a cancel, or forever."""

    kind: str
    until: str
    """The event that says that the gate is reached; `stderr` for a line there."""
    requests: tuple[str, ...] = ()


@dataclass
class Turn:
    """A turn of a script, and what the program has to know of it."""

    number: int
    actions: list[Json] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    """The words that distinguish the turn's texts, in their order."""
    end: str = "plain"
    """`plain`, `failed`, `rejected`, `outside` (an event follows), `open` (only the program ends it), `death`,
    `silence`."""

    def text(self) -> str:
        """The next text of the turn."""
        self.labels.append(str(len(self.labels) + 1))
        return f"{{{{prompt}}}}.{self.number}.{len(self.labels)};"

    def id(self) -> str:
        """An id that nothing else in the script has."""
        return f"{self.number}-{len(self.actions)}"


def draw_turn(choices: Choices, number: int, setting: Setting, last: bool) -> Turn:
    """A turn with up to two gates in the middle, and an end."""
    turn = Turn(number)
    gates = 0 if setting.once(number) else choices.number(0, 2)
    for _ in range(gates):
        _beats(choices, turn, setting)
        if turn.end != "plain":
            return turn
        _gate(choices, turn, setting)
    _beats(choices, turn, setting)
    if turn.end == "plain":
        _end(choices, turn, setting, last)
    return turn


def _beats(choices: Choices, turn: Turn, setting: Setting) -> None:
    """Actions that wait for nothing, or for a handler only."""
    kinds = ["text", "texts", "think", "call", "usage", "unknown", "invalid", "step", "subagent"]
    if not setting.hook or not setting.exact:
        # With a handler for each call, the calls race.
        kinds.append("parallel")
    if setting.approval != "manual":
        kinds += ["ask", "ask"]
    if setting.question not in ("manual", "none") and (setting.has(QUESTIONS) or setting.acp):
        kinds.append("question")
    if setting.tool and setting.has(TOOLS):
        kinds += ["tool", "tool"]
    if setting.hook and setting.has(HOOKS):
        kinds.append("hook")
    if not setting.stderr_marks:
        kinds.append("stderr")
    if setting.small_buffer:
        kinds += ["flood", "flood"]
    if not setting.exact:
        kinds += ["flood", "ask_two"]
    if setting.focus == "lines":
        kinds += ["invalid"] * 10
    for kind in choices.some(kinds, 3):
        turn.actions += _beat(choices, kind, turn)
        if kind in ("ask", "ask_two") and setting.rejects:
            turn.end = "rejected"
            return
        if kind in ("ask", "ask_two") and setting.approval == {"hang": True}:
            turn.gates.append(Gate("hang", "ApprovalRequest"))
            turn.end = "open"
            return


def _beat(choices: Choices, kind: str, turn: Turn) -> list[Json]:
    if kind == "text":
        return [{"text": turn.text()}]
    if kind == "texts":
        return [{"text": [turn.text() for _ in range(choices.number(2, 4))]}]
    if kind == "flood":
        times = choices.pick((20, 200))
        label = turn.text()[:-1]
        number = turn.labels.pop()
        turn.labels += [f"{number}.{round}" for round in range(1, times + 1)]
        return [{"repeat": {"times": times, "actions": [{"text": label + ".{{round}};"}]}, "bulk": choices.flag()}]
    if kind == "usage":
        return [{"usage": {"input_other": choices.number(1, 9), "output": 1}}]
    if kind == "invalid":
        return [choices.pick(INVALID_LINES)]
    if kind == "ask":
        return [_call(turn, approve=True), {"text": turn.text()}]
    if kind == "parallel":
        return [{"parallel": [_call(turn, suffix=suffix) for suffix in "ab"]}]
    if kind == "ask_two":
        return [{"parallel": [_call(turn, approve=True, suffix=suffix) for suffix in "ab"]}, {"text": turn.text()}]
    if kind == "question":
        return [_question(turn), {"text": turn.text()}]
    if kind == "tool":
        return [{"external_tool": {"name": "echo", "arguments": {"said": "{{prompt}}"}}}, {"text": turn.text()}]
    inner = {"type": "ContentPart", "payload": {"type": "text", "text": "inner"}}
    simple: dict[str, Json] = {
        "think": {"think": "Hm."},
        "step": {"step": None},
        "call": _call(turn),
        "stderr": {"stderr": "a line"},
        "hook": {"hook": {"event": "Notification", "target": "build", "input_data": {"title": "Built"}}},
        "unknown": {"event": {"type": "FromTheFuture", "payload": {"a": [1, None]}}},
        "subagent": {"event": {"type": "SubagentEvent", "payload": {"parent_tool_call_id": "c", "event": inner}}},
    }
    return [simple[kind]]


def _call(turn: Turn, *, approve: bool = False, suffix: str = "") -> Json:
    name = turn.id() + suffix
    asks = {"approve": {"id": f"a{name}", "action": f"run {name}", "description": name}} if approve else {}
    return {"tool_call": {"id": f"c{name}", "name": "Shell", "arguments": {"command": name}, **asks, "result": name}}


def _question(turn: Turn) -> Json:
    asked = [{"question": "Which?", "header": "H", "options": ["A", "B"]}]
    return {"question": {"id": f"c{turn.id()}", "request_id": f"q{turn.id()}", "questions": asked}}


def _gate(choices: Choices, turn: Turn, setting: Setting) -> None:
    """A wait in the middle of a turn."""
    kinds = ["file"]
    if setting.has(STEER):
        kinds += ["steer", "steer"]
    if setting.approval == "manual":
        kinds += ["approval"] * 3 + ["two"] * (not setting.acp and not setting.hook)
    if setting.question == "manual" and (setting.has(QUESTIONS) or setting.acp):
        kinds += ["question"] * 2
    kind = choices.pick(kinds)
    if kind == "approval":
        call = _call(turn, approve=True)
        turn.gates.append(Gate(kind, "ApprovalRequest", (call["tool_call"]["approve"]["id"],)))
        turn.actions += [call]
    elif kind == "two":
        calls = [_call(turn, approve=True, suffix=suffix) for suffix in "ab"]
        ids = tuple(call["tool_call"]["approve"]["id"] for call in calls)
        turn.gates.append(Gate(kind, "ApprovalRequest", ids))
        turn.actions += [{"parallel": calls}]
    elif kind == "question":
        asks = _question(turn)
        turn.gates.append(Gate(kind, "QuestionRequest", (asks["question"]["request_id"],)))
        turn.actions += [asks]
    else:
        _mark(turn, setting, kind)
        place = len(turn.gates) - 1
        turn.actions += [{"wait_file": f"{{dir}}/{{{{prompt}}}}-{place}"} if kind == "file" else {"wait_steer": True}]


def _mark(turn: Turn, setting: Setting, kind: str) -> None:
    """Says that a gate is reached."""
    if setting.stderr_marks:
        turn.gates.append(Gate(kind, "stderr"))
        turn.actions += [{"stderr": "ready"}]
    else:
        turn.gates.append(Gate(kind, f"Mark{turn.number}{len(turn.gates)}"))
        turn.actions += [{"event": {"type": turn.gates[-1].until, "payload": {}}, "verbatim": True}]


def _end(choices: Choices, turn: Turn, setting: Setting, last: bool) -> None:
    """How a turn ends."""
    kinds = ["plain", "plain", "error", "steps"]
    if not setting.fills_unread and not setting.once(turn.number):
        kinds += ["cancel"] * 3
    if not setting.fills_unread and setting.silence and not setting.acp:
        kinds += ["never"] * 2
    if not setting.acp and setting.exact and setting.sessions == 1:
        kinds.append("outside")
    if last and setting.focus == "death":
        kinds = ["death"]
    elif last:
        kinds.append("death")
    # A deadline runs while the agent waits at a gate.
    if last and setting.silence and not (setting.exact and turn.gates):
        kinds += ["silence"] * (9 if setting.exact else 3)
    kind = choices.pick(kinds)
    if kind in ("cancel", "never", "silence"):
        _mark(turn, setting, kind)
        turn.end = "silence" if kind == "silence" else "open"
    if kind == "cancel":
        turn.actions += [{"wait_cancel": True}, *[{"text": turn.text()} for _ in range(choices.number(0, 1))]]
    elif kind == "never":
        turn.actions += [{"never_answer": True}]
    elif kind == "silence":
        turn.actions += [{"stall": True}]
    elif kind == "error":
        turn.end = "failed"
        code = choices.pick((-32001, -32002, -32003, -32004))
        turn.actions += [{"error": {"code": code, "message": "the model is down"}}]
    elif kind == "steps":
        turn.actions += [{"end": "max_steps_reached", "steps": 3}]
    elif kind == "outside":
        turn.end = kind
        turn.actions += [{"end": "finished"}, OUTSIDE]
    elif kind == "death":
        turn.end = kind
        turn.actions += choices.pick(DEATHS)
