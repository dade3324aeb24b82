"""tools/publish.sh: the order of publication, what it refuses, and a second attempt after a failure."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import registry_clients  # noqa: E402
import release  # noqa: E402

FILES = ("Cargo.toml", "Makefile", "tools/publish.sh", "tools/release.py", ".gitignore", release.PLATFORMS)
VERSION = release.current(ROOT)
SDIST = f"kimi_agent-{VERSION}.tar.gz"
# Lines of the registry.
CRATES = [f"cargo {name}" for name in release.crates(ROOT)]


class Tree:
    """A fresh clone of what publish.sh reads, with the packages of a release and empty registries."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "clone"
        self.dist = self.root / "dist"
        self.registry = folder / "registry"
        self.registry.touch()
        for name in FILES:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        (self.root / "core" / "command").mkdir(parents=True)
        (self.root / "core" / "command" / "build.rs").touch()
        git = ["git", "-c", "user.name=Tests", "-c", "user.email=tests@example.org"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Add all"]):
            subprocess.run([*git, *command], cwd=self.root, check=True)
        self.add_packages()
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name in ("npm", "uv", "cargo"):
            program = self.programs / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{registry_clients.__file__}" {name} "$@"\n')
            program.chmod(0o755)

    def add_packages(self) -> None:
        """Writes the packages of a release. The clone has no page of the inspector; the crate has it."""
        self.dist.mkdir()
        for complaint in release.packages(self.root, self.dist):
            name = complaint.removesuffix(" is missing").replace("*", "")
            content = b""
            if name.endswith(".tgz"):
                base = name.removesuffix(f"-{VERSION}.tgz")
                full = base if base == "kimi-agent" else base.replace("kimi-agent-", "@kimi-agent/", 1)
                content = registry_clients.archive("package/package.json", json.dumps({"name": full}))
            elif name.endswith(".crate"):
                crate = name.removesuffix(f"-{VERSION}.crate")
                text = "<the page>" if crate == "kimi-agent-command" else crate
                content = registry_clients.archive(f"{crate}-{VERSION}/inspector.html", text)
            else:
                (self.dist / f"{name}.publish.attestation").touch()
            (self.dist / name).write_bytes(content)

    def publish(self, what: str, failing: str = "") -> subprocess.CompletedProcess[str]:
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "REGISTRY": str(self.registry), "VERSION": VERSION, "FAILING": failing}
        command = ["tools/publish.sh", what, "dist"]
        return subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True, check=False)

    def published(self) -> list[str]:
        return self.registry.read_text("utf-8").splitlines()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_publication_begins_with_what_others_need(tree: Tree) -> None:
    for what in ("packages", "crates"):
        outcome = tree.publish(what)
        assert outcome.returncode == 0, outcome.stderr
    published = tree.published()
    systems = [line for line in published if line.startswith("npm @kimi-agent/")]
    assert len(systems) == 8
    assert published[:9] == [*systems, "npm kimi-agent"]
    wheels = sorted(path.name for path in tree.dist.glob("*.whl"))
    assert published[9:] == [*(f"uv {name}" for name in [*wheels, SDIST]), *CRATES]
    assert (tree.root / "core" / "command" / "inspector.html").read_text("utf-8") == "<the page>"


@pytest.mark.parametrize("failing", ["npm @kimi-agent/linux-arm64-gnu", "npm kimi-agent", f"uv {SDIST}"])
def test_second_attempt_publishes_only_the_packages_that_are_missing(tree: Tree, failing: str) -> None:
    assert tree.publish("packages", failing).returncode != 0
    before = tree.published()
    assert before
    assert failing not in before
    outcome = tree.publish("packages")
    assert outcome.returncode == 0, outcome.stderr
    assert tree.published()[: len(before)] == before
    assert len(tree.published()) == 18


@pytest.mark.parametrize("failing", [CRATES[1], CRATES[-2], CRATES[-1]])
def test_second_attempt_publishes_only_the_crates_that_are_missing(tree: Tree, failing: str) -> None:
    assert tree.publish("crates", failing).returncode != 0
    assert tree.published() == CRATES[: CRATES.index(failing)]
    outcome = tree.publish("crates")
    assert outcome.returncode == 0, outcome.stderr
    assert tree.published() == CRATES
    again = tree.publish("crates")
    assert again.returncode == 0
    assert again.stdout.splitlines() == [f"{line.split()[1]} {VERSION} is there" for line in CRATES]


def test_missing_package_publishes_nothing(tree: Tree) -> None:
    (tree.dist / SDIST).unlink()
    outcome = tree.publish("packages")
    assert outcome.returncode != 0
    assert f"{SDIST} is missing" in outcome.stderr
    assert tree.published() == []


def test_changed_tree_publishes_nothing(tree: Tree) -> None:
    (tree.root / "core" / "command" / "build.rs").write_text("// A change.\n", "utf-8")
    outcome = tree.publish("packages")
    assert outcome.returncode != 0
    assert "core/command/build.rs" in outcome.stdout + outcome.stderr
    assert tree.published() == []


def test_crate_that_differs_from_the_tried_one_publishes_nothing(tree: Tree) -> None:
    changed = tree.dist / f"kimi-agent-protocol-{VERSION}.crate"
    changed.write_bytes(registry_clients.archive("other", "other"))
    outcome = tree.publish("packages")
    assert outcome.returncode != 0
    assert changed.name in outcome.stdout
    assert tree.published() == []
