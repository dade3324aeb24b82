"""tools/run_workflow.py: it runs steps as GitHub does, and names each job and step that cannot run here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import run_workflow  # noqa: E402

WORKFLOW = """
jobs:
  build:
    strategy:
      matrix:
        word: [one, two]
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@0 # v0
      - run: echo "VALUE=$WORD" >> "$GITHUB_ENV"
        env:
          WORD: ${{ matrix.word }}
      - run: cp committed "$VALUE.txt"
      - run: rm one.txt
        if: matrix.word == 'two'
      - uses: actions/upload-artifact@0
        with:
          name: made-${{ matrix.word }}
          path: "*.txt"
      - run: gh release create "$GITHUB_REF_NAME"
      - uses: actions/attest@0
      - run: echo "${{ steps.other.outputs.token }}"
  join:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@0
      - uses: actions/download-artifact@0
        with:
          pattern: made-*
          path: dist
      - run: cat dist/one.txt dist/two.txt | grep committed
      - run: "false; true"
      - run: exit 7
  far:
    runs-on: plan9
    steps: []
  inside:
    runs-on: ubuntu-24.04
    container: alpine:3.22
    steps: []
"""


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, one workflow, and a file that is not committed."""
    root = tmp_path / "repository"
    workflows = root / ".github" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "ci.yml").write_text(WORKFLOW, "utf-8")
    (root / "committed").write_text("committed\n", "utf-8")
    git = ["git", "-c", "user.name=Tests", "-c", "user.email=tests@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Add all"]):
        subprocess.run([*git, *command], cwd=root, check=True)
    (root / "other.txt").touch()
    monkeypatch.setattr(run_workflow, "ROOT", root)
    monkeypatch.setattr(run_workflow, "WORKFLOWS", workflows)
    monkeypatch.setattr(run_workflow, "RUNNERS", {run_workflow.HERE: r"ubuntu-[\d.]+"})
    return root


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["run_workflow.py", *arguments])
    return run_workflow.main()


def test_jobs_hand_over_artifacts_and_end_at_the_step_that_fails(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    artifacts = repository / "artifacts"
    options = ("--artifacts", str(artifacts))
    # Its last `if` is false for this value.
    assert run(monkeypatch, "ci.yml", "build", "--only", "word=one", *options) == 0
    said = capfd.readouterr().out
    assert [path.name for path in (artifacts / "made-one").iterdir()] == ["one.txt"]
    assert "not run: its condition is false: matrix.word == 'two'" in said
    assert "not run: it publishes or signs: gh release create '$GITHUB_REF_NAME'" in said
    assert "not run: nothing here stands for the action actions/attest" in said
    assert "not run: the value of ${{ steps.other.outputs.token }} is not known" in said
    (artifacts / "made-two").mkdir()
    (artifacts / "made-two" / "two.txt").touch()
    assert run(monkeypatch, "ci.yml", "join", *options) == 1
    said = capfd.readouterr().out
    assert "- exit 7" not in said
    assert said.rstrip().endswith("- false; true\n  FAILED")


def test_step_that_fails_in_one_combination_fails_the_job(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "ci.yml", "build", "--artifacts", str(repository / "artifacts")) == 1
    assert "=== ci.yml build word=two" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("job", "reason"),
    [("far", "it needs the runner plan9"), ("inside", "it needs the container alpine:3.22")],
)
def test_job_of_another_system_is_not_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], job: str, reason: str
) -> None:
    assert run(monkeypatch, "ci.yml", job) == 0
    assert f"not run: {reason}" in capfd.readouterr().out
