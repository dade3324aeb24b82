#!/usr/bin/env python3
"""Drives agents of ACP that others have written through the SDK of each language, with a scripted model on loopback.

    tests/foreign/agents/run.py                                what CI runs
    tests/foreign/agents/run.py --all                          every agent in all languages
    tests/foreign/agents/run.py --table                        every agent; writes the table of docs/reference/agents.md
    tests/foreign/agents/run.py --agents opencode --only work --languages rust --show
    tests/foreign/agents/run.py --record                       writes tests/recorded/<agent>-<version>/<case>.acp

The cases are written like those in tests/real. What an agent calls its tools, `agents.py` says.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import table
from agents import AGENTS, KIMI_CLI, TESTS, Agent
from harness import alone, play, real, runners, trace, usage
from harness.scenario import REAL_LANGUAGES, Scenario, fill, load_all, prepared
from real import install
from real.model import ScriptedModel
from real.record import RECORDED, Cleaner, last_process
from table import own_course

HERE = Path(__file__).resolve().parent
TEE = TESTS / "real/tee.py"
TAP = HERE / "tap.py"
MCP_SERVER = HERE / "mcp_server.py"
# It has most in it.
EACH_AGENT = "work"
# In others there are addresses and secrets of the moment.
RECORDS = "work"
# Gemini CLI makes the ids of calls of the time.
_TIMED_ID = re.compile(r"_\d{13}_\d+\b")
# Ids that are not plain UUIDs: sessions of OpenCode, Cline and fast-agent, messages of OpenCode, and approvals of Kimi
# Code's server.
_RANDOM_ID = re.compile(
    r"\b((ses|msg)_[0-9A-Za-z]{20,}|approval_[0-9a-f-]{36}|\d{13}_\w{5}_cli|\d{10}-[0-9A-Za-z]{6})\b"
)
_ID = re.compile(r"\b(ses|msg|prt)_[0-9A-Za-z]{20,}\b")


def say(text: str) -> None:
    print(f"agents: {text}", flush=True)


def cast(case: Scenario, agent: Agent) -> Scenario:
    """The case in this agent's words, with its own course if it has one."""
    own = own_course(case, agent)
    kimi = {**case.kimi, **{key: own[key] for key in ("model", "files", "mcp") if key in own}}
    if "shell_arguments" in agent.names and "model" in kimi:
        kimi["model"] = [with_own_arguments(reply, agent.names["shell_arguments"]) for reply in kimi["model"]]
    data = {**case.data, **{key: own[key] for key in ("program", "expect", "options") if key in own}}
    data["agent"] = {"kimi": kimi}
    for key in ("program", "expect"):
        data[key] = [step for step in data[key] if step_of(step) not in own.get("without", ())]
    if "refused" in own:
        # The last of the operations with this name is the one that the SDK has to refuse.
        last = max(place for place, op in enumerate(data["program"]) if op["op"] == own["refused"])
        first = data["program"][0]["op"]
        end = [{"op": "close_agent"}] if first == "open_agent" else [{"op": "close"}] if last else []
        data["program"] = [*data["program"][: last + 1], *end]
        data["expect"] = [{"op": own["refused"], "error": "unsupported"}]
    names = {"protocol": "acp-1", "tool": "mcp__program__lookup", **agent.names, "version": agent.version}
    names["server_tool"] = names["tool"].replace("program", "shelf")
    for key in ("agent", "expect"):
        # What a name stands for may have names in it.
        data[key] = fill(fill(data[key], names), names)
    return replace(case, data=data)


def step_of(step: Any) -> str | None:
    """The operation that a step of a program or an expectation is about."""
    return step.get("op") if isinstance(step, dict) else None


def with_own_arguments(reply: Any, own: dict[str, Any]) -> Any:
    """The reply; calls of the shell have the arguments of an agent that refuses those of the case."""
    if not isinstance(reply, dict) or "calls" not in reply:
        return reply

    def arguments(call: dict[str, Any]) -> Any:
        told = call["arguments"]
        return fill(own, {"line": told["command"]}) if call["name"] == "{shell}" else told

    return {**reply, "calls": [{**call, "arguments": arguments(call)} for call in reply["calls"]]}


def executable(agent: Agent, words: list[str], directory: Path, log: Path | None) -> list[str]:
    """The value of `executable`: a program with the agent's name, which the SDK must know how to start."""
    if log:
        words = [sys.executable, str(TEE), "--all", str(log), *words]
    if not agent.program:
        return words
    program = directory / "bin" / agent.program
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', "utf-8")
    program.chmod(0o755)
    return [str(program)]


