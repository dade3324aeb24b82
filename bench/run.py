#!/usr/bin/env python3
"""Measures the SDK and its alternatives.

    run.py                              all of it, a quarter of an hour
    run.py --quick                      a look, in a minute or two
    run.py --only events --clients Python,asyncio
    run.py --result quiet               also writes results/quiet.json, docs/evidence/performance.md and its plots
    run.py --only server --renew quiet  writes these figures into the kept result, with their date

Every client does the same with the same agent. Runs alternate: a round is one run of each client, so that a machine
that is busy is so for all of them. What is compared is compared within a round; what is told is the median of the
rounds, with the smallest and the largest. README.md says more; `make bench` builds what is needed first.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import page
from measures import Measure, Size, measures, play, taking_part
from roster import CLIENTS, NODE, NOTHING, PYTHON, SCRIPTED, TARGET
from table import table
from targets import targets

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FULL = Size(rounds=9, starts=25, events=100_000, asks=2000, sessions=50, pieces=20_000, server_asks=500, jobs=1000)
QUICK = Size(rounds=3, starts=5, events=20_000, asks=300, sessions=10, pieces=5000, server_asks=100, jobs=1000)
Figures = dict[str, dict[str, list[float]]]

IMPORT = "import asyncio, time; t = time.process_time(); import kimi_agent; print((time.process_time() - t) * 1e3)"


def say(text: str) -> None:
    """The current step."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def measure_all(measure: Measure, size: Size, chosen: list[str], found: Figures) -> None:
    """The rounds of one measurement."""
    taking = taking_part(measure, chosen)
    if not taking:
        return
    say(f"{measure.name}: {measure.rounds} rounds of {len(taking)} clients")
    for number in range(measure.rounds):
        # The first client finds colder caches: each round begins with another.
        first = number % len(taking)
        for client in taking[first:] + taking[:first]:
            run = play(client, measure, size)
            for figure, of in measure.figures.items():
                found.setdefault(figure, {}).setdefault(client.name, []).append(of(run))


def measure_import(size: Size, found: Figures) -> None:
    """The time that Python needs to import the package."""
    say("import of the Python package")
    for _ in range(size.starts):
        done = subprocess.run([str(PYTHON), "-c", IMPORT], stdout=subprocess.PIPE, text=True, check=True)
        found.setdefault("import", {}).setdefault("kimi-agent, Python", []).append(float(done.stdout))


def replayed_agents() -> dict[str, list[str]]:
    """The command of the agent that plays a recording, as each package makes it."""
    recording = str(ROOT / "tests/recordings/wire.jsonl")
    imports = "import json, sys; from kimi_agent.testing import replayed_agent"
    python = f"{imports}; print(json.dumps(replayed_agent(sys.argv[1])))"
    node = "import * as testing from 'kimi-agent/testing'; "
    node += "console.log(JSON.stringify(testing.replayedAgent(process.argv[1])))"
    made = {
        "kimi-agent, Python": [str(PYTHON), "-c", python, recording],
        "kimi-agent, Node": [NODE, "--input-type=module", "-e", node, recording],
    }
    commands = {
        client: json.loads(subprocess.run(argv, cwd=HERE / "clients", stdout=subprocess.PIPE, check=True).stdout)
        for client, argv in made.items()
    }
    return {"kimi-agent, Rust": [str(SCRIPTED), "--play-recording", recording], **commands}


def measure_replayed(size: Size, found: Figures) -> None:
    """The time until a replayed agent answers, and the time of the interpreters alone."""
    say("start of a replayed agent")
    entries = map(json.loads, (ROOT / "tests/recordings/wire.jsonl").read_text("utf-8").splitlines())
    handshake = next(entry["message"] for entry in entries if entry.get("from") == "sdk")
    commands = replayed_agents() | {one.name: list(one.argv) for one in CLIENTS if one.tasks == NOTHING}
    for _ in range(size.starts):
        for client, command in commands.items():
            began = time.monotonic_ns()
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                assert process.stdin
                assert process.stdout
                is_agent = client.startswith("kimi-agent")
                if is_agent:
                    process.stdin.write(json.dumps(handshake).encode() + b"\n")
                    process.stdin.flush()
                # A program that does nothing ends with an empty line.
                if bool(process.stdout.readline()) != is_agent:
                    raise SystemExit(f"{client} failed at the start of a replayed agent")
                found.setdefault("start of a replayed agent", {}).setdefault(client, []).append(
                    (time.monotonic_ns() - began) / 1e6
                )


