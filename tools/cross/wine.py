#!/usr/bin/env python3
"""Tests the core and the Node package as programs of Windows, under Wine.

    tools/cross/wine.py [core] [node]

It needs Wine, the C compiler of MinGW (gcc-mingw-w64-x86-64), Node with npm, and a network for the first run. All of it
is below .cache/cross. Wine is not Windows: only CI on Windows shows what that does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import windows
from build import Compiler, compiler
from common import CACHE, ROOT

TARGET = "x86_64-pc-windows-gnu"
CRATES = [f"kimi-agent-{name}" for name in ("protocol", "files", "policy", "testing", "client", "command", "bridge")]
# Integration tests.
TESTS = ("scripted_agent", "hostile", "rules")
# Far beyond what a program takes on a busy machine.
DEADLINE = 900


def run(name: str, command: Sequence[Path | str], folder: Path, variables: dict[str, str]) -> tuple[int, str]:
    """Runs a program in Wine, and returns its code and its output, which is a file: pipes of Linux do not work."""
    output = CACHE / "run" / f"{name}.txt"
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w+b") as file:
        done = subprocess.run(
            ["wine", *command],
            cwd=folder,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE,
            check=False,
        )
    return done.returncode, output.read_text("utf-8", "replace")


def test_core(cargo: Compiler, variables: dict[str, str]) -> list[str]:
    """Runs the unit tests of the core, and some integration tests. Returns the names of those that failed."""
    crates = [argument for crate in CRATES for argument in ("--package", crate)]
    features = "kimi-agent-client/kimi-web,kimi-agent-client/mcp,kimi-agent-client/testing,kimi-agent-testing/web"
    command = ["cargo", "test", "--no-run", "--locked", "--target", TARGET, "--lib"]
    command += [argument for test in TESTS for argument in ("--test", test)]
    command += [*crates, "--features", features, "--message-format=json-render-diagnostics", *cargo.std]
    built = subprocess.run(command, cwd=ROOT, env=cargo.env, check=True, stdout=subprocess.PIPE, text=True)
    artifacts = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    failed = []
    for artifact in artifacts:
        program = artifact.get("executable")
        if not program or not artifact["profile"]["test"]:
            continue
        name = artifact["target"]["name"]
        code, text = run(name, [program, "--test-threads=2"], Path(artifact["manifest_path"]).parent, variables)
        results = re.findall(r"^test result: .*$", text, re.MULTILINE)
        print(f"{name}: {results[-1] if results else 'ended without a result'}", flush=True)
        if code != 0 or not results:
            print(text[-20_000:])
            failed.append(name)
    return failed


def test_node(cargo: Compiler, variables: dict[str, str], versions: Iterable[str]) -> list[str]:
    """Runs the tests of the Node package. Returns the names of those that failed."""
    folder = node_project(cargo)
    failed = []
    for version in versions:
        counts = {"pass": 0, "fail": 0, "skipped": 0}
        program = windows.node(CACHE, version)
        for test in sorted((folder / "test").glob("*.test.mjs")):
            name = f"node {version} {test.name}"
            report = CACHE / "run" / f"{test.stem}.tap"
            report.unlink(missing_ok=True)
            options = [
                "--test-force-exit",
                "--test-reporter=tap",
                f"--test-reporter-destination={windows.name_of(report)}",
            ]
            code, text = run(test.stem, [program, *options, f"test/{test.name}"], folder, variables)
            tap = report.read_text("utf-8") if report.exists() else ""
            for key in counts:
                counts[key] += sum(int(count) for count in re.findall(rf"^# {key} (\d+)$", tap, re.MULTILINE))
            # Node 20 ends before it has written the counts; its code is right.
            if code != 0 or re.search(r"^ *not ok", tap, re.MULTILINE) or "# Subtest" not in tap:
                print(f"{name} ended with {code}\n{text[-5_000:]}\n{tap[-20_000:]}", flush=True)
                failed.append(name)
            for skipped in re.findall(r"^ *ok .*# SKIP.*$", tap, re.MULTILINE):
                print(f"{test.name}: {skipped.strip()}")
        print(f"Node {version}: {counts}", flush=True)
    return failed


def node_project(cargo: Compiler) -> Path:
    """A copy of the built Node package with the addon of Windows. In bindings-node the addon would be packed."""
    products = cargo.build("--locked", "--package=kimi-agent-node", "--features=napi/dyn-symbols")
    source = ROOT / "bindings-node"
    subprocess.run(["npm", "run", "--silent", "build:ts"], cwd=source, check=True)
    folder = CACHE / "wine-project" / "bindings-node"
    shutil.rmtree(folder.parent, ignore_errors=True)
    for part in ("dist", "test"):
        shutil.copytree(source / part, folder / part)
    for file in ("package.json", "tsconfig.json"):
        shutil.copyfile(source / file, folder / file)
    (folder / "node_modules").symlink_to(source / "node_modules")
    (folder.parent / "tests").symlink_to(ROOT / "tests")
    shutil.copyfile(products / "kimi_agent_node.dll", folder / "kimi-agent.win32-x64-msvc.node")
    return folder


def main() -> int:
    """Exits with 1 if a test failed."""
    suites = sys.argv[1:] or ["core", "node"]
    variables = windows.prefix(CACHE)
    cargo = compiler(TARGET, quick=True)
    failed = []
    if "core" in suites:
        failed += test_core(cargo, variables)
    if "node" in suites:
        failed += test_node(cargo, variables, windows.NODES)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
