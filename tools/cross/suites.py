"""Runs a part of the tests of both bindings on another system, with the installed packages.

These are tests of sessions that play in one process. Tests of processes, signals and memory are for native machines:
emulators behave differently there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from common import PIP, ROOT
from runners import System
from trial import Outcome, run

PYTHON = ("errors", "handlers", "reading", "requests", "services", "session", "sync")
# They need pydantic, which has a native file for each system itself.
WITHOUT = (
    "tests/test_handlers.py::test_invalid_tool_arguments_error",
    "tests/test_handlers.py::test_decorated_function_is_called_as_tool",
    "tests/test_requests.py::test_tool_may_mix_text_and_parts",
)
NODE = ("agent", "errors", "handlers", "iteration", "reading", "requests", "services", "wire-log")
# The last line of pytest, and the count of a file of tests in Node.
PASSED = re.compile(r"^(\d+) passed.*|^(?:#|ℹ) pass (\d+)$", re.MULTILINE)
# The folder of pytest, next to the packages.
PYTEST = "pytest"
# Far beyond what they take under an emulator on a busy machine.
LIMIT = 3600.0


def try_suites(name: str, system: System, folder: Path) -> bool:
    """Says for each interpreter whether its tests have passed. The packages are installed in the folder."""
    results = []
    for language, prepare in (("Python", python), ("Node", node)):
        if language in system.interpreters:
            interpreter = system.interpreters[language]
            commands = prepare(folder)
            path = os.pathsep.join([str(folder), str(folder / PYTEST)])
            outputs = [run([interpreter, *command], folder, limit=LIMIT, PYTHONPATH=path) for command in commands]
            passed = [count(each) for each in outputs]
            for each in (each for each, tests in zip(outputs, passed, strict=True) if not tests):
                print(each.text[-20_000:])
            results.append(all(passed))
            print(f"{'pass' if all(passed) else 'FAIL'}    {name}: {sum(passed)} tests of {language}", flush=True)
    return all(results)


def count(outcome: Outcome) -> int:
    """The number of tests that have passed, or 0 if one has not."""
    found = PASSED.findall(outcome.text) if outcome.is_good else []
    return sum(int(number) for groups in found for number in groups if number)


def python(folder: Path) -> list[list[str]]:
    """Copies the tests of Python next to the package and pytest, and returns the arguments of the interpreter."""
    [pytest] = re.findall(r"(?m)^pytest==\S+", (ROOT / "bindings-python" / "requirements-test.txt").read_text("utf-8"))
    subprocess.run([*PIP, "--target", folder / PYTEST, pytest], check=True)
    shutil.copytree(ROOT / "bindings-python" / "tests", folder / "tests")
    files = [f"tests/test_{name}.py" for name in PYTHON]
    options = ["-q", "--color=no", "-p", "no:cacheprovider", *(f"--deselect={test}" for test in WITHOUT)]
    return [["-m", "pytest", *options, *files]]


def node(folder: Path) -> list[list[str]]:
    """Copies the tests of Node next to the package, and returns the arguments for each file of tests."""
    project = folder / "project"
    shutil.copytree(folder / "node_modules" / "kimi-agent", project)
    shutil.copytree(ROOT / "bindings-node" / "test", project / "test")
    return [[f"project/test/{name}.test.mjs"] for name in NODE]
