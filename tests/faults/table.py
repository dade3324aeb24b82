"""The table of faults: for the terminal, and for docs/evidence/reliability.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from harness.matrix import text
from harness.trace import Line

from .fault import Fault

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/evidence/reliability.md"
BEGIN, END = "<!-- Written by `tests/faults/run.py --update` from here -->", "<!-- to here. -->"
Traces = dict[str, list[Line]]
"""By fault."""


def rows(faults: list[Fault], traces: Traces) -> list[list[str]]:
    """A row a family: what came out, and how often."""
    table = [["fault", "tried", "outcome"]]
    for family in dict.fromkeys(fault.family for fault in faults):
        members = [fault for fault in faults if fault.family == family]
        table.append([family, str(len(members)), _cell(members, traces)])
    return table


def _cell(members: list[Fault], outcomes: Traces) -> str:
    words = Counter(member.outcome(outcomes[member.name]) for member in members)
    if len(words) == 1:
        return next(iter(words))
    if any(len(step.expect) > 1 for member in members for step in member.steps):
        # Which of them depends on the machine.
        return " or ".join(sorted(words))
    return "; ".join(f"{count} × {word}" for word, count in sorted(words.items(), key=lambda item: -item[1]))


def markdown(table: list[list[str]]) -> str:
    head, *body = table
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def stale(table: list[list[str]], count: int, update: bool, say: Callable[[str], None]) -> bool:
    """Whether the page's table is not this one; writes it if that is asked for."""
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    new = f"{before}{BEGIN}\n\n{markdown(table)}\n\n{count} faults in {len(table) - 1} families.\n\n{END}{after}"
    if new == page:
        return False
    if update:
        PAGE.write_text(new, "utf-8")
        say("wrote docs/evidence/reliability.md")
        return False
    say("docs/evidence/reliability.md is not up to date: tests/faults/run.py --update writes it")
    return True


__all__ = ["Traces", "rows", "stale", "text"]
