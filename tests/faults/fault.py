"""A fault: the failure, the program's actions meanwhile, and the expected outcome of each operation."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import trace
from harness.trace import Line

HERE = Path(__file__).resolve().parent
AGENTS = HERE / "agents"
GOOD = [[{"text": "fine"}]]
"""The actions of the next session's agent."""
DEADLINES = ("handshake_timeout", "idle_timeout", "turn_timeout", "cancel_timeout", "close_timeout")
PATIENT = 60.0
"""Seconds. The next session must work, however busy the machine is."""


@dataclass(frozen=True)
class Step:
    """An operation, and the pattern of what must come of it."""

    op: dict[str, Any]
    expect: tuple[dict[str, Any], ...]
    """Any of these will do."""

    def met(self, line: Line) -> bool:
        return any(trace.fits(pattern, line) for pattern in self.expect)


Outcome = dict[str, Any]
DONE: Outcome = {"ok": True}
ENDED: Outcome = {"ended": True}


def step(name: str, expect: Outcome | tuple[Outcome, ...] = DONE, /, **fields: Any) -> Step:
    """An operation that must succeed, unless other outcomes are given; the texts of errors are always in the trace."""
    outcomes = expect if isinstance(expect, tuple) else (expect,)
    return Step({"op": name, "message": True, **fields}, tuple({"op": name, **outcome} for outcome in outcomes))


def error(code: str, message: str, **fields: Any) -> dict[str, Any]:
    """An error whose text fits a regular expression."""
    return {"error": code, "message": f"~{message}", **fields}


FINISHED = {"status": "finished"}
OPEN = step("open")
PROMPT = step("prompt", input="hi")
DRAIN = step("drain")
RESULT = step("result", FINISHED)
CLOSE = step("close")


@dataclass(frozen=True)
class Fault:
    """One way to fail. Faults of one family are a row of the table."""

    family: str
    name: str
    steps: tuple[Step, ...]
    script: Any = None
    """The script of the agent."""
    mode: str = ""
    """Instead: what `agents/rude.py` does."""
    command: tuple[str, ...] = ()
    """Instead: the command line itself."""
    options: dict[str, Any] = field(default_factory=dict)
    events: tuple[dict[str, Any], ...] = ()
    """Events that must come in this order; others may come between them."""
    total: int | None = None
    """How many events must come."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables for the runner's process."""
    tolerant: dict[str, Any] | None = None
    """An error that any operation may end with instead, and all that follow it."""
    calm: bool = True
    """Whether the traces must be equal in all languages."""

    def case(self, directory: Path, agent: Path) -> dict[str, Any]:
        """The case as a runner gets it; writes the scripts that it needs."""
        directory.mkdir(parents=True)
        command = [part.replace("{dir}", str(directory)) for part in self.command]
        if self.script is not None:
            command = _scripted(agent, directory / "script.json", _placed(self.script, directory))
        elif self.mode:
            command = [sys.executable, "-I", "-S", str(AGENTS / "rude.py"), self.mode]
        dialect = self.options.get("dialect")
        good = {"wire": dialect, "turns": GOOD} if dialect in ("acp", "kimi-web") else GOOD
        next_one: dict[str, Any] = {
            "executable": _scripted(agent, directory / "good.json", good),
            "work_dir": str(directory),
        }
        if "output" in self.options:
            next_one["output"] = None
        next_one |= {name: PATIENT for name in DEADLINES if name in self.options}
        steps = [_placed(step.op, directory) for step in self.steps]
        agents = [op for op in steps if op["op"] == "open_agent"]
        for op in agents:
            op["options"] = {"executable": command, **op.get("options", {})}
        following = [{**step.op, "options": next_one} if step.op["op"] == "open" else step.op for step in NEXT]
        # What is an agent's is not its sessions' to say.
        own = {} if agents else {"executable": command}
        options = {**own, "work_dir": str(directory), **_placed(self.options, directory)}
        return {"name": self.name, "agent": {}, "options": options, "program": [*steps, *following]}

    def complaint(self, lines: list[Line]) -> str | None:
        """The problem of a trace; nothing if it is as expected."""
        ops = [line for line in lines if "op" in line or "error" in line]
        steps = [*self.steps, *NEXT]
        if any(str(line.get("error")).startswith("runner_") for line in ops) or len(ops) != len(steps):
            return f"{len(ops)} of {len(steps)} operations ended as operations do:\n{_rows(ops)}"
        failed = False
        for number, (wanted, line) in enumerate(zip(steps, ops, strict=True)):
            if self.tolerant and number < len(self.steps):
                if trace.fits({**self.tolerant, "op": wanted.op["op"]}, line):
                    failed = True
                    continue
                # The iterator has raised the failure, and has nothing more to return.
                over = line.get("skipped") or trace.fits(ENDED, line) or wanted.op["op"] == "drain"
                if failed and over:
                    continue
                if failed and wanted is not CLOSE:
                    return f"after a failure there is {trace.compact(line)}"
            if not wanted.met(line):
                return f"instead of {' or '.join(map(trace.compact, wanted.expect))} there is {trace.compact(line)}"
        if wrong := trace.unmet(list(self.events), lines):
            return wrong
        found = sum("event" in line for line in self.own(lines))
        if self.total is not None and found != self.total:
            return f"there are {found} events instead of {self.total}"
        return None

    def own(self, lines: list[Line]) -> list[Line]:
        """The trace without that of the next session."""
        ends = [number for number, line in enumerate(lines) if "op" in line]
        return lines[: ends[len(self.steps) - 1] + 1] if len(ends) >= len(self.steps) else lines

    def expected(self) -> str:
        """The outcome that is expected: the errors and ends of turns that may come."""
        outcomes = [outcome for step in self.steps for outcome in step.expect]
        words = [outcome[key] for outcome in outcomes for key in ("error", "status") if key in outcome]
        return " ".join(map(str, words))

    def outcome(self, lines: list[Line]) -> str:
        """The outcome in a word: the first error, or else the end of the last turn."""
        word = "nothing"
        for line in self.own(lines):
            if "error" in line:
                extras = [f"{key} {line[key]}" for key in ("exit_code", "signal", "rpc_code", "option") if key in line]
                return f"`{line['error']}`" + (f" ({', '.join(extras)})" if extras else "")
            word = str(line.get("status", word))
        return word


NEXT = (step("open"), step("prompt", input="next"), step("result", {**FINISHED, "text": "fine"}), step("close"))
"""After every fault: the next session, in the same process, with an agent that does as it should."""


def cleaned(lines: list[Line]) -> list[Line]:
    """The trace with what a program can't do without a session or a turn marked so: runners have words of their own."""
    lacking = False
    clean = []
    for line in lines:
        if line.get("op") in ("open", "prompt"):
            lacking = "error" in line
        skipped = lacking and "op" in line and line.get("error") == "runner_problem"
        clean.append({"op": line["op"], "skipped": True} if skipped else line)
    return clean


def _scripted(agent: Path, path: Path, script: Any) -> list[str]:
    path.write_text(json.dumps(script), "utf-8")
    return [str(agent), str(path)]


def _placed(value: Any, directory: Path) -> Any:
    """The value with `{dir}` filled in; long texts have none."""
    if isinstance(value, str):
        return value.replace("{dir}", str(directory)) if len(value) < 10_000 else value
    if isinstance(value, dict):
        return {key: _placed(item, directory) for key, item in value.items()}
    return [_placed(item, directory) for item in value] if isinstance(value, (list, tuple)) else value


def _rows(lines: list[Line]) -> str:
    return "\n".join(f"  {trace.compact(line)[:300]}" for line in lines)
