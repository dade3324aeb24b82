"""Plays an agent through the runners of all languages, and runs small host programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from harness import runners

__all__ = ["AGENTS", "HOSTS", "ROOT", "agent", "played", "ran", "script"]

ROOT = Path(__file__).resolve().parent.parent.parent
AGENTS = Path(__file__).resolve().parent / "agents"
HOSTS = ("python", "python-sync", "node")
"""Languages that small host programs are written in."""
DEADLINE = 180
"""Nothing takes that long; waiting ends there, so that a test fails instead of hanging."""
_NODE_PACKAGE = json.dumps(str(ROOT / "bindings-node/dist/index.mjs"))
_PYTHON_IMPORTS = "import asyncio, json, os, signal, sys, threading, time\nfrom kimi_agent import KimiAgentError\n"
PRELUDE = {
    "python": f"{_PYTHON_IMPORTS}import kimi_agent",
    "python-sync": f"{_PYTHON_IMPORTS}import kimi_agent.sync as kimi_agent",
    "node": f'import fs from "node:fs";\nimport * as kimi from {_NODE_PACKAGE};',
}


def agent(name: str, *arguments: str) -> list[str]:
    """An agent of `agents/` as an `executable`."""
    return [sys.executable, "-I", "-S", str(AGENTS / f"{name}.py"), *arguments]


@cache
def _scripted() -> str:
    return os.environ.get("KIMI_SCRIPTED_AGENT") or str(runners.built("kimi-scripted-agent"))


def script(folder: Path, content: Any, name: str = "script") -> list[str]:
    """The scripted agent as an `executable`."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(content))
    path.chmod(0o644)
    return [_scripted(), str(path)]


def played(
    language: str, folder: Path, options: Mapping[str, Any], program: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The trace of a program that a runner plays, of any of the four languages."""
    case = {"name": "attack", "agent": {}, "options": {"work_dir": str(folder), **options}, "program": list(program)}
    path = folder / "case.json"
    path.write_text(json.dumps(case))
    env = {**os.environ, "SCENARIO_EXECUTABLE": '["no-other-agent"]'}
    outcome = runners.run(runners.command(language), {"attack": path}, env)["attack"]
    assert not outcome.problem, f"{outcome.problem}\n{outcome.stderr}"
    return outcome.lines


def ran(
    language: str,
    folder: Path,
    code: str,
    *prefix: str,
    executable: Sequence[str] = (),
    flags: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    expected: int | None = 0,
) -> str:
    """The output of a host program; `EXECUTABLE` in it is the agent, and `prefix` is a command that starts it."""
    path = folder / ("host.mjs" if language == "node" else "host.py")
    constant = f"{'const ' if language == 'node' else ''}EXECUTABLE = {json.dumps(list(executable))}"
    path.write_text(f"{PRELUDE[language]}\n{constant}\n{textwrap.dedent(code)}")
    path.chmod(0o644)
    interpreter = ["node", "--expose-gc", *flags] if language == "node" else [sys.executable, *flags]
    done = subprocess.run(
        [*prefix, *interpreter, str(path)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=DEADLINE,
        check=False,
        cwd=folder,
        env={**os.environ, **(env or {})},
    )
    assert expected is None or done.returncode == expected, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