@contextlib.contextmanager
def serving(kind: str, directory: Path) -> Iterator[dict[str, str]]:
    """The names that a case with a server of MCP uses; a server over HTTP runs for as long."""
    if kind not in ("stdio", "http", "sse"):
        yield {}
        return
    # The environment of kimi-cli has the SDK of the protocol.
    python = Path(KIMI_CLI.launch(say)[0]).with_name("python.exe" if os.name == "nt" else "python")
    names = {"mcp_python": str(python), "mcp_server": str(MCP_SERVER)}
    if kind == "stdio":
        yield names
        return
    env = {**os.environ, "LISTED": str(directory / "listed")}
    command = [str(python), str(MCP_SERVER), kind]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield {**names, "mcp_url": server.stdout.readline().strip()}
        finally:
            # Its input ends with it.
            server.communicate()


def without_late_title(line: dict[str, Any]) -> dict[str, Any]:
    """A line of a trace; the result of a call that failed is without the call's title."""
    event = line.get("event")
    if not isinstance(event, dict) or event["type"] != "ToolResult":
        return line
    payload = event["payload"]
    value = payload["return_value"]
    if not value["is_error"] or not value.get("extras"):
        return line
    extras = {key: told for key, told in value["extras"].items() if key != "title"}
    return {**line, "event": {**event, "payload": {**payload, "return_value": {**value, "extras": extras}}}}


def without_cancelled_usage(line: dict[str, Any]) -> dict[str, Any]:
    """A line of a trace; the result of a cancelled turn is without its usage."""
    if line.get("op") != "result" or line.get("status") != "cancelled":
        return line
    return {key: told for key, told in line.items() if key != "usage"}


def perform(
    one: play.Play,
    agent: Agent,
    words: list[str],
    language: str,
    scratch: Path,
    log: Path | None,
    starts: alone.Starts,
    suffix: str,
) -> str | None:
    """Plays a case in one language. Returns why to play it again, if its agent ended by itself."""
    name = one.scenario.name
    directory = scratch / f"{agent.name}-{language}" / f"{name}{suffix}"
    (directory / "work").mkdir(parents=True)
    mcp = one.scenario.kimi.get("mcp", "")
    if mcp == "tap":
        words = [sys.executable, str(TAP), str(directory), *words]
    command = executable(agent, words, directory, log)
    runner = runners.command(language)
    for file, content in one.scenario.kimi.get("files", {}).items():
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fill(content, {"dir": str(directory)}), "utf-8")
    names = {"dir": str(directory)}
    with (
        serving(mcp, directory) as server,
        ScriptedModel(fill(one.scenario.kimi.get("model", []), names)) as model,
    ):
        names |= server
        config = one.scenario.kimi.get("config", {})
        env = agent.env(directory / "home", model.base_url, config.get("model", True))
        case = prepared(one.scenario, names)
        options = {"work_dir": str(directory / "work"), "handshake_timeout": real.HANDSHAKE_SECONDS}
        options |= {"dialect": agent.dialect} if agent.dialect else {}
        options |= fill(agent.options, names)
        options |= case.get("options", {})
        options["env"] = {**env, **options.get("env", {})}
        program = real.with_agent_options(case["program"], options)
        path = play.case_file(Path(f"{directory}.case"), {**case, "options": options, "program": program})
        with starts.turn(agent.name) as begun:
            outcome = runners.run(runner, {name: path}, real.runner_env(command), begun)[name]
        failure = alone.own_failure(one.scenario.expect, outcome)
        if failure and not suffix:
            return failure
        orphans = real.left_behind(directory)
        if orphans:
            outcome.problem = outcome.problem or f"left behind: {'; '.join(orphans)}"
        outcome.lines = trace.normalise(trace.simplify(outcome.lines, one.scenario.keep), str(directory))
        text = _TIMED_ID.sub("_<time>", json.dumps(outcome.lines, ensure_ascii=False))
        text = _RANDOM_ID.sub("<random id>", text)
        outcome.lines = json.loads(re.sub(agent.races, "<either>", text) if agent.races else text)
        if agent.late_titles:
            outcome.lines = [without_late_title(line) for line in outcome.lines]
        if agent.usage_races_cancel:
            outcome.lines = [without_cancelled_usage(line) for line in outcome.lines]
        one.outcomes[language] = outcome
        one.unused[language] = 0 if "refused" in own_course(one.scenario, agent) else model.unused
        (directory / "requests.json").write_text(json.dumps(model.requests, indent=1), "utf-8")
    return None


def languages_of(chosen: argparse.Namespace, agent: Agent, case: Scenario) -> list[str]:
    """In a selection the languages take turns over the cases of an agent."""
    if chosen.languages:
        return list(chosen.languages.split(","))
    if chosen.all:
        return list(REAL_LANGUAGES)
    if chosen.record:
        return ["rust"]
    turn = zlib.crc32(f"{agent.name} {case.name}".encode())
    return [REAL_LANGUAGES[turn % len(REAL_LANGUAGES)]]


