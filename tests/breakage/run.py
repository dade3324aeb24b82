#!/usr/bin/env python3
"""Breaks the core, one rule at a time, and requires the scenarios to notice in every language.

    tests/breakage/run.py             every patch
    tests/breakage/run.py feedback    those with "feedback" in their names

Each patch beside this file is applied to a copy of the tree, and the scenarios that it names are played with what that
copy builds. All of it is below .cache/breakage and stays there, so that a build only does what a patch makes necessary.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from harness import play  # noqa: E402
from harness.scenario import LANGUAGES, Scenario, load_all  # noqa: E402

CRATES = ("kimi-agent", "scenario-runner", "kimi-agent-python", "kimi-agent-node")
# With an example of the core its dependencies have the features that the tests have compiled them with already: see
# .cargo/config.toml.
TARGETS = ("--features=kimi-agent/bridge", "--lib", "--bin=scenario-runner", "--example=wire_catalog")
CORE = "core/src/"


class Failure(Exception):
    """A patch, or the copy, is not as it has to be; the message says what to do."""


def say(text: str) -> None:
    print(f"breakage: {text}", flush=True)


@dataclass(frozen=True)
class Patch:
    """One broken rule, as a file: `Breaks: …`, `Scenarios: NAME …`, and a diff."""

    path: Path
    breaks: str
    patterns: tuple[str, ...]
    files: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.stem


def read(path: Path) -> Patch:
    text = path.read_text("utf-8")
    files = tuple(re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE))
    if not files:
        raise Failure(f"{path.name} is no unified diff with paths like a/{CORE}… and b/{CORE}…")
    for file in files:
        if not file.startswith(CORE):
            raise Failure(f"{path.name} changes {file}: a patch breaks the core, below {CORE}")
    head = dict(re.findall(r"^(Breaks|Scenarios): (.+)$", text.split("\n--- ")[0], re.MULTILINE))
    for key in ("Breaks", "Scenarios"):
        if key not in head:
            raise Failure(f"{path.name} has no line `{key}: …` before its diff")
    return Patch(path, head["Breaks"], tuple(head["Scenarios"].split()), files)


def named(patch: Patch, scenarios: Iterable[Scenario]) -> list[Scenario]:
    """The scenarios that the patch wants to be played."""
    everything = list(scenarios)
    for pattern in patch.patterns:
        if not any(fnmatch.fnmatchcase(one.name, pattern) for one in everything):
            raise Failure(f"{patch.path.name} names the scenario {pattern}, which is not there")
    return [one for one in everything if any(fnmatch.fnmatchcase(one.name, pattern) for pattern in patch.patterns)]


class Copy:
    """A copy of the tree's files, which is brought up to date instead of being made anew."""

    def __init__(self, root: Path, tree: Path) -> None:
        self.root = root
        self.tree = tree

    def update(self) -> None:
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, cwd=self.root, stdout=subprocess.PIPE, text=True, check=True).stdout
        wanted = {name for name in listed.split("\0") if name and (self.root / name).is_file()}
        for path in self.tree.rglob("*"):
            if path.is_file() and path.relative_to(self.tree).as_posix() not in wanted and not _is_built(path):
                path.unlink()
        self.restore(wanted)

    def restore(self, names: Iterable[str]) -> None:
        """Writes only what differs: cargo builds anew what has been written."""
        for name in names:
            source, target = self.root / name, self.tree / name
            content = source.read_bytes()
            if not target.is_file() or target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)

    def apply(self, patch: Patch) -> None:
        # The copy is no repository, and must not be taken for a part of the one around it.
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.tree.parent)}
        applied = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", str(patch.path)],
            cwd=self.tree, env=env, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        if applied.returncode:
            reason = applied.stderr.strip()
            raise Failure(f"refresh it: {patch.path.name} does not apply to the sources any more\n{reason}")
        if all((self.tree / name).read_bytes() == (self.root / name).read_bytes() for name in patch.files):
            raise Failure(f"{patch.path.name} changes nothing")


