"""Random programs in the format of scenarios, made of choices, which can be shrunk.

An `exact` program has one order of everything: the agent waits at gates, and the program does something there only
after it has seen that the gate is reached. Its trace is the same in every language. A `racy` program does anything at
any time, while the agent continues or dies; only the rules of `checks.py` hold for its traces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .choices import Choices
from .script import FOCI, INVALID_LINES, WIRES, Gate, Json, Setting, Turn, draw_turn

Ops = list[Json]

# The deadlines of exact programs: they pass where the agent is silent for ever, and nowhere else on a busy machine.
SILENT: Json = {"idle_timeout": 5}
UNANSWERED: Json = {"cancel_timeout": 5}
RACY: Json = {
    "idle_timeout": 0.7,
    "turn_timeout": 3,
    "cancel_timeout": 0.7,
    "close_timeout": 0.3,
    "handshake_timeout": 2,
}
TOOL = {"name": "echo", "description": "Repeats", "parameters": {"type": "object", "properties": {}}}
CLOSES: tuple[Json, ...] = ({}, {"how": "block"}, {"timeout": 5})
READS = ("drain", "next", "text_stream", "steps")
ONLY_COMPILED = {"rust": "the compiler refuses a second reader"}


@dataclass(frozen=True)
class Program:
    """A scenario, and what has to hold for its traces."""

    scenario: Json
    exact: bool
    labels: dict[int, list[str]]
    """The texts of each turn of the script."""

    def languages(self, chosen: list[str]) -> list[str]:
        """The languages that can play it."""
        return [language for language in chosen if language not in self.scenario.get("skip", {})]


def make(choices: Choices, exact: bool) -> Program:
    """A program with up to two sessions, of up to three turns each."""
    setting = _setting(choices, exact)
    count = choices.number(1, 3)
    turns = [draw_turn(choices, number, setting, number == count) for number in range(1, count + 1)]
    # The death of a shared agent ends the other session at any point of its program.
    shared = setting.focus == "shared"
    if exact and shared and setting.sessions > 1 and turns[-1].end in ("death", "silence"):
        turns.pop()
    script: Json = {"wire": setting.wire, "turns": [turn.actions for turn in turns]}
    if not exact and choices.number(0, 5) == 5:
        cut = choices.pick(({"signal": "KILL"}, {"exit": 1}, {"close_stdout": True}, INVALID_LINES[0]))
        script["cut"] = {"bytes": choices.number(1, 3000), "actions": [cut]}
    players = [Player(choices, setting, turns, name, shared) for name in "ab"[: setting.sessions]]
    program = _merged(choices, [player.groups() for player in players])
    if shared:
        program = [{"op": "open_agent", "options": _agent_options(setting)}, *program, *_closing(choices)]
    scenario: Json = {
        "name": "explored",
        "about": "A random program, shrunk.",
        "agent": {"script": script},
        "options": _options(setting, turns, shared),
        "program": program,
    }
    if any(op["op"] == "two_loops" for op in program):
        scenario["skip"] = ONLY_COMPILED
    return Program(scenario, exact, {turn.number: turn.labels for turn in turns})


def _setting(choices: Choices, exact: bool) -> Setting:
    focus = choices.pick(FOCI)
    sessions = choices.pick((1, 2) if focus == "shared" else (1, 1, 2))
    approval = choices.pick(
        ("approve", "manual", "manual", "approve_for_session", "yolo", "none", "reject", {"reject": "no"},
         {"raise": "broken"}, {"hang": True})
    )  # fmt: skip
    question = choices.pick(({"Which?": "A"}, "manual", "none", {"raise": "broken"}))
    read_by_program = "manual" in (approval, question) or approval == {"hang": True}
    wires = WIRES
    if exact and approval == {"hang": True}:
        wires = tuple(wire for wire in WIRES if wire not in ("1.0", "1.2", "acp"))
    if focus == "shared":
        wires = ("acp",)
    return Setting(
        focus=focus,
        wire=choices.pick(wires),
        sessions=sessions,
        exact=exact,
        approval=approval,
        question=question,
        tool=choices.pick((None, {"echo": True}, {"raise": "broken"}, {"return": {"a": 1}})),
        hook=choices.pick((None, None, "allow", {"raise": "broken"})),
        stderr_marks=exact and sessions == 1 and not read_by_program and choices.number(0, 3) == 3,
        silence=not exact or focus == "silence",
        small_buffer=choices.number(0, 4) == 4,
    )


def _options(setting: Setting, turns: list[Turn], shared: bool) -> Json:
    options: Json = {"work_dir": "{dir}", "on_event": "record"}
    if not setting.exact:
        options |= RACY
    elif any(gate.kind in ("never", "silence") for turn in turns for gate in turn.gates):
        options |= UNANSWERED
    if setting.acp and not shared:
        options["dialect"] = "acp"
    if setting.approval == "yolo":
        options["yolo"] = True
    elif setting.approval != "none":
        manual = setting.approval == "manual"
        options["on_approval"] = "manual" if manual else {"answers": [setting.approval]}
    if setting.question != "none":
        options["on_question"] = "manual" if setting.question == "manual" else {"answers": [setting.question]}
    if setting.tool and not setting.acp and setting.wire != "1.0":
        options["tools"] = [{**TOOL, "behaviour": setting.tool}]
    if setting.hook and setting.has((1, 8)):
        options["hooks"] = [
            {"event": "Notification", "behaviour": setting.hook},
            {"event": "PreToolUse", "behaviour": "allow"},
        ]
    if setting.small_buffer:
        options["event_buffer_bytes"] = 1024
    if setting.stderr_marks and not shared:
        options["on_stderr"] = "record"
    return options


def _agent_options(setting: Setting) -> Json:
    options: Json = {"dialect": "acp"}
    if setting.stderr_marks:
        options["on_stderr"] = "record"
    if not setting.exact:
        options |= {name: RACY[name] for name in ("handshake_timeout", "close_timeout")}
    return options


def _closing(choices: Choices) -> Ops:
    how = choices.pick(CLOSES)
    return [{"op": "close_agent", **how}] * choices.number(0, 2)


def _merged(choices: Choices, lists: list[list[Ops]]) -> Ops:
    """The groups of all sessions, in any order among each other."""
    merged: Ops = []
    left = [list(reversed(groups)) for groups in lists if groups]
    while left:
        chosen = left[choices.number(0, len(left) - 1)] if len(left) > 1 else left[0]
        merged += chosen.pop()
        left = [groups for groups in left if groups]
    return merged


@dataclass
class Player:
    """The operations of a program on one session, in groups that belong together."""

    choices: Choices
    setting: Setting
    turns: list[Turn]
    session: str
    shared: bool
    prompts: int = 0
    uncounted: bool = False
    """A turn was left: how much of it was said, and counts as usage, depends on the time."""
    dead: bool = False
    closed: bool = False

    def groups(self) -> list[Ops]:
        """From the opening to the end."""
        groups = [[self._open()]]
        for turn in self.turns:
            name = self._name()
            groups += self._exact_turn(turn, name) if self.setting.exact else self._racy_turn(name)
            if self.dead or self.closed:
                break
            groups.append(self._between())
        if not self.closed:
            groups.append(self._close())
        if self.setting.exact and self.turns and not self.shared and self.choices.one_in(6):
            groups += self._again()
        # Without a gate, the first turn ends by itself.
        if self.setting.exact and self.turns and not self.turns[0].gates and self.setting.focus == "once":
            groups.append([self._one_shot()])
        return groups

    # --- sessions ---

    def _open(self) -> Json:
        return self._op("open", **({"agent": "agent"} if self.shared else {}))

    def _again(self) -> list[Ops]:
        """The session is opened once more; the script begins with its first turn."""
        resumed = {"resume": self.session} if not self.setting.acp and self.setting.wire != "1.0" else {}
        self.dead = self.closed = self.uncounted = False
        # One that is lost before it is closed ends when a collector finds it.
        opened = [self._op("close"), self._op("open", **(resumed if self.choices.flag() else {}))]
        return [opened, *self._exact_turn(self.turns[0], self._name()), self._close()]

    def _one_shot(self) -> Json:
        options: Json = {"dialect": "acp"} if self.setting.acp else {}
        return {"op": "one_shot", "input": self._name(), "options": options}

    def _close(self) -> Ops:
        how = self.choices.pick(CLOSES)
        ops = [self._op("close", **how)] * self.choices.pick((1, 1, 2, 0))
        after: Ops = (
            [self._op("state"), self._op("prompt", input="late", as_="late"), self._op("wait_closed")] if ops else []
        )
        self.closed = True
        return ops + [op for op in after if self.choices.one_in(3)]

    def _between(self) -> Ops:
        """The operations that are possible while no turn runs."""
        choices = [
            self._op("state", **({"until": "idle"} if self.setting.exact else {})),
            self._op("info"),
            self._op("set_plan_mode", on=self.choices.flag()),
            self._op("cancel_session"),
        ]
        if not self.uncounted:
            choices += [self._op("session"), self._op("replay"), self._op("undo")]
        if self.shared and self.setting.sessions == 1 and not self.uncounted:
            choices += [{"op": "list_sessions"}] * 5
        chosen = self.choices.some(choices, 2)
        # A turn that was left may still be ending.
        return [self._op("state", until="idle"), *chosen] if self.uncounted and self.setting.exact else chosen

    # --- exact turns ---

    def _exact_turn(self, turn: Turn, name: str) -> list[Ops]:
        deadline = {"prompt_options": SILENT} if turn.end == "silence" else {}
        groups: list[Ops] = [[self._op("prompt", input=name, as_=name, **deadline)]]
        spawned = ""
        seen: list[str] = []
        by_event = False
        if not turn.gates or self.setting.stderr_marks or all(gate.kind == "file" for gate in turn.gates):
            spawned = self._spawn()
            groups[0] += [self._turn(spawned, name)] if spawned else []
        for place, gate in enumerate(turn.gates):
            group: Ops = []
            if not (spawned and gate.kind == "file" and gate.until != "stderr"):
                group += self._arrive(gate, name)
                by_event = by_event or gate.until != "stderr"
                seen += gate.requests
                group += self._at_gate(turn, gate, spawned, name)
            rest = turn.gates[place + 1 :]
            can_end = not self.setting.fills_unread and (not gate.requests or self.setting.settles)
            if gate.kind in ("cancel", "never", "hang") or (can_end and group and self.choices.one_in(8)):
                groups.append(group + self._end_early(turn, spawned, by_event, name, seen))
                return groups
            if not spawned and self._may_spawn(turn, gate, rest):
                spawned = self._spawn()
                group += [self._turn(spawned, name)] if spawned else []
            group += self._pass(gate, place, name)
            groups.append(group)
        groups.append(self._finish(turn, spawned, by_event, name, seen))
        return groups

    def _arrive(self, gate: Gate, name: str) -> Ops:
        if gate.until == "stderr":
            return [{"op": "wait_outside", "until": "stderr"}]
        return [self._turn("next", name, until=gate.until)] * (2 if gate.kind == "two" else 1)

    def _at_gate(self, turn: Turn, gate: Gate, spawned: str, name: str) -> Ops:
        """The operations that change nothing while the agent waits."""
        if gate.kind == "silence":
            return []
        choices = [
            self._op("state"),
            self._op("info"),
            self._op("prompt", input="refused", as_="refused"),
            self._op("replay"),
        ]
        if gate.until != "stderr":
            choices.append(self._op("set_plan_mode", on=self.choices.flag()))
            if not self.uncounted:
                choices.append(self._op("session"))
        if not spawned and gate.until != "stderr":
            choices += [self._turn("turn", name)]
            if not self.uncounted:
                choices.append(self._op("usage", as_=name))
        return self.choices.some(choices, 2)

    def _spawn(self) -> str:
        """Whether another task reads or waits from now on."""
        return str(self.choices.pick(("", "spawn_drain", "" if self.setting.small_buffer else "spawn_result")))

    def _may_spawn(self, turn: Turn, gate: Gate, rest: list[Gate]) -> bool:
        return gate.kind in ("file", "steer") and all(one.kind == "file" for one in rest) and gate.until != "stderr"

    def _pass(self, gate: Gate, place: int, name: str) -> Ops:
        """The condition that the agent waits for."""
        if gate.kind == "file":
            return [{"op": "touch", "path": f"{{dir}}/{name}-{place}"}]
        if gate.kind == "steer":
            return [self._turn("steer", name, input=f"more {place}")]
        if gate.kind == "question":
            return [self._answer(name, gate.requests[0], self.choices.pick(({"Which?": "A"}, {"Which?": "B"}, None)))]
        if gate.kind == "approval":
            return [self._answer(name, gate.requests[0], self._approval())]
        if gate.kind == "two":
            first, second = gate.requests if self.choices.flag() else gate.requests[::-1]
            waits = self._turn("next", name, until="ToolResult")
            return [self._answer(name, first, "approve"), waits, self._answer(name, second, self._approval())]
        return []

    def _approval(self) -> Any:
        reject = [{"reject": "no"}] if self.setting.feedback else []
        return self.choices.pick(("approve", "approve", "approve_for_session", *reject))

    def _answer(self, name: str, request: str, answer: Any) -> Json:
        # Over ACP the agent counts its requests; the last one is meant.
        which = {} if self.setting.acp else {"request": request}
        scope = {"scope": "session"} if self.choices.one_in(4) else {}
        return self._turn("respond", name, session=self.session, answer=answer, **which, **scope)

    def _end_early(self, turn: Turn, spawned: str, by_event: bool, name: str, seen: list[str]) -> Ops:
        """The program ends the turn while the agent waits."""
        ways = ["cancel", "cancel", "cancel_session", "close"] + ["leave", "leave"] * (not spawned)
        way = self.choices.pick(tuple(ways))
        if way == "leave":
            self.uncounted = True
            return [self._turn("leave", name, **self.choices.pick(({}, {"how": "block"})))]
        ops: Ops = []
        # The part of a small buffer that a reader empties during the cancel depends on the time.
        if not spawned and not self.setting.small_buffer:
            spawned = self._spawn()
            ops += [self._turn(spawned, name)] if spawned else []
        ops.append(self._op(way) if way != "cancel" else self._turn("cancel", name))
        if way == "close":
            self.closed = True
        reader = self._turn("join", name) if spawned else self._reader(by_event, name)
        return [*ops, reader, self._turn("result", name), *self._after(turn, name, seen)]

    def _finish(self, turn: Turn, spawned: str, by_event: bool, name: str, seen: list[str]) -> Ops:
        """The turn ends by itself."""
        dead = turn.end in ("death", "silence")
        self.dead = dead
        if spawned:
            ops = [self._turn("join", name)]
        elif (
            not dead
            and turn.end != "outside"
            and (self.setting.settles or self.setting.approval == "yolo")
            and self.choices.one_in(10)
        ):
            self.uncounted = True
            return [self._turn("leave", name, **self.choices.pick(({}, {"how": "block"})))]
        elif not by_event and not self.setting.small_buffer and self.setting.focus == "once" and self.choices.flag():
            ops = [self._turn("two_loops", name, until="TurnBegin")]
        else:
            ops = [self._reader(by_event, name)]
        ops.append(self._turn("result", name, details=self.choices.flag()))
        if turn.end == "outside":
            ops.append({"op": "wait_outside", "until": "Outside"})
        if dead:
            return [
                *ops,
                self._op("state", until="closed"),
                *self.choices.some([self._op("prompt", input="late", as_="late")], 1),
            ]
        after = self._after(turn, name, seen)
        if ops[0]["op"] == "two_loops":
            # The first loop continues in Node; in Python it ends with the function that began it.
            after = [op for op in after if op["op"] not in READS]
        return ops + after

    def _reader(self, by_event: bool, name: str) -> Json:
        """Reads a turn to its end."""
        choices = [
            self._turn("drain", name),
            self._turn("drain", name, tool_calls=True),
            self._turn("next", name, count=100_000),
        ]
        if self.setting.small_buffer:
            # What others would leave in a full buffer, and drop, depends on when room comes back.
            return self.choices.pick(tuple(choices))
        choices += [
            self._turn("result", name),
            self._turn("result", name, details=True),
            self._turn("text_stream", name),
            self._turn("steps", name),
            self._turn("steps", name),
            self._turn("result_and_drain", name),
            self._turn("raise_for_status", name),
        ]
        return self.choices.pick(tuple(choices))

    def _after(self, turn: Turn, name: str, seen: list[str]) -> Ops:
        """The operations that are possible on a turn that has ended."""
        choices = [
            self._turn("result", name),
            self._turn("result", name, details=True),
            self._turn("raise_for_status", name),
            self._turn("drain", name),
            self._turn("next", name, count=1),
            self._turn("cancel", name),
            self._turn("steer", name, input="too late"),
            self._turn("cancel_subagent", name, subagent="none"),
            self._turn("text_stream", name),
            self._turn("steps", name),
        ]
        if not self.setting.fills_unread:
            choices.append(self._turn("turn", name))
        if not self.uncounted:
            choices.append(self._op("usage", as_=name))
        if seen and self.setting.sessions == 1:
            late = {"Which?": "A"} if seen[-1].startswith("q") else "approve"
            choices.append(self._turn("respond", name, session=self.session, answer=late))
        chosen = self.choices.some(choices, 3)
        # A refusal or a failure ends each loop of Python and Node, but Rust's one stream only once.
        reads = [op for op in chosen if op["op"] in READS]
        return [op for op in chosen if op not in reads[0 if turn.end == "failed" else 1 :]]

    # --- racy turns ---

    def _racy_turn(self, name: str) -> list[Ops]:
        """Anything, at any time. No operation here waits for what may never come."""
        groups: list[Ops] = [[self._op("prompt", input=name, as_=name)]]
        spawned = False
        for _ in range(self.choices.number(1, 5)):
            choices: Ops = [
                self._turn("cancel", name),
                self._turn("cancel", name),
                self._op("cancel_session"),
                {"op": "touch", "path": f"{{dir}}/{name}-0"},
                {"op": "touch", "path": f"{{dir}}/{name}-1"},
                self._op("close"),
                self._op("close", timeout=0),
                self._op("state"),
                self._op("usage", as_=name),
                self._turn("steer", name, input="more"),
                self._turn("cancel_subagent", name, subagent="none"),
            ]
            if spawned:
                choices += [self._turn("join", name)] * 4
            else:
                choices += [
                    self._turn("spawn_result", name),
                    self._turn("spawn_drain", name),
                    self._turn("next", name, count=self.choices.number(1, 6)),
                    self._turn("next", name, count=self.choices.number(1, 6)),
                    self._turn("drain", name),
                    self._turn("result", name),
                    self._turn("text_stream", name),
                    self._turn("steps", name),
                    self._turn(
                        "result_and_drain", name, answer=self.choices.pick(("approve", "reject", {"Which?": "A"}))
                    ),
                    self._turn("leave", name),
                    self._turn("leave", name, how="block"),
                    self._turn("turn", name),
                ]
            op = self.choices.pick(tuple(choices))
            groups.append([op])
            if op["op"] == "leave":
                return groups
            if op["op"].startswith("spawn") or op["op"] == "join":
                spawned = not spawned
        ends = [self._turn("join", name)] if spawned else []
        ends += self.choices.pick(((self._turn("drain", name),), (self._turn("result", name),), ()))
        return [*groups, [*ends, self._turn("result", name), self._turn("turn", name)]]

    # --- names ---

    def _name(self) -> str:
        self.prompts += 1
        return f"{self.session}{self.prompts}"

    def _op(self, op: str, *, as_: str | None = None, **fields: Any) -> Json:
        named = {"as": as_} if as_ else {}
        return {"op": op, "session": self.session, **named, **fields}

    def _turn(self, op: str, name: str, **fields: Any) -> Json:
        return {"op": op, "as": name, **fields}
