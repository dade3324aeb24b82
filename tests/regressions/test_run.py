"""The defects can be put back, and wrong calls are refused in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import copy_of_tree
import run
import table
from proofs import Proof, Refused

PATCH = "--- a/file.txt\n+++ b/file.txt\n@@ -1 +1 @@\n-good\n+bad\n"
TEST = {"pytest": "test_file.py", "name": "test_file_is_good"}


def git(folder: Path, *arguments: str) -> None:
    name = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *name, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one file and its test, as the copy."""
    git(tmp_path, "init", "-q")
    (tmp_path / "file.txt").write_text("good\n")
    (tmp_path / "test_file.py").write_text(
        "from pathlib import Path\n\n"
        "def test_file_is_good(): assert Path('file.txt').read_text() == 'good\\n'\n"
        "def test_file_exists(): assert Path('file.txt').exists()\n"
        "def test_never(): assert False\n"
    )
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "First")
    monkeypatch.setattr(copy_of_tree.Copy, "take_native_files", lambda _: None)
    return tmp_path


def verdict(tree: Path, monkeypatch: pytest.MonkeyPatch, patch: str, name: str) -> list[str]:
    """Plays one defect, and returns those that were not noticed."""
    folder = tree / "patches"
    folder.mkdir()
    (folder / "one.patch").write_text(patch)
    monkeypatch.setattr(table, "HERE", folder)
    proof = Proof.of({**TEST, "name": name})
    defect = table.Defect("one", "area", "0000000", "It is bad.", "test-rust", proof)
    return run.play([defect], copy_of_tree.Copy(tree, "HEAD"))


def test_all_patches_apply_and_all_tests_exist() -> None:
    defects = table.load()
    assert len(defects) >= 44
    assert table.mistakes(defects) == []


def test_all_areas_have_defects() -> None:
    areas = {defect.area.split()[0] for defect in table.load()}
    assert {"dialect", "connection", "endpoint", "driver", "batches", "recording", "telemetry", "structured"} <= areas
    assert {"command", "Python", "Node", "pytest", "inspector", "docs", "tools", "policy"} <= areas


def test_noticed_defect_passes(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(tree, monkeypatch, PATCH, "test_file_is_good") == []
    assert (tree / "file.txt").read_text() == "good\n"


@pytest.mark.parametrize(
    ("patch", "name", "said"),
    [
        (PATCH, "test_file_exists", "passes with the defect; write a test"),
        (PATCH, "test_never", "the test fails without the defect, too"),
        (PATCH.replace("good", "gone"), "test_file_is_good", "the patch does not apply"),
        (
            "--- a/test_file.py\n+++ b/test_file.py\n@@ -1,2 +1,2 @@\n-from pathlib import Path\n+from\n \n",
            "test_file_is_good",
            "failed for another reason",
        ),
    ],
)
def test_defect_that_nothing_notices_fails(
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    patch: str,
    name: str,
    said: str,
) -> None:
    assert verdict(tree, monkeypatch, patch, name) == ["one"]
    assert said in capsys.readouterr().out
    assert (tree / "file.txt").read_text() == "good\n"


def test_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--only", "no_such_defect", "--check"]) == 2
    err = capsys.readouterr().err
    assert err == "regressions: there is no defect `no_such_defect`; tests/regressions/run.py --list shows all names\n"


def test_changes_are_refused(tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(copy_of_tree, "ROOT", tree)
    (tree / "file.txt").write_text("changed\n")
    assert run.main([]) == 2
    expected = "regressions: commit or stash file.txt first, because defects are put into the last commit\n"
    assert capsys.readouterr().err == expected


def test_missing_build_is_refused(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(copy_of_tree, "ROOT", tree)
    monkeypatch.setattr(copy_of_tree, "CACHE", tree / ".cache")
    assert run.main([]) == 2
    assert capsys.readouterr().err.startswith("regressions: the packages are not built here; run `make ")


def test_missing_program_is_refused(tree: Path) -> None:
    with pytest.raises(Refused, match="no-such-program is not on PATH"):
        copy_of_tree.Copy(tree, "HEAD").run(["no-such-program"])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("[", "table.json is not JSON"),
        (json.dumps([{"name": "x"}]), "has the keys name; expected name, area"),
        (json.dumps([dict.fromkeys(table.KEYS, "x") | {"test": {"unknown": "x", "name": "y"}}]), "a test is"),
    ],
)
def test_malformed_table_is_refused(tmp_path: Path, rows: str, said: str) -> None:
    (tmp_path / "table.json").write_text(rows)
    with pytest.raises(Refused, match=said):
        table.load(tmp_path / "table.json")
