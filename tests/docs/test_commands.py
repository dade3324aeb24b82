"""README.md names the two commands for a clone, and tells the truth about what they need, do and take."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import find_python  # noqa: E402
from package_readmes import PACKAGES, of_package  # noqa: E402

HEADING = "## Working on the SDK"
COMMANDS = ["make demo", "make test"]
# What check_tools.sh runs says with its exit code whether the version suffices.
GOOD = "#!/bin/sh\nexit 0\n"
OLD = "#!/bin/sh\nexit 1\n"


def text(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def section() -> str:
    return text("README.md").split(f"\n{HEADING}\n")[1].split("\n## ")[0]


def rows() -> dict[str, dict[str, str]]:
    """The table, by command."""
    lines = [line for line in section().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names, _, *body = cells
    return {row[0].strip("`"): dict(zip(names, row, strict=True)) for row in body}


def explanation(target: str) -> str:
    """What `make help` says of a target."""
    found = re.search(rf"^{target}:.*## (.*)$", text("Makefile"), re.MULTILINE)
    assert found, f"there is no target {target} with an explanation"
    return found[1]


def check(tools: Path, python: str) -> subprocess.CompletedProcess[str]:
    """tools/check_tools.sh with the programs of a folder only."""
    command = ["/bin/bash", str(ROOT / "tools/check_tools.sh"), python]
    return subprocess.run(command, env={"PATH": str(tools)}, capture_output=True, text=True, check=False)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    for name in ("cargo", "node", "npm", "python3"):
        (tmp_path / name).write_text(GOOD)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def test_readme_names_both_commands() -> None:
    assert list(rows()) == COMMANDS
    for row in rows().values():
        assert list(row) == ["command", "needs", "does", "takes"]
        assert all(row.values())


def test_section_is_in_no_readme_of_a_package() -> None:
    for package in PACKAGES:
        assert HEADING not in of_package(text("README.md"), package)


def test_versions_are_those_of_the_packages() -> None:
    python = re.search(r'^requires-python = ">=([0-9.]+)"', text("bindings-python/pyproject.toml"), re.MULTILINE)
    node = json.loads(text("bindings-node/package.json"))["engines"]["node"].removeprefix(">=")
    make = re.search(r"needs GNU make ([0-9.]+) or later", text("Makefile"))
    assert python
    assert make
    assert python[1] == ".".join(map(str, find_python.OLDEST))
    for page in (section(), text("CONTRIBUTING.md")):
        needs = " ".join(page.split())
        for need in (
            f"Python {python[1]} or later with venv",
            f"Node {node} or later with npm",
            f"GNU make {make[1]} or",
        ):
            assert need in needs


def test_tools_that_are_there_suffice(tools: Path) -> None:
    assert (check(tools, "python3").returncode, check(tools, "python3").stderr) == (0, "")


@pytest.mark.parametrize(("tool", "said"), [("cargo", "Rust (stable)"), ("node", "Node 20 or later"), ("npm", "npm")])
def test_missing_tool_is_named_as_in_the_readme(tools: Path, tool: str, said: str) -> None:
    (tools / tool).unlink()
    found = check(tools, "python3")
    assert found.returncode == 1
    assert [line for line in found.stderr.splitlines() if line.startswith(f"missing: {said}")]
    assert len(found.stderr.splitlines()) == 1
    assert said in " ".join(section().split())


@pytest.mark.parametrize(("tool", "said"), [("node", "Node 20 or later"), ("python3", "Python 3.10 or later")])
def test_old_tool_is_named_as_in_the_readme(tools: Path, tool: str, said: str) -> None:
    (tools / tool).write_text(OLD)
    found = check(tools, "python3")
    assert found.returncode == 1
    assert found.stderr.startswith(f"missing: {said}")
    assert len(found.stderr.splitlines()) == 1
    assert said in " ".join(section().split())


def test_demo_runs_the_three_languages_with_the_scripted_agent() -> None:
    does = rows()["make demo"]["does"]
    languages = re.findall(r"^run (\w+) ", text("tools/demo.sh"), re.MULTILINE)
    assert languages == ["Python", "Node", "Rust"]
    assert "Python, Node and Rust" in does
    assert "scripted agent" in does
    for program in ("demo/demo.py", "demo/demo.mjs", "core/kimi-agent/examples/demo.rs"):
        assert re.search(r"scripted_?agent", text(program), re.IGNORECASE), program


@pytest.mark.parametrize(
    ("part", "target"),
    [
        ("unit tests", "test-rust"),
        ("unit tests", "test-python"),
        ("unit tests", "test-node"),
        ("scenarios in all languages", "test-scenarios"),
        ("faults", "test-faults"),
        ("attacks", "test-attacks"),
        ("every code block of the documents", "test-docs"),
    ],
)
def test_proof_contains_what_the_readme_says(part: str, target: str) -> None:
    assert part in rows()["make test"]["does"]
    tests = re.search(r"^TESTS := (.*)$", text("Makefile"), re.MULTILINE)
    assert tests
    assert target in tests[1].split()
    assert re.search(r"^test:.*\n\t@.*tools/proof.py \$\(TESTS\)", text("Makefile"), re.MULTILINE)


def test_proof_takes_the_same_time_in_all_places() -> None:
    takes = rows()["make test"]["takes"]
    assert re.fullmatch(r"about [0-9]+ minutes on two cores", takes)
    assert takes in explanation("test").lower()
    assert takes in next(line for line in text("CONTRIBUTING.md").splitlines() if line.startswith("make test "))
