"""tools/release.py: the version in all files, and what a release consists of."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import release  # noqa: E402


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of all files that name the version."""
    for name in [*(place[0] for place in release.PLACES), "CHANGELOG.md", "Makefile", release.PLATFORMS]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def test_files_of_this_tree_have_one_version(tree: Path) -> None:
    assert release.check(tree) == []


@pytest.mark.parametrize("name", [place[0] for place in release.PLACES[1:]])
def test_another_version_in_file_is_named(tree: Path, name: str) -> None:
    version = release.current(tree)
    old = f', version = "{version}"' if name == "Cargo.toml" else version
    replace(tree / name, old, old.replace(version, "9.8.7"))
    complaints = release.check(tree)
    assert len(complaints) == 1
    assert complaints[0].startswith(f"{name} has ")
    assert "9.8.7" in complaints[0]


def test_tag_needs_version_and_date_in_changes(tree: Path) -> None:
    version = release.current(tree)
    changes = tree / "CHANGELOG.md"
    changes.write_text(f"## [Unreleased]\n\n## [{version}] - unreleased\n\n- A change.\n", "utf-8")
    assert release.check(tree, f"v{version}") == [f"CHANGELOG.md has no section with a date for {version}"]
    replace(changes, "- unreleased", "- 2026-01-31")
    assert release.check(tree, f"v{version}") == []
    assert release.section(tree, version) == ("2026-01-31", "- A change.")
    assert release.check(tree, "v9.8.7") == [f"the tag is v9.8.7, the version {version}"]


def test_missing_packages_are_named(tree: Path, tmp_path: Path) -> None:
    version = release.current(tree)
    folder = tmp_path / "dist"
    folder.mkdir()
    complaints = release.packages(tree, folder)
    assert f"kimi-agent-linux-x64-gnu-{version}.tgz is missing" in complaints
    assert f"kimi-agent-command-{version}.crate is missing" in complaints
    for complaint in complaints:
        (folder / complaint.removesuffix(" is missing").replace("*", "x")).touch()
    assert release.packages(tree, folder) == []
    (folder / f"kimi-agent-win32-x64-msvc-{version}.tgz").unlink()
    assert release.packages(tree, folder) == [f"kimi-agent-win32-x64-msvc-{version}.tgz is missing"]


def test_crates_are_all_that_cargo_publishes_after_their_dependencies() -> None:
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version=1"]
    described = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    # `publish` is an empty list for a crate that is not published.
    published = {each["name"]: each for each in json.loads(described.stdout)["packages"] if each["publish"] is None}
    names = release.crates(ROOT)
    assert sorted(names) == sorted(published)
    for at, name in enumerate(names):
        needed = {each["name"] for each in published[name]["dependencies"] if each["kind"] != "dev"}
        assert needed.isdisjoint(names[at:]), name
