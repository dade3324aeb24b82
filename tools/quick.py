#!/usr/bin/env python3
"""Checks what an edit can have broken, in about three minutes on a built tree: `make quick`.

    tools/quick.py                  what git says has changed since the last commit
    tools/quick.py --base main      what has changed since then, and since the last commit
    tools/quick.py --list           says what would run

It says what it leaves out. `make proof` runs everything.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = {
    "protocol": "kimi-agent-protocol",
    "policy": "kimi-agent-policy",
    "files": "kimi-agent-files",
    "agent": "kimi-agent-testing",
    "entry": "kimi-agent-entry",
    "client": "kimi-agent-client",
    "proxy": "kimi-agent-proxy",
    "command": "kimi-agent-command",
    "bridge": "kimi-agent-bridge",
    "kimi-agent": "kimi-agent",
}
# The crates with features, whose tests need all of them.
FEATURES = {"kimi-agent": ("mcp", "testing"), "kimi-agent-client": ("mcp", "testing")}
# Every scenario of the selection in Rust takes as long as these three in all languages.
SCENARIOS = ["one_shot", "approval", "cancel"]


@dataclass(frozen=True)
class Check:
    """A command, and the changed files that it is for."""

    name: str
    about: str
    pattern: str
    command: Callable[[list[str]], list[str]]
    left_out: str = ""
    """What of this part is not checked."""

    def files(self, changed: Iterable[str]) -> list[str]:
        return [path for path in changed if re.search(self.pattern, path)]


def crates(files: list[str]) -> list[str]:
    names = {CRATES[path.split("/")[1]] for path in files if path.startswith("core/") and path.split("/")[1] in CRATES}
    return [word for name in sorted(names) for word in ("-p", name)]


def features(files: list[str]) -> list[str]:
    """The features of the changed crates: cargo refuses those of others."""
    found = [f"{name}/{feature}" for name in crates(files) for feature in FEATURES.get(name, ())]
    return ["--features", ",".join(found)] if found else []


def scenarios(files: list[str]) -> list[str]:
    names = sorted({Path(path).stem for path in files if path.startswith("tests/scenarios/")})
    return [word for name in names or SCENARIOS for word in ("--only", name)]


def existing(files: list[str], ending: str) -> list[str]:
    return [path for path in files if path.endswith(ending) and (ROOT / path).exists()]


def checks(python: str) -> list[Check]:
    """All checks, the quick ones first."""
    tool = str(Path(python).parent)
    return [
        Check("rustfmt", "the form of the Rust code", r"\.rs$", lambda _: ["cargo", "fmt", "--all", "--check"]),
        Check(
            "ruff",
            "the form of the Python code",
            r"\.py$",
            lambda files: [f"{tool}/ruff", "check", "-q", *existing(files, ".py")],
        ),
        Check("prose", "the language of the documents", r"\.md$", lambda _: ["make", "-s", "lint-prose"]),
        Check(
            "generated",
            "generated files are current",
            r"^core/(protocol|bridge)/|^tools/generate|_session\.py|_agent\.py",
            lambda _: ["make", "-s", "test-generated"],
        ),
        Check(
            "regressions",
            "patches of defects that were fixed once apply",
            r"^(core|bindings-python|bindings-node|inspector|tools|tests/(regressions|harness|docs))/",
            lambda _: [python, "tests/regressions/run.py", "--check"],
            "whether the tests notice these defects: make test-regressions",
        ),
        Check(
            "mypy",
            "the types of the Python package",
            r"^bindings-python/.*\.pyi?$",
            lambda _: ["sh", "-c", f"cd bindings-python && {tool}/mypy"],
        ),
        Check(
            "clippy",
            "lints of the changed crates",
            r"^core/.*\.rs$",
            lambda files: [
                "cargo",
                "clippy",
                "-q",
                "--locked",
                *crates(files),
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ],
            "clippy of the crates that use a changed one",
        ),
        Check(
            "rust",
            "unit and integration tests of the changed crates",
            r"^core/.*\.rs$|^core/.*/tests/",
            lambda files: ["cargo", "test", "-q", "--locked", *crates(files), *features(files), "--lib", "--tests"],
            "tests of the crates that use a changed one; documentation tests",
        ),
        Check(
            "build",
            "the packages",
            r"^(core|bindings-python|bindings-node)/.*\.(rs|toml|ts|pyi)$",
            lambda _: ["make", "-s", "build"],
        ),
        Check(
            "python",
            "what the interpreter and the addon decide",
            r"^(core/(bridge|client)|bindings-python)/",
            lambda _: [python, "-m", "pytest", "-q", "-m", "interpreter", "bindings-python/tests"],
            "the other tests of the Python package, and other Pythons",
        ),
        Check(
            "node",
            "a part of the tests of the Node package",
            r"^(core/(bridge|client)|bindings-node)/",
            lambda _: ["node", "bindings-node/scripts/test.mjs", "--smoke"],
            "the other tests of the Node package, and other releases of Node",
        ),
        Check(
            "eslint",
            "lints and types of the Node package",
            r"^bindings-node/.*\.m?[tj]s$",
            lambda _: ["npm", "--prefix", "bindings-node", "run", "--silent", "lint"],
        ),
        Check(
            "scenarios",
            "changed scenarios, or a few, in all languages",
            r"^(core|bindings-|tests/(scenarios|runners|harness))",
            lambda files: [python, "tests/run_scenarios.py", *scenarios(files)],
            "the other scenarios, and other protocols than Wire",
        ),
        Check(
            "harness",
            "the harness of the scenarios and of the faults",
            r"^(tests/(harness|faults)|tools/(proof|quick))",
            lambda _: [python, "-m", "pytest", "-q", "tests/harness", "tests/faults"],
            "the faults themselves",
        ),
        Check(
            "documents",
            "code blocks of the changed documents",
            r"^(docs/.*|README)\.md$",
            lambda files: [python, "tests/docs/run.py", *(Path(path).stem for path in existing(files, ".md"))],
        ),
        Check(
            "inspector",
            "unit tests of the inspector",
            r"^inspector/",
            lambda _: ["npm", "--prefix", "inspector", "test", "--silent"],
            "the inspector in a browser",
        ),
    ]


def changed(base: str) -> list[str]:
    """The files that differ from a revision, and those that git does not know yet."""
    differing = _git("diff", "--name-only", base)
    return sorted({*differing, *_git("ls-files", "--others", "--exclude-standard")})


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"quick: git {' '.join(words)} failed: {done.stderr.strip()}")
    return done.stdout.splitlines()


def run(check: Check, files: list[str]) -> bool:
    started = time.monotonic()
    done = subprocess.run(check.command(files), cwd=ROOT, capture_output=True, text=True, check=False)
    took = time.monotonic() - started
    print(f"{'FAIL' if done.returncode else 'pass'}  {check.name}: {check.about}  {took:.0f} s", flush=True)
    if done.returncode:
        print("\n".join((done.stdout + done.stderr).splitlines()[-60:]))
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="HEAD", help="the git revision to compare with (HEAD)")
    parser.add_argument("--list", action="store_true", help="only say what would run")
    chosen = parser.parse_args()
    files = changed(chosen.base)
    if not files:
        print(f"quick: nothing differs from {chosen.base}; `make proof` runs everything")
        return 0
    affected = [(check, own) for check in checks(sys.executable) if (own := check.files(files))]
    covered = {path for _, own in affected for path in own}
    started = time.monotonic()
    if chosen.list:
        for check, own in affected:
            print(f"{check.name}: {check.about}, for {len(own)} files")
    results = [] if chosen.list else [run(check, own) for check, own in affected]
    print("left out:")
    for text in dict.fromkeys(check.left_out for check, _ in affected if check.left_out):
        print(f"  {text}")
    for path in files:
        if path not in covered:
            print(f"  all about {path}")
    print("  everything that no changed file is a part of: attacks, real agents, the site, other systems")
    if not chosen.list:
        print(f"{sum(results)} passed, {len(results) - sum(results)} failed in {time.monotonic() - started:.0f} s")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
