#!/usr/bin/env python
"""Plays the scenarios in Python, blocking Python, Node and Rust, and compares spans and metrics with `expected.json`.

`--update` writes the file from what Python records; the other languages must agree.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from receiver import names, receiver, values

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.json"
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
# Attributes that differ from run to run.
VARYING = {
    "gen_ai.conversation.id": "id",
    "gen_ai.agent.version": "version",
    "gen_ai.response.time_to_first_chunk": "seconds",
    "kimi_agent.approval.wait": "seconds",
}


def attributes(given: dict[str, Any]) -> dict[str, Any]:
    """Attributes in order, without values that vary."""
    return {name: VARYING.get(name, given[name]) for name in sorted(given)}


def tree(spans: list[dict[str, Any]], parent: object = None) -> list[dict[str, Any]]:
    """The spans below a parent, by their start."""
    found = sorted((span for span in spans if span["parent"] == parent), key=lambda span: int(span["start"]))
    return [
        {
            **{name: span[name] for name in ("name", "kind", "status", "message") if span[name]},
            "attributes": attributes(span["attributes"]),
            "events": [
                {"name": event["name"], "attributes": attributes(event["attributes"])} for event in span["events"]
            ],
            "children": tree(spans, span["id"]),
        }
        for span in found
    ]


def points(metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The values of metrics in order, without durations."""
    found = [
        {
            **metric,
            "attributes": attributes(metric["attributes"]),
            "sum": "seconds" if metric["unit"] == "s" else metric["sum"],
            "boundaries": [float(boundary) for boundary in metric["boundaries"]],
        }
        for metric in metrics
    ]
    return sorted(found, key=lambda metric: (metric["name"], json.dumps(metric["attributes"])))


def play(language: str, scenarios: list[Any], **env: str) -> dict[str, Any]:
    """The trees and metrics of scenarios in a language."""
    given, command = json.dumps(scenarios), PLAYERS[language]
    environment = {**os.environ, **env}
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, timeout=300, env=environment
    )
    if done.returncode != 0:
        raise SystemExit(f"{language}: the player failed\n{done.stderr}")
    return {
        name: {"spans": tree(recorded["spans"]), "metrics": points(recorded["metrics"])}
        for name, recorded in json.loads(done.stdout).items()
    }


def exports(language: str, scenario: Any, expected: Any) -> bool:
    """Plays a scenario with an export over OTLP. Whether the receiver has got the tree, and each metric once."""
    with receiver() as (address, received):
        play(language, [scenario], OTEL_EXPORTER_OTLP_ENDPOINT=address)
    found = {"spans": names(received["spans"]), "metrics": points(values(received["metrics"]))}
    wanted = {"spans": names_of(expected["spans"]), "metrics": expected["metrics"]}
    if found != wanted:
        print(f"FAIL    export of {scenario['name']} in {language}: got {found}, expected {wanted}")
    return found == wanted


def names_of(spans: list[dict[str, Any]]) -> list[Any]:
    return [[span["name"], names_of(span["children"])] for span in spans]


def as_text(found: Any) -> str:
    return json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write expected.json")
    update = parser.parse_args().update
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
    print(f"{sum(exported)} exports over OTLP have arrived")
    print(f"{len(expected)} scenarios in {len(played)} ways, {failed} differences")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
