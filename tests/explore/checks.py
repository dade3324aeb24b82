"""What has to hold for the traces of a program: rules for each of them, and that they are equal if they can be."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness import trace
from harness.runners import Outcome

from .programs import Program

_LABEL = re.compile(r"([a-z]\d+)\.(\d+)\.(\d+(?:\.\d+)?);")
# Operations that print what was read of their turn.
_READS = {"next", "drain", "steps", "join", "result_and_drain", "text_stream"}
# What a racy program may run into: nothing was begun.
_UNAVAILABLE = re.compile(r"no session is open|no agent is open|there is no turn")


@dataclass(frozen=True)
class Complaint:
    """What is wrong with the trace of one language, or with those of two."""

    languages: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.languages[0]}: {self.text}" if len(self.languages) == 1 else self.text


def complaints(program: Program, outcomes: Mapping[str, Outcome]) -> list[Complaint]:
    """What is wrong with the traces of a program."""
    found = []
    for language, outcome in outcomes.items():
        found += [Complaint((language,), wrong) for wrong in _broken(program, outcome)]
    if program.exact and outcomes and not found:
        (first, expected), *others = outcomes.items()
        for other, outcome in others:
            difference = trace.difference(_comparable(expected.lines), _comparable(outcome.lines), (first, other))
            if difference:
                found.append(Complaint((first, other), f"{first} and {other} differ\n{difference}"))
    return found


def _comparable(lines: list[trace.Line]) -> list[trace.Line]:
    """Without the numbers of requests over ACP, which an agent shares out among sessions as they come."""
    return json.loads(re.sub(r'"(id|request_id)": "\d+"', r'"\1": "…"', json.dumps(lines)))  # type: ignore[no-any-return]


def _broken(program: Program, outcome: Outcome) -> Iterator[str]:
    """The rules that one trace breaks."""
    if outcome.problem:
        yield f"{outcome.problem}\n{outcome.stderr[-3000:]}"
        return
    ops = program.scenario["program"]
    printed = [line for line in outcome.lines if "op" in line]
    if [line["op"] for line in printed] != [op["op"] for op in ops]:
        end = " ".join(trace.compact(line) for line in outcome.lines[-3:])
        yield f"not every operation has ended, or one of them twice; the trace's end: {end}\n{outcome.stderr[-3000:]}"
        return
    for line in outcome.lines:
        error = str(line.get("error", ""))
        unavailable = not program.exact and _UNAVAILABLE.search(str(line.get("message")))
        if error.startswith("runner_") and not unavailable:
            yield f"not an error of the SDK: {trace.compact(line)}"
    for name, turn in _turns(ops, outcome.lines).items():
        yield from turn.broken(name, program.labels)


@dataclass
class _Turn:
    """What a trace shows of one turn."""

    texts: list[str] = field(default_factory=list)
    begins: int = 0
    ends: int = 0
    after_end: bool = False
    read_to_end: bool = False
    outcomes: list[trace.Line] = field(default_factory=list)
    discarded: int = 0

    def see(self, line: trace.Line) -> None:
        """A line of an operation that reads the turn."""
        kind = trace.event_type(line)
        payload: Any = (line.get("event") or {}).get("payload") or {}
        self.after_end = self.after_end or self.read_to_end
        self.begins += kind == "TurnBegin"
        self.ends += kind == "TurnEnd"
        if "text" in line or (kind == "ContentPart" and payload.get("type") == "text"):
            self.texts += [found.group() for found in _LABEL.finditer(line.get("text") or payload["text"])]

    def end(self, line: trace.Line) -> None:
        """The last line of an operation on the turn."""
        op = line["op"]
        if "status" in line:
            self.outcomes.append({key: line[key] for key in ("status", "steps", "text", "usage")})
        elif op == "turn" and "error" not in line:
            self.discarded = line.get("discarded", 0)
        if "error" not in line and (line.get("ended") or op in ("drain", "steps", "result_and_drain")):
            self.read_to_end = True

    def broken(self, name: str, labels: dict[int, list[str]]) -> Iterator[str]:
        """The rules that this turn breaks."""
        if self.begins > 1 or self.ends > 1:
            yield f"turn {name} has {self.begins} beginnings and {self.ends} ends"
        if self.after_end:
            yield f"turn {name} has events after its end"
        if any(one != self.outcomes[0] for one in self.outcomes):
            yield f"turn {name} has two outcomes: {trace.compact(self.outcomes)}"
        keys = [_LABEL.fullmatch(text) for text in self.texts]
        numbers = {int(key.group(2)) for key in keys if key}
        if len(numbers) > 1 or any(key and key.group(1) != name for key in keys):
            yield f"turn {name} has texts of another: {self.texts}"
            return
        said = labels.get(next(iter(numbers), 0), [])
        places = [said.index(key.group(3)) for key in keys if key]
        if places != sorted(set(places)):
            yield f"turn {name} has texts twice, or in another order: {self.texts}"
        # After a cancel the agent leaves out what it would have said before it waits.
        finished = bool(self.outcomes) and self.outcomes[0]["status"] == "finished"
        if finished and self.read_to_end and not self.discarded:
            if places != list(range(len(places))):
                yield f"turn {name} lacks texts that were not counted: {self.texts}"
            answer = [found.group() for found in _LABEL.finditer(self.outcomes[0]["text"])]
            if answer and answer[-1] not in self.texts:
                yield f"turn {name} lacks its last texts: {self.texts}"


def _turns(ops: list[dict[str, Any]], lines: list[trace.Line]) -> dict[str, _Turn]:
    """What the trace shows of each turn; the lines of an operation end with its own."""
    turns: defaultdict[str, _Turn] = defaultdict(_Turn)
    waiting = iter(ops)
    op = next(waiting, {})
    for line in lines:
        if "as" in op and op["op"] in _READS and "op" not in line:
            turns[op["as"]].see(line)
        if "op" in line:
            if "as" in op:
                turns[op["as"]].end(line)
            op = next(waiting, {})
    return turns
