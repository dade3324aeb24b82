"""Codex with a key that the program passes, against an agent that asks for a login as codex-acp does."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import AGENT, DEADLINE, HERE

API_KEY = {
    "id": "api-key",
    "name": "API Key",
    "_meta": {"api-key": {"provider": "openai"}},
    "variables": ["CODEX_API_KEY", "OPENAI_API_KEY"],
}
CODEX: dict[str, Any] = {
    "wire": "acp",
    "server": {"name": "Codex", "version": "2.6.0"},
    "login": {"methods": [API_KEY, {"id": "chat-gpt", "name": "ChatGPT"}]},
    "turns": [[{"text": "Home: {{env.CODEX_HOME}}"}]],
}


def run(folder: Path, script: Any, key: str) -> subprocess.CompletedProcess[str]:
    """Runs the program with a `codex-acp` that plays the script."""
    (folder / "script.json").write_text(json.dumps(script))
    (folder / "key").write_text(key)
    program = folder / "codex-acp"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([str(AGENT), str(folder / "script.json")])} "$@"\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": str(folder)}
    for name in ("CODEX_API_KEY", "OPENAI_API_KEY", "KIMI_AGENT_EXECUTABLE"):
        env.pop(name, None)
    return subprocess.run(
        [sys.executable, str(HERE / "codex_key.py"), str(folder / "key"), "Hello"], env=env, cwd=folder,
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip


def test_key_of_program_logs_in(tmp_path: Path) -> None:
    done = run(tmp_path, CODEX, "sk-scripted\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Home: ")
    assert not Path(done.stdout.removeprefix("Home: ").strip()).exists()


def test_error_lists_ways_to_log_in(tmp_path: Path) -> None:
    done = run(tmp_path, CODEX, "")
    assert done.returncode == 3
    assert done.stderr.startswith("no login: Codex 2.6.0 (ACP 1): Authentication required")
    assert "  api-key (agent): API Key\n  chat-gpt (agent): ChatGPT\n" in done.stderr


def test_key_is_not_in_errors(tmp_path: Path) -> None:
    failing = {**CODEX, "turns": [[{"error": {"code": -32003, "message": "401 sk-scripted is no key"}}]]}
    done = run(tmp_path, failing, "sk-scripted")
    assert "sk-scripted" not in done.stdout + done.stderr
