"""tools/advisories.py: a weakness that is found is never taken for a database that cannot be reached."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import advisories  # noqa: E402

# The stdout, the stderr and the exit code of each program.
CLEAN: dict[str, tuple[Any, str, int]] = {
    "cargo-deny": ("", "advisories ok", 0),
    "npm": ({"auditReportVersion": 2, "vulnerabilities": {}}, "", 0),
    "pip-audit": ({"dependencies": [{"name": "six", "version": "1.0", "vulns": []}]}, "", 0),
}
REFUSED = "request to https://registry.example/-/npm/v1/security/advisories/bulk failed, reason: connect ECONNREFUSED"
WEAK = {"name": "left-pad", "severity": "high", "via": [{"title": "It pads", "url": "https://example.org/1"}]}
ID = {"id": "PYSEC-1", "fix_versions": ["1.1"]}
FOUND: dict[str, tuple[Any, str, int]] = {
    "cargo-deny": ("", "error[vulnerability]: RUSTSEC-2026-0001", 1),
    "npm": ({"auditReportVersion": 2, "vulnerabilities": {"left-pad": WEAK}}, "", 1),
    "pip-audit": ({"dependencies": [{"name": "six", "version": "1.0", "vulns": [ID]}]}, "", 1),
}
UNREACHABLE: dict[str, tuple[Any, str, int]] = {
    "cargo-deny": ("", "[ERROR] failed to fetch advisory database: could not resolve host", 1),
    "npm": ({"message": REFUSED, "error": {"summary": "", "detail": ""}}, "", 1),
    "pip-audit": ("", "requests.exceptions.ProxyError: HTTPSConnectionPool(host='pypi.org', port=443)", 1),
}
PACKAGES_ONLY = {"dependencies": [{"name": "six", "skip_reason": "Dependency not found on PyPI"}]}
BROKEN: dict[str, tuple[Any, str, int]] = {
    "cargo-deny": ("", "error: the lock file needs to be updated", 1),
    "npm": ({"error": {"code": "ENOLOCK"}}, "", 1),
    "pip-audit": ("", "ERROR: invalid requirement", 1),
}


def audit(folder: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, tuple[Any, str, int]], *given: str) -> int:
    """Runs advisories.py with programs that give these answers."""
    for name, (stdout, stderr, code) in answers.items():
        text = stdout if isinstance(stdout, str) else json.dumps(stdout)
        (folder / f"{name}.out").write_text(text, "utf-8")
        (folder / f"{name}.err").write_text(stderr, "utf-8")
        program = folder / name
        program.write_text(f'#!/bin/sh\ncat "$0.out"; cat "$0.err" >&2; exit {code}\n', "utf-8")
        program.chmod(0o755)
    advisories.ask_about_pip_audit.cache_clear()
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setattr(sys, "argv", ["advisories.py", *given])
    return advisories.main()


@pytest.mark.parametrize("given", [(), ("--strict",)])
def test_clean_files_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...]) -> None:
    assert audit(tmp_path, monkeypatch, CLEAN, *given) == 0


@pytest.mark.parametrize("program", CLEAN)
@pytest.mark.parametrize("answers", [FOUND, BROKEN])
def test_weakness_and_broken_audit_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, answers: dict[str, tuple[Any, str, int]]
) -> None:
    assert audit(tmp_path, monkeypatch, {**CLEAN, program: answers[program]}) == 1


@pytest.mark.parametrize(
    ("program", "answer"),
    [*UNREACHABLE.items(), ("pip-audit", (PACKAGES_ONLY, "", 0))],
)
def test_unreachable_database_fails_if_strict(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: str,
    answer: tuple[Any, str, int],
) -> None:
    answers = {**CLEAN, program: answer}
    assert audit(tmp_path, monkeypatch, answers) == 0
    assert "skipped: the database for " in capsys.readouterr().out
    assert audit(tmp_path, monkeypatch, answers, "--strict") == 1


def test_shipped_lock_files_are_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    audit(tmp_path, monkeypatch, CLEAN)
    text = capsys.readouterr().out
    for file in (
        "Cargo.lock",
        "bindings-node/package-lock.json",
        "inspector/package-lock.json",
        "site/requirements.txt",
    ):
        assert f"{file}: no known weaknesses" in text
