"""The check of workflows notices names that the repository does not have."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from check_workflows import check  # noqa: E402

FILES = (
    "Makefile",
    "bindings-node/package.json",
    "core/protocol/Cargo.toml",
    "tools/cross/cross.py",
    "tools/cross/targets.py",
    "tools/publish.sh",
)
WORKFLOW = """
jobs:
  nightly:
    strategy:
      matrix:
        targets: [test-new-cases, test-rust test-node]
    steps:
      - run: make $WANTED
        env:
          WANTED: ${{ matrix.targets }}
  release:
    strategy:
      matrix:
        include:
          - system: x86_64-apple-darwin
    steps:
      - run: make test-python PYTHONS=--all && cargo test --locked -p kimi-agent-protocol
      - run: npm run build:debug
        working-directory: bindings-node
      - run: |
          # make comment
          python tools/cross/cross.py --only build \\
            --out dist "${{ matrix.system }}"
      - run: tools/publish.sh dist/packages
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one workflow."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    recipe = "\t@$(MAKE) test-new-cases\n\t@$(MAKE) test-python PYTHONS=--all\n"
    makefile = "".join(f"{target}:\n" for target in ("test-new-cases", "test-rust", "test-node", "test-python"))
    (tmp_path / "Makefile").write_text(f"{makefile}\t@echo $(TARGETS)\n\ntest-nightly: build\n{recipe}\n", "utf-8")
    write(tmp_path, WORKFLOW)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def write(tree: Path, text: str) -> None:
    file = tree / ".github" / "workflows" / "ci.yml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


def test_workflows_of_this_tree_are_right() -> None:
    assert check() == []


def test_known_names_bring_no_complaint(tree: Path) -> None:
    assert check(tree) == []


def test_variable_of_makefile_is_reported(tree: Path) -> None:
    write(tree, WORKFLOW.replace("WANTED", "TARGETS"))
    assert check(tree) == ["ci.yml, nightly: make would take the variable TARGETS"]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("test-node]", "test-nodes]", "ci.yml, nightly: make test-nodes: no such target"),
        ("&& cargo", "&& make test-pythons; cargo", "ci.yml, release: make test-pythons: no such target"),
        ("-p kimi-agent-protocol", "-p kimi-agents", "ci.yml, release: cargo -p kimi-agents: no such package"),
        ("build:debug", "build:fast", "ci.yml, release: npm run build:fast: no such script"),
        ("x86_64-apple-darwin", "x86_64-apple", "ci.yml, release: cross.py x86_64-apple: no such target"),
        ("cross/cross.py", "cross/gone.py", "ci.yml, release: tools/cross/gone.py: no such file"),
        ("tools/publish.sh", "tools/gone.sh", "ci.yml, release: tools/gone.sh: no such file"),
        ("tools/publish.sh", "tools/cross/targets.py", "ci.yml, release: tools/cross/targets.py is not executable"),
        ("[test-new-cases,", "[test-rust,", "no workflow runs test-new-cases of make test-nightly"),
        (
            "    steps:\n      - run: make $WANTED",
            "    uses: ./.github/gone.yml\n    steps:\n      - run: make $WANTED",
            "ci.yml, nightly: ./.github/gone.yml: no such file",
        ),
    ],
)
def test_unknown_name_is_reported(tree: Path, old: str, new: str, complaint: str) -> None:
    assert old in WORKFLOW
    write(tree, WORKFLOW.replace(old, new))
    assert check(tree) == [complaint]