def has_turn(agent: Agent, case: Scenario) -> bool:
    """Whether the selection plays a case with an agent: the agents that can play it take turns, but for one case."""

    def takes_turns(one: Agent) -> bool:
        return not (one.elsewhere or one.nightly or "lacking" in own_course(case, one))

    able = [one for one in AGENTS.values() if takes_turns(one)]
    return case.name == EACH_AGENT or agent is able[zlib.crc32(case.name.encode()) % len(able)]


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
    parser.add_argument("--agents", default="", help="names of agents; left out, those that CI plays here")
    parser.add_argument("--languages", help="rust,python,python-sync,node or some of them")
    parser.add_argument("--all", action="store_true", help="every agent in all languages")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--show", action="store_true", help="print the traces")
    parser.add_argument("--keep", action="store_true", help="leave the cases' directories behind")
    parser.add_argument("--table", action="store_true", help="play every agent, and write the results and the table")
    parser.add_argument("--check", action="store_true", help="play nothing; fail if the table is not up to date")
    parser.add_argument("--install", action="store_true", help="play nothing; install the agents that CI plays")
    parser.add_argument("--record", action="store_true", help="write down what is said, through Rust")
    chosen = parser.parse_args()
    begun = time.monotonic()
    if chosen.check:
        return table.check()
    names = usage.chosen("agents", "--agents", chosen.agents, AGENTS) if chosen.agents else []
    if chosen.languages:
        usage.chosen("agents", "--languages", chosen.languages, REAL_LANGUAGES)
    cases = load_all(HERE / "cases", [])
    if not any(chosen.only in case.name for case in cases):
        known = ", ".join(case.name for case in cases)
        usage.stop("agents", f"no case has a name with {chosen.only!r}; there are {known}")
    usage.needs("agents", "npm", "node")
    if chosen.install:
        for agent in AGENTS.values():
            if not (agent.elsewhere or agent.nightly):
                agent.launch(say)
        return 0
    plays: list[tuple[play.Play, Agent, list[str]]] = []
    scratch = Path(tempfile.mkdtemp(prefix="agents-")).resolve()
    failed = 0
    jobs: dict[str, alone.Job] = {}
    starts = alone.Starts()
    everything = chosen.all or chosen.table or chosen.agents
    selects = not (everything or chosen.only or chosen.languages or chosen.record)
    for agent in AGENTS.values():
        if agent.name not in names if names else not everything and (agent.elsewhere or agent.nightly):
            continue
        words = agent.launch(say)
        for case in load_all(HERE / "cases", [chosen.only] if chosen.only else []):
            if "lacking" in own_course(case, agent):
                continue
            if selects and not has_turn(agent, case):
                continue
            languages = languages_of(chosen, agent, case)
            one = play.Play(cast(case, agent), f"{agent.name} {agent.version}")
            plays.append((one, agent, languages))
            for language in languages:
                log = scratch / f"{agent.name}-{case.name}.log" if chosen.record else None
                job = partial(perform, one, agent, words, language, scratch, log, starts)
                jobs[f"{one.scenario.name} ({agent.name}, {language})"] = job
    say(f"{len(jobs)} runs with an agent, {play.AT_ONCE} at once")
    alone.play_all(jobs, play.AT_ONCE, say)
    verdicts = []
    for one, agent, languages in plays:
        verdict = play.judge(one, languages)
        verdicts.append((agent, verdict, languages))
        failed += verdict.status != "pass"
        print(f"{verdict.status}  {one.scenario.name} ({one.version}: {', '.join(languages)})  {one.seconds:.2f} s")
        for complaint in verdict.complaints:
            print("  " + complaint.replace("\n", "\n  "))
        for language, outcome in one.outcomes.items() if chosen.show else ():
            print(f"  the trace in {language}:")
            for line in outcome.lines:
                print(f"    {trace.compact(line)}")
        if chosen.record and verdict.status == "pass" and one.scenario.name == RECORDS:
            path = RECORDED / f"{agent.name}-{agent.version}" / f"{one.scenario.name}.acp"
            log = scratch / f"{agent.name}-{one.scenario.name}.log"
            keep(agent, scratch / f"{agent.name}-rust" / one.scenario.name, log, path)
    say(f"{len(jobs)} runs in {time.monotonic() - begun:.0f} s")
    play.clear(scratch, chosen.keep, say)
    if chosen.table:
        table.write(verdicts)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(usage.reported("agents", main))
    except install.InstallFailed as error:
        usage.stop("agents", f"{error}\nThe agents come from npm and PyPI: run this again with access to the network")
