"""The programs for containers, without a container, and a check of their Dockerfiles.

The folder of the programs in Node has the Node package: its run.sh runs first.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DEADLINE, HERE, Environment

NODE = HERE.parent / "node"
WRITES = {
    "name": "WriteFile",
    "approve": {"description": "Write a.txt"},
    "effect": {"write_file": "a.txt", "content": ""},
}
ANSWERS = [[{"tool_call": WRITES}, {"text": "The key is {{env.KIMI_MODEL_API_KEY}}, the prompt {{prompt}}."}]]
WAITS = [[{"text": "I wait."}, {"wait_cancel": True}]]
FAILS = [[{"error": {"code": -32003, "message": "overloaded"}}]]
PROGRAMS = {
    "python": [sys.executable, str(HERE / "docker" / "program.py")],
    "node": ["node", str(NODE / "docker" / "program.mjs")],
}

by_language = pytest.mark.parametrize("language", PROGRAMS)


def start(language: str, env: Environment, folder: Path) -> subprocess.Popen[str]:
    key = folder / "key"
    key.write_text("secret\n")
    return subprocess.Popen(
        [*PROGRAMS[language], "Go"], env={**env, "KEY_FILE": str(key)}, cwd=folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@by_language
def test_agent_gets_key_and_uses_folder(language: str, agent: Callable[..., Environment], tmp_path: Path) -> None:
    with start(language, agent(ANSWERS), tmp_path) as program:
        printed, errors = program.communicate(timeout=DEADLINE)
    assert (printed, errors) == ("The key is secret, the prompt Go.", "[Write a.txt]\n")
    assert program.returncode == 0
    assert (tmp_path / "a.txt").exists()


@by_language
def test_failed_turn_sets_exit_code(language: str, agent: Callable[..., Environment], tmp_path: Path) -> None:
    with start(language, agent(FAILS), tmp_path) as program:
        _, errors = program.communicate(timeout=DEADLINE)
    assert program.returncode == 1
    assert errors.startswith("llm_service_error: ")


@by_language
def test_sigterm_closes_session(language: str, agent: Callable[..., Environment], tmp_path: Path) -> None:
    with start(language, agent(WAITS), tmp_path) as program:
        assert program.stdout is not None
        assert program.stdout.read(7) == "I wait."
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=DEADLINE)
    assert program.returncode == 143


@by_language
def test_dockerfile_has_no_finding_of_hadolint(language: str) -> None:
    linter = Path(sys.executable).with_name("hadolint")
    dockerfile = HERE.parent / language / "docker" / "Dockerfile"
    done = subprocess.run([linter, "--no-color", dockerfile], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    lines = dockerfile.read_text().splitlines()
    assert lines.index("USER 10001") < lines.index("WORKDIR /work")
    assert lines[-1].startswith('ENTRYPOINT ["tini", "--", ')