def _is_built(path: Path) -> bool:
    return path.suffix in (".so", ".pyd", ".node", ".pyc") or "dist" in path.parts


class Packages:
    """The three languages' packages, made from a copy."""

    def __init__(self, tree: Path, target: Path) -> None:
        self.tree = tree
        self.target = target
        self.python = tree / "bindings-python/python"
        self.commands: dict[str, list[str]] = {}

    def prepare(self) -> None:
        dist = ROOT / "bindings-node/dist"
        if not (dist / "index.mjs").exists():
            raise Failure("bindings-node/dist is not there: run `make build` first")
        copied = self.tree / "bindings-node/dist"
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(dist, copied)
        asked = f"process.stdout.write(require({json.dumps(str(copied / 'native.js'))}).nativeFileName())"
        named_so = subprocess.run(["node", "-e", asked], stdout=subprocess.PIPE, text=True, check=True)
        self.addon = self.tree / "bindings-node" / named_so.stdout
        runners = self.tree / "tests/runners"
        python = [sys.executable, str(runners / "python/runner.py")]
        self.commands = {
            "rust": [str(self.target / "debug" / f"scenario-runner{'.exe' if os.name == 'nt' else ''}")],
            "python": [*python, "--api=async"],
            "python-sync": [*python, "--api=sync"],
            "node": ["node", str(runners / "node/runner.mjs")],
        }
        # In front of a package that is installed.
        os.environ["PYTHONPATH"] = str(self.python)

    def build(self) -> None:
        env = {
            **os.environ,
            "CARGO_INCREMENTAL": "1",
            # Nobody debugs these, and linking takes half as long.
            "CARGO_PROFILE_DEV_DEBUG": "0",
            # As maturin builds it: not linked with one Python.
            "PYO3_BUILD_EXTENSION_MODULE": "1",
            "PYO3_PYTHON": sys.executable,
        }
        if shares_dependencies(ROOT, os.environ):
            # Where the tree's are compiled: only what ends up in --target-dir is the copy's alone.
            env["CARGO_BUILD_BUILD_DIR"] = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
        chosen = [part for crate in CRATES for part in ("-p", crate)]
        built = subprocess.run(
            ["cargo", "build", "--quiet", "--locked", *chosen, *TARGETS, "--target-dir", str(self.target),
             "--message-format", "json-render-diagnostics"],
            cwd=self.tree, env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if built.returncode:
            raise Failure(f"the sources do not compile\n{built.stderr[-2000:]}")
        libraries = _libraries(built.stdout)
        suffix = ".pyd" if os.name == "nt" else ".abi3.so"
        _replace(libraries["kimi_agent_native"], self.python / "kimi_agent" / f"_native{suffix}")
        _replace(libraries["kimi_agent_node"], self.addon)


def shares_dependencies(root: Path, environ: Mapping[str, str]) -> bool:
    """Whether cargo can keep the copy's crates beside the tree's: what tells them apart is their debug information.

    Otherwise it would take the one for the other, and the tree's programs would be broken ones.
    """
    config = (root / ".cargo/config.toml").read_text("utf-8")
    return "CARGO_PROFILE_DEV_DEBUG" not in environ and '[profile.dev]\ndebug = "line-tables-only"\n' in config


def _libraries(messages: str) -> dict[str, Path]:
    """The shared libraries that cargo says it has built, by the name of their targets."""
    found: dict[str, Path] = {}
    for line in messages.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        for file in message.get("filenames", []):
            if Path(file).suffix in (".so", ".dylib", ".dll"):
                found[message["target"]["name"]] = Path(file)
    return found


def _replace(source: Path, target: Path) -> None:
    # A file of its own: one that is written into while a process has it loaded would crash that.
    fresh = target.with_name(f"{target.name}.new")
    shutil.copyfile(source, fresh)
    fresh.replace(target)


Reds = dict[str, list[str]]


def red(scenarios: list[Scenario], commands: dict[str, list[str]]) -> Reds:
    """By language, the scenarios that fail."""
    # Resolved, because an agent reports the directory under its real path.
    scratch = Path(tempfile.mkdtemp(prefix="breakage-")).resolve()
    try:
        plays = play.play_scripted(scenarios, commands, scratch, lambda text: None)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    reds: Reds = {}
    for language in commands:
        reds[language] = [one.scenario.name for one in plays if play.judge(one, [language]).complaints]
    return reds


def unnoticed(reds: Reds) -> str | None:
    """The complaint about a break that some language's scenarios pass with."""
    green = [language for language, names in reds.items() if not names]
    if not green:
        return None
    return f"stays green in {', '.join(green)}: no scenario that it names shows this rule there; write one"


def told(reds: Reds) -> str:
    """Which scenarios are red, in one line where all languages agree."""
    if len({tuple(names) for names in reds.values()}) == 1:
        return f"red in {', '.join(reds)}: {', '.join(next(iter(reds.values()))) or 'none'}"
    return "; ".join(f"red in {language}: {', '.join(names) or 'none'}" for language, names in reds.items())


def check(patch: Patch, copy: Copy, packages: Packages, scenarios: list[Scenario]) -> str:
    """Breaks the rule and plays; raises if a language does not notice. The copy is whole again afterwards."""
    try:
        copy.apply(patch)
        try:
            packages.build()
        except Failure as failure:
            raise Failure(f"refresh it: with {patch.path.name}, {failure}") from None
        reds = red(scenarios, packages.commands)
    finally:
        copy.restore(patch.files)
    complaint = unnoticed(reds)
    if complaint:
        raise Failure(f"{complaint}\n{told(reds)}")
    return told(reds)


def run(words: list[str], folder: Path = HERE) -> int:
    started = time.monotonic()
    scenarios = load_all(ROOT / "tests/scenarios")
    paths = [path for path in sorted(folder.glob("*.patch")) if not words or any(word in path.stem for word in words)]
    if not paths:
        raise Failure(f"no patch has {' or '.join(words)} in its name" if words else "there is no patch")
    patches = [(patch, named(patch, scenarios)) for patch in map(read, paths)]
    place = ROOT / ".cache/breakage"
    copy = Copy(ROOT, place / "tree")
    packages = Packages(place / "tree", place / "target")
    copy.update()
    packages.prepare()
    say("building a copy of the tree")
    packages.build()
    wanted = {one.name for _, several in patches for one in several}
    untouched = [one for one in scenarios if one.name in wanted]
    say(f"{len(untouched)} scenarios as they are, {time.monotonic() - started:.0f} s so far")
    reds = red(untouched, packages.commands)
    if any(reds.values()):
        raise Failure(f"nothing is broken yet, and the scenarios fail: {told(reds)}; see `make test-scenarios`")
    failed = 0
    for patch, several in patches:
        began = time.monotonic()
        try:
            verdict, outcome = "pass", check(patch, copy, packages, several)
        except Failure as failure:
            verdict, outcome = "FAIL", str(failure)
            failed += 1
        print(f"{verdict}  {patch.name}: {patch.breaks} ({time.monotonic() - began:.0f} s)", flush=True)
        print("  " + outcome.replace("\n", "\n  "), flush=True)
    say(f"{len(patches)} patches in {time.monotonic() - started:.0f} s")
    print(f"{len(patches) - failed} passed, {failed} failed")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD", help="part of a patch's name")
    try:
        return run(parser.parse_args().words)
    except Failure as failure:
        say(str(failure))
        print("0 passed, 1 failed")
        return 1


if __name__ == "__main__":
    assert set(LANGUAGES) == {"rust", "python", "python-sync", "node"}, "a new language needs a package here"
    sys.exit(main())
