"""Tries the packages of a target: installs them into fresh folders, and runs programs there with the scripted agent."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common import PIP, ROOT
from inspection import complaints
from runners import System
from targets import Target

PROGRAMS = ROOT / "tests" / "packages" / "programs"
# By the name of the interpreter.
NEEDED = {"Python": ("coroutines.py", "blocking.py"), "Node": ("esm.mjs", "commonjs.cjs")}
EXPECTED = "hello world"
LIMIT = 300.0


def try_packages(name: str, target: Target, system: System | None, out: Path, folder: Path) -> bool:
    """Installs the packages into a folder, and says for each program whether it did what it must."""
    wheel, native = install(target, out, folder)
    found = complaints(name, target, wheel, native)
    for each in found:
        print(f"FAIL    {name}: {each}")
    if system is None:
        print(f"linked  {name}: it cannot be run here", flush=True)
        return not found
    results = [
        works(name, interpreter, program, folder)
        for language, interpreter in system.interpreters.items()
        for program in NEEDED[language]
    ]
    return all(results) and not found


def install(target: Target, out: Path, folder: Path) -> tuple[Path | None, Path]:
    """Installs the packages next to the programs, as on that system. Returns the wheel, if any, and the native file."""
    wheel = None
    if target.has_wheel:
        [wheel] = out.glob(target.wheel_pattern)
        pip = [*PIP, "--no-index", "--no-deps", "--target", folder, wheel]
        subprocess.run([*pip, *target.pip_options], check=True)
    [main] = out.glob("kimi-agent-[0-9]*.tgz")
    [native] = out.glob(f"kimi-agent-{target.npm}-[0-9]*.tgz")
    (folder / "package.json").write_text('{"private": true}', "utf-8")
    npm = [shutil.which("npm") or "npm", "install", "--silent", "--no-audit", "--no-fund", "--offline", main, native]
    # npm refuses the package of another system that is named, and not left to it to choose.
    subprocess.run([*npm, *target.npm_options, *([] if target.is_here else ["--force"])], cwd=folder, check=True)
    for names in NEEDED.values():
        for program in names:
            shutil.copy(PROGRAMS / program, folder)
    return wheel, folder / "node_modules" / "@kimi-agent" / target.npm / f"kimi-agent.{target.npm}.node"


def works(name: str, interpreter: Path, program: str, folder: Path) -> bool:
    """Whether a program prints what it must."""
    outcome = run([interpreter, program], folder)
    is_right = outcome == Outcome(True, EXPECTED)
    print(f"{'pass' if is_right else 'FAIL'}    {name}: {program}", *([] if is_right else [outcome.text]), flush=True)
    return is_right


@dataclass(frozen=True)
class Outcome:
    """Whether a program ended well, and what it printed; with its errors, if it did not end well."""

    is_good: bool
    text: str


def run(command: Sequence[Path | str], folder: Path, *, limit: float = LIMIT, **variables: str) -> Outcome:
    """Runs a program to its end."""
    env = {**os.environ, "PYTHONPATH": str(folder), **variables}
    # Files, because wine cannot write into a pipe.
    files = (folder / "stdout", folder / "stderr")
    with files[0].open("wb") as stdout, files[1].open("wb") as stderr:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
        try:
            status: object = subprocess.run(command, cwd=folder, env=env, timeout=limit, **pipes).returncode
        except subprocess.TimeoutExpired as error:
            status = error
    said, errors = (file.read_text("utf-8", "replace").strip() for file in files)
    return Outcome(True, said) if status == 0 else Outcome(False, f"{said}\n{errors}\nexit status: {status}")
