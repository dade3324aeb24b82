"""The programs that run all tests, and those that an edit can have broken."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import proof  # noqa: E402
import quick  # noqa: E402

OUTPUT = """\
1.25s call     tests/test_a.py::test_b
pass  cancel/early (over ACP)  0.41 s  [not in node: no]
FAIL  cancel/late  7.00 s
        PASS [   0.112s] (1446/1451) kimi-agent-testing::scripted_agent web::ends
✔ session closes (12.5ms)
3 passed, 1 failed
test result: ok. 5 passed; 0 failed
"""


def made(target: str, output: str, seconds: float = 1.0, failed: bool = False) -> proof.Step:
    return proof.Step(target, output=output, seconds=seconds, failed=failed)


def test_cases_of_each_runner_are_read() -> None:
    assert dict(made("t", OUTPUT).cases()) == {
        "t: tests/test_a.py::test_b": 1.25,
        "t: cancel/early (over ACP)": 0.41,
        "t: kimi-agent-testing::scripted_agent web::ends": 0.112,
        "t: session closes": 0.0125,
    }


def test_summary_has_closing_lines_and_slowest_cases() -> None:
    text = proof.summary([made("quick-one", "nothing"), made("slow-one", OUTPUT, 65.4)])
    assert "--- slow-one\n3 passed, 1 failed\ntest result: ok. 5 passed; 0 failed" in text
    assert text.index("65 s      0 s  slow-one") < text.index("1 s      0 s  quick-one")
    assert text.index("1.2 s  slow-one: tests/test_a.py::test_b") < text.index(
        "0.4 s  slow-one: cancel/early (over ACP)"
    )
    assert "The slowest of 4 cases" in text


def test_failures_are_shown_with_what_follows() -> None:
    lines = [*[f"line {n}" for n in range(50)], "FAIL  cancel/late", *[f"more {n}" for n in range(50)]]
    assert made("t", "\n".join(lines)).failures() == lines[50:57]
    # What no pattern knows still has its end.
    assert made("t", "\n".join(lines[:50])).failures() == lines[30:50]


@pytest.fixture
def fake_make(tmp_path: Path) -> Path:
    path = tmp_path / "make"
    path.write_text('#!/bin/sh\necho "$2 with BUILT=$BUILT and $MAKEFLAGS"; touch "$TMPDIR/$2"\n[ "$2" != breaks ]\n')
    path.chmod(0o755)
    return path


def test_targets_are_run_and_judged(fake_make: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKEFLAGS", "-j2")
    run = proof.Proof(str(fake_make.parent), str(fake_make))
    run.run(["a", "breaks", "b"], at_once=2)
    assert sorted(step.target for step in run.steps) == ["a", "b", "breaks"]
    assert [step.target for step in run.failed] == ["breaks"]
    assert all(step.computed > 0 for step in run.steps)
    assert all(step.output == f"{step.target} with BUILT=1 and \n" for step in run.steps)
    # Each had a folder of its own for temporary files.
    assert all(os.listdir(step.folder) == [step.target] for step in run.steps)


def test_left_process_and_file_fail_the_proof(tmp_path: Path) -> None:
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\n[ "$2" = leaves ] || exit 0\ntouch "$TMPDIR/x"\nsleep 1000 >&- 2>&- &\necho $!\n')
    make.chmod(0o755)
    # In a copy, which has its own list of durations and its own worktrees.
    for name in ("tools/proof.py", "tests/left_behind.py"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    text = (tmp_path / "tests/left_behind.py").read_text("utf-8")
    (tmp_path / "tests/left_behind.py").write_text(text.replace("PATIENCE = 60.0", "PATIENCE = 0.0"), "utf-8")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    command = [sys.executable, str(tmp_path / "tools/proof.py"), "leaves", "is-clean"]
    variables = {**os.environ, "MAKE": str(make)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    [pid] = [int(line) for line in done.stdout.splitlines() if line.isdecimal()]
    os.kill(pid, signal.SIGKILL)
    assert done.returncode == 1
    assert "failed: left behind" in done.stdout
    assert re.search(rf"^Process {pid} \(.*\) still runs", done.stdout, re.M)
    assert re.search(r"^The temporary file .*/x is left\.\n.* is of leaves$", done.stdout, re.M)
    assert " is of is-clean" not in done.stdout
    assert subprocess.run([*command[:2], "is-clean"], check=False, env=variables).returncode == 0


def test_targets_begin_after_what_they_need(fake_make: Path) -> None:
    run = proof.Proof(str(fake_make.parent), str(fake_make))
    run.run(["a", "test-rust", "lint-prose", *reversed(proof.FIRST)], at_once=1)
    # With one at a time, each is the first whose needs are met.
    last = ["programs", "test-rust", "docs-rust", "build", "a"]
    assert [step.target for step in run.steps] == ["setup", "fetch", "lint-prose", *last]


def test_nothing_begins_after_broken_programs(fake_make: Path) -> None:
    fake_make.write_text('#!/bin/sh\n[ "$2" != programs ]\n')
    run = proof.Proof(str(fake_make.parent), str(fake_make))
    run.run([*proof.FIRST, "a"], at_once=1)
    assert [step.target for step in run.steps] == ["setup", "programs"]
    assert [step.target for step in run.failed] == ["programs"]


def test_build_asks_cargo_itself(fake_make: Path) -> None:
    run = proof.Proof(str(fake_make.parent), str(fake_make))
    run.run(["build"], at_once=1)
    assert run.steps[0].output == "build with BUILT= and \n"


def test_proof_without_target_is_refused() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools/proof.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the following arguments are required: TARGET" in done.stderr


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("core/policy/src/rule.rs", ["rustfmt", "regressions", "clippy", "rust", "build", "scenarios"]),
        ("core/protocol/src/lib.rs", ["rustfmt", "generated", "regressions", "clippy", "rust", "build", "scenarios"]),
        ("bindings-python/python/kimi_agent/_turn.py", ["ruff", "regressions", "mypy", "python", "scenarios"]),
        ("bindings-node/lib/turn.ts", ["regressions", "build", "node", "eslint", "scenarios"]),
        ("docs/guides/batches.md", ["prose", "documents"]),
        ("tests/scenarios/cancel.json", ["scenarios"]),
        ("LICENSE", []),
    ],
)
def test_changed_file_chooses_checks(path: str, names: list[str]) -> None:
    assert [check.name for check in quick.checks(sys.executable) if check.files([path])] == names


def test_changed_scenario_is_played_itself() -> None:
    [check] = [check for check in quick.checks(sys.executable) if check.name == "scenarios"]
    assert check.command(["tests/scenarios/cancel.json"])[2:] == ["--only", "cancel"]
    assert check.command(["core/policy/src/rule.rs"])[2:] == [
        "--only",
        "one_shot",
        "--only",
        "approval",
        "--only",
        "cancel",
    ]


def test_only_features_of_changed_crates_are_chosen() -> None:
    [check] = [check for check in quick.checks(sys.executable) if check.name == "rust"]
    assert "--features" not in check.command(["core/protocol/src/lib.rs"])
    chosen = check.command(["core/protocol/src/lib.rs", "core/client/src/lib.rs"])
    assert chosen[chosen.index("--features") + 1] == "kimi-agent-client/mcp,kimi-agent-client/testing"


def test_every_crate_of_the_core_is_known_to_quick() -> None:
    assert sorted(quick.CRATES) == sorted(path.parent.name for path in (ROOT / "core").glob("*/Cargo.toml"))
