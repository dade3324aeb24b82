"""What the cases came to, agent by agent: the file that keeps it, and the table of docs/reference/agents.md.

A result carries a fingerprint of its case as it was played with that agent. If the case changes, its results count no
longer, and `check` fails until the case has been played again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agents import AGENTS, TESTS, Agent
from harness.play import Verdict
from harness.scenario import REAL_LANGUAGES, Scenario, load_all
from harness.trace import compact

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
PAGE = TESTS.parent / "docs/reference/agents.md"
BEGIN = "<!-- The table is written by `tests/foreign/agents/run.py --table`. -->\n"
END = "<!-- End of the table. -->\n"

# Features and the case that shows them, in the order of the table.
FEATURES = (
    ("text and thoughts, as they come", "work"),
    ("approvals: approve, reject", "work"),
    ("`approve_for_session`", "allow"),
    ("cancel while the model talks, and with an approval open", "work"),
    ("plan mode", "work"),
    ("your `tools`", "tool"),
    ("the progress of your `tools` reaches the agent", "progress"),
    ("`mcp_configs`: a server that a command starts", "mcp_servers/stdio"),
    ("`mcp_configs`: a server over HTTP", "mcp_servers/http"),
    ("`mcp_configs`: a server over SSE", "mcp_servers/sse"),
    ("`on_read_file`, `on_write_file`", "files"),
    ("`on_terminal`", "terminal"),
    ("several sessions of one agent", "sessions"),
    ("`session_id`: go on with a session", "resume"),
    ("`list_sessions`", "list"),
    ("`delete_session`", "delete"),
    ("`rename_session`", "rename"),
    ("`fork`", "fork"),
    ("`set_config_option`: an option of an open session", "options"),
    ("images in prompts", "image"),
    ("`resource(…)` with its text in prompts", "resource"),
    ("`resource(…)` with only its address in prompts", "resource_link"),
    ("slash commands", "commands"),
    ("tokens in `result.usage`", "usage"),
    ("steps, and the tokens of each, as they come", "steps"),
    ("`steer`", "steer"),
    ("`session.replay()`", "replay"),
    ("`session.undo()`", "undo"),
    ("the model gets the feedback of a reject", "feedback"),
    ("`output`: a value of a type", "output"),
    ("`policy`: one command is allowed, another is denied", "policy"),
    ("`budget`: a turn is cancelled at its limit", "budget"),
    ("an error of the model", "model_error"),
    ("an error without a login", "no_login"),
    ("`auth`: a login with a key of the program", "login"),
)

# The operation that shows a feature, if a case shows several.
SHOWN_BY = {"plan mode": "set_plan_mode"}

Results = dict[str, dict[str, dict[str, str]]]
"""By case, then by agent: `of`, which is the fingerprint, and a word for each language."""


def own_course(case: Scenario, agent: Agent) -> dict[str, Any]:
    """Returns the differences of the case with this agent, or with all agents of its protocol, and their reason."""
    agents = case.data.get("agents", {})
    return dict(agents.get(agent.name, agents.get(agent.over, {})))


def _note(case: Scenario, agent: Agent) -> str:
    """Returns the reason for a difference, and the agent or the protocol that has it; nothing without a reason."""
    why = own_course(case, agent).get("why", "")
    who = agent.heading if agent.name in case.data.get("agents", {}) else agent.over
    return f"{who}: {why}" if why else ""


def fingerprint(case: Scenario, agent: Agent) -> str:
    """Of all that is played of the case with this agent."""
    played = {key: case.data[key] for key in ("agent", "options", "program", "expect")}
    own = {key: value for key, value in own_course(case, agent).items() if key != "why"}
    spoken = [agent.dialect] if agent.dialect else []
    told = compact([played, own, agent.names, agent.version, *spoken])
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def write(verdicts: Iterable[tuple[Agent, Verdict, list[str]]]) -> None:
    """Adds what was played to the results, and writes the table."""
    cases = {case.name: case for case in load_all(HERE / "cases")}
    results = _read()
    for agent, verdict, languages in verdicts:
        name = verdict.play.scenario.name
        of = fingerprint(cases[name], agent)
        found = results.get(name, {}).get(agent.name, {})
        # In addition to the results of other languages for the same case.
        row = found if found.get("of") == of else {"of": of}
        for language in languages:
            wrong = any(language in complaint.split("\n")[0] for complaint in verdict.complaints)
            row[language] = "FAIL" if wrong else "yes"
        results.setdefault(name, {})[agent.name] = row
    lines = []
    for name in sorted(cases):
        rows = results.get(name, {})
        own = [f"  {json.dumps(agent)}: {json.dumps(rows[agent])}" for agent in AGENTS if agent in rows]
        lines.append(f" {json.dumps(name)}: {{\n" + ",\n".join(own) + "\n }")
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    PAGE.write_text(_with_table(PAGE.read_text("utf-8")), "utf-8")


def check() -> int:
    """Returns 1 if a case has changed since it was played, or the page says something else than the results."""
    missing = [
        f"{case.name} with {agent.heading}"
        for case in load_all(HERE / "cases")
        for agent in AGENTS.values()
        if _cell(case, agent, _read()) == "not played"
    ]
    page = PAGE.read_text("utf-8")
    stale = page != _with_table(page)
    if missing:
        print(
            f"not played since it changed: {', '.join(missing)}; run tests/foreign/agents/run.py --table",
            file=sys.stderr,
        )
    if stale:
        print("docs/reference/agents.md is not up to date; run tests/foreign/agents/run.py --table", file=sys.stderr)
    return 1 if missing or stale else 0


def _read() -> Results:
    return dict(json.loads(RESULTS.read_text("utf-8"))) if RESULTS.exists() else {}


def _cell(case: Scenario, agent: Agent, results: Results) -> str:
    own = own_course(case, agent)
    if "lacking" in own:
        return "no"
    row = results.get(case.name, {}).get(agent.name, {})
    words = [row[language] for language in REAL_LANGUAGES if language in row]
    if row.get("of") != fingerprint(case, agent) or not words:
        return "not played"
    if set(words) != {"yes"}:
        return "fails"
    if "refused" in own:
        return "`Unsupported`"
    return "no" if "absent" in own else "yes"


def _with_table(page: str) -> str:
    head, _, rest = page.partition(BEGIN)
    tail = rest.partition(END)[2]
    cases = {case.name: case for case in load_all(HERE / "cases")}
    results = _read()
    notes: list[str] = []
    rows = []
    for feature, name in FEATURES:
        cells = []
        for agent in AGENTS.values():
            cell = _cell(cases[name], agent, results)
            note = _note(cases[name], agent)
            if SHOWN_BY.get(feature) in own_course(cases[name], agent).get("without", ()):
                cells.append("`Unsupported`")
                continue
            if note:
                if note not in notes:
                    notes.append(note)
                cell = f"{cell} ({notes.index(note) + 1})"
            cells.append(cell)
        rows.append([feature, *cells])
    titles = [f"{agent.title} {agent.version} ({agent.over})" for agent in AGENTS.values()]
    lines = [["", *titles], ["---"] * (len(titles) + 1), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    numbered = "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1))
    return f"{head}{BEGIN}\n{table}\n\n{numbered}\n\n{END}{tail}"