def measure_limits(found: Figures) -> None:
    """Slow readers and idle sessions are what `tests/limits` measures: with its programs, built for release."""
    say("slow readers and idle sessions, by tests/limits")
    names = {"rust": "kimi-agent, Rust", "python": "kimi-agent, Python", "node": "kimi-agent, Node"}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        told = Path(folder) / "limits.json"
        for case in ("slow_reader", "at_once"):
            argv = [str(PYTHON), str(ROOT / "tests/limits/run.py"), "--rust-program", str(TARGET / "limits-program")]
            done = subprocess.run([*argv, "--only", case, "--json", str(told)], stdout=sys.stderr, check=False)
            if done.returncode:
                raise SystemExit(f"tests/limits failed at {case}")
            for language, figures in json.loads(told.read_text("utf-8"))[case].items():
                for figure, key, unit in (
                    ("slow reader", "growth", 1e6),
                    ("idle session", "resident bytes per idle session", 1e3),
                    ("descriptors", "descriptors per session", 1),
                    ("threads", "threads more", 1),
                ):
                    if key in figures:
                        found.setdefault(figure, {})[names[language]] = [figures[key] / unit]


def first_line(*argv: str) -> str:
    """Of what a command prints."""
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0]


def machine() -> dict[str, Any]:
    """The machine of the measurement."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    return {
        "cpu": model,
        "cpus": os.cpu_count(),
        "kernel": platform.release().split("-")[0],
        "rustc": " ".join(first_line("rustc", "--version").split()[:2]),
        "python": first_line(str(PYTHON), "--version"),
        "node": f"Node {first_line(NODE, '--version')}",
    }


def rounded(found: Figures) -> Figures:
    """As many digits as mean something."""
    return {
        figure: {client: [float(f"{value:.4g}") for value in values] for client, values in by_client.items()}
        for figure, by_client in found.items()
    }


def written(result: dict[str, Any]) -> str:
    """As JSON, the values of a client in one line."""
    text = json.dumps(result, indent=1)
    return re.sub(r"\[[^\[\]{}]*\]", lambda values: " ".join(values[0].split()), text) + "\n"


def renewed(whole: dict[str, Any], part: dict[str, Any], kind: str, date: str) -> dict[str, Any]:
    """Returns a result with the figures of a later run in it, which are labelled with what is known of that run."""
    for key in ("cpu", "cpus"):
        if whole["machine"][key] != part["machine"][key]:
            raise SystemExit("the result is another machine's; its figures are not to be compared with these")
    label = {"kind": kind, "date": date, "load": part["load"], "rounds": part["size"]["rounds"]}
    labels = {**whole.get("renewed", {}), **dict.fromkeys(part["figures"], label)}
    return {**whole, "figures": {**whole["figures"], **part["figures"]}, "renewed": labels}


def main() -> None:
    """Measures, and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="measurements whose names contain this")
    parser.add_argument("--clients", default="", help="parts of clients' names, separated by commas")
    parser.add_argument("--rounds", type=int, help="how many, instead of what is usual")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--result", choices=page.KINDS, help="writes this result, and the page")
    parser.add_argument("--renew", choices=page.KINDS, help="writes the figures into the kept result")
    args = parser.parse_args()
    size = QUICK if args.quick else FULL
    if args.rounds:
        size = replace(size, rounds=args.rounds, starts=args.rounds)
    chosen = [part.strip() for part in args.clients.split(",") if part.strip()]
    partly = bool(args.quick or args.only or chosen)
    if args.result and partly:
        parser.error("a result is a whole run: leave out --quick, --only and --clients, or use --renew")
    if args.renew and (args.result or args.quick or chosen):
        parser.error("figures are renewed with all clients and in full: leave out --result, --quick and --clients")
    if unknown := [part for part in chosen if not any(part in client.name for client in CLIENTS)]:
        parser.error(f"no client is called {unknown[0]!r}; there are: {'; '.join(client.name for client in CLIENTS)}")
    began, load = time.monotonic(), [os.getloadavg()[0]]
    found: Figures = {}
    for measure in measures(size):
        if args.only in measure.name:
            measure_all(measure, size, chosen, found)
            load.append(os.getloadavg()[0])
    if not chosen and args.only in "import":
        measure_import(size, found)
    if not chosen and args.only in "replayed agent":
        measure_replayed(size, found)
    if not chosen and args.only in "limits":
        measure_limits(found)
    # Runs of one client are one process after the other with its agent: without others, the load is two at the most.
    result = {
        "machine": machine(),
        "load": [round(min(load), 1), round(max(load), 1)],
        "size": vars(size),
        "figures": rounded(found),
    }
    say(f"took {time.monotonic() - began:.0f} s")
    print(table(result))
    print(targets(result))
    text = written(result)
    if args.json:
        args.json.write_text(text, "utf-8")
    if args.result:
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / f"{args.result}.json").write_text(text, "utf-8")
    if args.renew:
        kept, whole = next(iter(page.results().items()))
        label = (args.renew, datetime.date.today().isoformat())
        (HERE / "results" / f"{kept}.json").write_text(written(renewed(whole, result, *label)), "utf-8")
    if args.result or args.renew:
        subprocess.run([sys.executable, str(HERE / "page.py")], check=True)


if __name__ == "__main__":
    main()
