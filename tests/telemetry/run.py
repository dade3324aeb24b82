#!/usr/bin/env python
"""Plays the scenarios in Python, blocking Python, Node and Rust, and compares spans and metrics with `expected.json`.

`--update` writes the file from what Python records; the other languages must agree.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import usage
from receiver import names, receiver, values
from trees import comparable, names_of, points

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.json"
# Its tables have all names. tools/generate_telemetry.py writes them.
REFERENCE = HERE.parent.parent / "docs/reference/telemetry.md"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target"))
PLAYERS = {
    "python": [sys.executable, str(HERE / "play.py"), "async"],
    "python-sync": [sys.executable, str(HERE / "play.py"), "sync"],
    "node": ["node", str(HERE / "play.mjs")],
    "rust": [str(TARGET / "debug" / "telemetry-player")],
}
# Scenarios whose metrics are all that there are.
EXPORTED = ("answer", "approval", "rejection")
# The test `spans_are_exported_over_otlp` of the crate `kimi-agent` exports from Rust.
EXPORTING = ("python", "python-sync", "node")


def play(language: str, scenarios: list[Any], **env: str) -> dict[str, Any]:
    """The trees and metrics of scenarios in a language."""
    given, command = json.dumps(scenarios), PLAYERS[language]
    environment = {**os.environ, **env}
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, timeout=300, env=environment
    )
    if done.returncode != 0:
        raise SystemExit(f"{language}: the player failed\n{done.stderr}")
    return {name: comparable(recorded) for name, recorded in json.loads(done.stdout).items()}


def exports(language: str, scenario: Any, expected: Any) -> bool:
    """Plays a scenario with an export over OTLP. Whether the receiver has got the tree, and each metric once."""
    with receiver() as (address, received):
        play(language, [scenario], OTEL_EXPORTER_OTLP_ENDPOINT=address)
    found = {"spans": names(received["spans"]), "metrics": points(values(received["metrics"]))}
    wanted = {"spans": names_of(expected["spans"]), "metrics": expected["metrics"]}
    if found != wanted:
        print(f"FAIL    export of {scenario['name']} in {language}: got {found}, expected {wanted}")
    return found == wanted


def unseen(expected: Any) -> list[str]:
    """The names of the reference that no scenario has."""
    tables = REFERENCE.read_text("utf-8").split("## Spans")[1].split("## A trace")[0]
    names = re.findall(r"^\| `([^`]+)` \|", tables, re.MULTILINE)
    text = as_text(expected)
    return [name for name in names if f'"{name}"' not in text]


def as_text(found: Any) -> str:
    return json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write expected.json")
    update = parser.parse_args().update
    usage.needs("telemetry", Path(PLAYERS["rust"][0]), "node")
    usage.needs_package("telemetry")
    scenarios = json.loads((HERE / "scenarios.json").read_text("utf-8"))
    played = {language: play(language, scenarios) for language in PLAYERS}
    if update:
        EXPECTED.write_text(as_text(played["python"]), "utf-8")
    expected = json.loads(EXPECTED.read_text("utf-8"))
    failed = 0
    for language, found in played.items():
        for name in sorted({*expected, *found}):
            before, after = as_text(expected.get(name)), as_text(found.get(name))
            if before != after:
                failed += 1
                diff = difflib.unified_diff(
                    before.split("\n"), after.split("\n"), "expected", language, lineterm="", n=4
                )
                print(f"FAIL    {name} in {language}", *diff, sep="\n")
    exported = [
        exports(language, scenario, expected[scenario["name"]])
        for scenario in scenarios
        if scenario["name"] in EXPORTED
        for language in EXPORTING
    ]
    failed += exported.count(False)
    for name in unseen(expected):
        failed += 1
        print(f"FAIL    {name} is in {REFERENCE.name}, but in no scenario")
    print(f"{sum(exported)} exports over OTLP have arrived")
    print(f"{len(expected)} scenarios in {len(played)} ways, {failed} differences")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(usage.reported("telemetry", main))
