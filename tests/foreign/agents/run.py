#!/usr/bin/env python3
"""Drives agents of ACP that others have written through the SDK of each language, with a scripted model on loopback.

    tests/foreign/agents/run.py                                what CI runs
    tests/foreign/agents/run.py --all                          every agent in all languages
    tests/foreign/agents/run.py --agents opencode --only work --languages rust --show
    tests/foreign/agents/run.py --record                       writes tests/recorded/<agent>-<version>/<case>.acp

The cases are written like those in tests/real. What an agent calls its tools, `agents.py` says.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from agents import AGENTS, TESTS, Agent
from harness import play, real, runners, trace
from harness.scenario import REAL_LANGUAGES, Scenario, fill, load_all, prepared
from real import install
from real.model import ScriptedModel
from real.record import RECORDED, Cleaner, last_process

HERE = Path(__file__).resolve().parent
TEE = TESTS / "real/tee.py"
# The lighter of them shows that the languages agree; the other, how much agents differ.
ALL_LANGUAGES = ("qwen-code", "work")
# In others there are addresses and secrets of the moment.
RECORDS = "work"
_ID = re.compile(r"\b(ses|msg|prt)_[0-9A-Za-z]{20,}\b")


def say(text: str) -> None:
    print(f"agents: {text}", flush=True)


def cast(case: Scenario, agent: Agent) -> Scenario:
    """The case in this agent's words."""
    data = dict(case.data)
    for key in ("agent", "expect"):
        data[key] = fill(data[key], {**agent.names, "version": agent.version})
    return replace(case, data=data)


def perform(one: play.Play, agent: Agent, command: list[str], runner: list[str], language: str, scratch: Path) -> None:
    """Plays a case in one language."""
    name = one.scenario.name
    directory = scratch / f"{agent.name}-{language}" / name
    (directory / "work").mkdir(parents=True)
    names = {"dir": str(directory)}
    with ScriptedModel(fill(one.scenario.kimi.get("model", []), names)) as model:
        config = one.scenario.kimi.get("config", {})
        env = agent.env(directory / "home", model.base_url, config.get("model", True))
        case = prepared(one.scenario, names)
        options = {"work_dir": str(directory / "work"), "handshake_timeout": real.HANDSHAKE_SECONDS}
        options |= case.get("options", {})
        options["env"] = {**env, **options.get("env", {})}
        path = play.case_file(directory.parent / f"{name}.case", {**case, "options": options})
        outcome = runners.run(runner, {name: path}, real.runner_env(command))[name]
        orphans = real.left_behind(directory)
        if orphans:
            outcome.problem = outcome.problem or f"left behind: {'; '.join(orphans)}"
        outcome.lines = trace.normalise(trace.simplify(outcome.lines, one.scenario.keep), str(directory))
        one.outcomes[language] = outcome
        one.unused[language] = model.unused


def languages_of(chosen: argparse.Namespace, agent: Agent, case: Scenario) -> list[str]:
    if chosen.languages:
        return list(chosen.languages.split(","))
    if chosen.all or (not chosen.record and (agent.name, case.name) == ALL_LANGUAGES):
        return list(REAL_LANGUAGES)
    return ["rust"]


def without_commands(text: str) -> str:
    """Agents list commands by the dozen, from which nothing is learnt."""
    if '"availableCommands"' not in text:
        return text
    message = json.loads(text)
    update = message["params"]["update"]
    message["params"]["update"] = {"sessionUpdate": update["sessionUpdate"], "availableCommands": []}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def keep(agent: Agent, directory: Path, log: Path, path: Path) -> None:
    """Writes down what was said, without what belongs to the machine and the moment."""
    cleaner = Cleaner(directory)
    known: dict[str, str] = {}
    lines = []
    for entry in last_process(log):
        text = cleaner.line(entry["line"].replace(str(directory / "work"), "/project"))
        text = text.replace("{dir}", "/home/user").replace(str(install.cache_dir()), "/opt")
        text = _ID.sub(lambda found: known.setdefault(found[0], f"{found[1]}_{len(known) + 1}"), text)
        mark = ">" if entry["dir"] == "in" else "<"
        lines.append(f"{mark} {without_commands(text)}\n")
    left = [line for line in lines if tempfile.gettempdir() in line or str(Path.home()) in line]
    if left:
        raise SystemExit(f"{agent.name}: a path of this machine stands in it: {left[0]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), "utf-8")
    say(f"wrote {path.relative_to(TESTS.parent)}")


def main() -> int:
    """Prints the verdicts; 1 if one is bad."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", default=",".join(AGENTS), help="names of agents")
    parser.add_argument("--languages", help="rust,python,python-sync,node or some of them")
    parser.add_argument("--all", action="store_true", help="every agent in all languages")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--show", action="store_true", help="print the traces")
    parser.add_argument("--keep", action="store_true", help="leave the cases' directories behind")
    parser.add_argument("--record", action="store_true", help="write down what is said, through Rust")
    chosen = parser.parse_args()
    begun = time.monotonic()
    plays: list[tuple[play.Play, list[str]]] = []
    scratch = Path(tempfile.mkdtemp(prefix="agents-")).resolve()
    failed = 0
    jobs = []
    for agent in (AGENTS[name] for name in chosen.agents.split(",")):
        command = agent.command(say)
        for case in load_all(HERE / "cases", [chosen.only] if chosen.only else []):
            if case.name in agent.left_out:
                continue
            languages = languages_of(chosen, agent, case)
            one = play.Play(cast(case, agent), f"{agent.name} {agent.version}")
            plays.append((one, languages))
            for language in languages:
                log = scratch / f"{agent.name}-{case.name}.log"
                through = [sys.executable, str(TEE), "--all", str(log)] if chosen.record else []
                job = partial(perform, one, agent, [*through, *command], runners.command(language), language, scratch)
                jobs.append(job)
    say(f"{len(jobs)} runs with an agent, {play.AT_ONCE} at once")
    runners.parallel(jobs, play.AT_ONCE)
    for one, languages in plays:
        verdict = play.judge(one, languages)
        failed += verdict.status != "pass"
        print(f"{verdict.status}  {one.scenario.name} ({one.version}: {', '.join(languages)})")
        for complaint in verdict.complaints:
            print("  " + complaint.replace("\n", "\n  "))
        for language, outcome in one.outcomes.items() if chosen.show else ():
            print(f"  the trace in {language}:")
            for line in outcome.lines:
                print(f"    {trace.compact(line)}")
        agent = AGENTS[str(one.version).partition(" ")[0]]
        if chosen.record and verdict.status == "pass" and one.scenario.name == RECORDS:
            path = RECORDED / f"{agent.name}-{agent.version}" / f"{one.scenario.name}.acp"
            log = scratch / f"{agent.name}-{one.scenario.name}.log"
            keep(agent, scratch / f"{agent.name}-rust" / one.scenario.name, log, path)
    say(f"{len(jobs)} runs in {time.monotonic() - begun:.0f} s")
    play.clear(scratch, chosen.keep, say)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
