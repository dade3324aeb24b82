"""The runner of the documents notices problems in them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import facts
from blocks import Mistake, read, with_preamble
from languages import Failure, Workshop
from run import sort, try_unit, units

FENCE = "```"


def written(place: Path, *lines: str) -> Path:
    path = place / "page.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def fenced(info: str, *code: str) -> list[str]:
    return [f"{FENCE}{info}", *code, FENCE]


def test_blocks_have_comments_before_them(tmp_path: Path) -> None:
    page = written(tmp_path, "<!-- setup: session -->", "<!-- agent: x -->", *fenced("python", "a", "", "b"), "end")
    (block,) = read(page, tmp_path)
    assert (block.place, block.language, block.code) == ("page.md:3", "python", "a\n\nb\n")
    assert block.directives == {"setup": "session", "agent": "x"}


def test_longer_fence_holds_shorter_ones(tmp_path: Path) -> None:
    page = written(tmp_path, "````markdown", *fenced("python", "x"), "````", "", *fenced("js", "y"))
    assert [block.language for block in read(page, tmp_path)] == ["markdown", "js"]


def test_blocks_in_tabs_lose_their_indentation(tmp_path: Path) -> None:
    tab = [f"    {line}" for line in ["<!-- setup: session -->", *fenced('python title="main.py"', "if a:", "    b")]]
    page = written(
        tmp_path, '=== "Python"', "", *tab, "", '=== "Rust"', "", f"    {FENCE}rust", "    c", f"    {FENCE}"
    )
    python, rust = read(page, tmp_path)
    assert (python.language, python.code, python.directives) == ("python", "if a:\n    b\n", {"setup": "session"})
    assert (rust.language, rust.code) == ("rust", "c\n")


def test_await_using_is_refused(tmp_path: Path) -> None:
    (block,) = read(written(tmp_path, *fenced("ts", "await using session = await createSession();")), tmp_path)
    with pytest.raises(Mistake, match="needs Node 24"):
        Workshop(tmp_path).command(block, tmp_path)


def test_blocks_of_project_share_directory(tmp_path: Path) -> None:
    page = written(
        tmp_path,
        *("<!-- project: a b -->", *fenced('json title="x.json"', "[]")),
        *("<!-- project: a -->", "<!-- run -->", *fenced("sh", "cat x.json; mv x.json y.json")),
        *("<!-- project: a -->", "<!-- fails: no x -->", *fenced("sh", "cat x.json || { echo no x; false; }")),
        *("<!-- project: b -->", "<!-- run -->", *fenced("sh", "cat y.json")),
        *("<!-- project: b -->", "<!-- run -->", *fenced("sh", "true")),
        *("<!-- run -->", *fenced("sh", "true")),
    )
    blocks = read(page, tmp_path)
    first, second, alone = units(blocks)
    assert alone == blocks[-1:]
    workshop = Workshop(tmp_path / "scratch")
    (tmp_path / "scratch").mkdir()
    workshop.prepare([])
    assert [problem for _, problem in try_unit(workshop, first, {blocks[1].place: "[]"})] == ["", "", ""]
    # The block after a failure is left out.
    assert ["exit code 1" in problem for _, problem in try_unit(workshop, second, {})] == [False, True]


@pytest.mark.parametrize(("code", "problem"), [("true", "exit code 0"), ("echo other; false", "without the text")])
def test_command_that_should_fail_is_checked(code: str, problem: str, tmp_path: Path) -> None:
    page = written(tmp_path, "<!-- project: a -->", "<!-- fails: this -->", *fenced("sh", code))
    (tmp_path / "scratch").mkdir()
    workshop = Workshop(tmp_path / "scratch")
    workshop.prepare([])
    [(_, found)] = try_unit(workshop, read(page, tmp_path), {})
    assert problem in found


@pytest.mark.parametrize(
    "lines",
    [["<!-- stup: x -->", *fenced("python")], ["<!-- skip: why -->", "words", *fenced("python")], [f"{FENCE}js", "x"]],
)
def test_invalid_page_is_refused(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(Mistake):
        read(written(tmp_path, *lines), tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        fenced("yaml", "a"),
        fenced("", "a"),
        fenced("sh", "ls"),
        ["<!-- skip -->", *fenced("python", "a")],
        ["<!-- project: a -->", *fenced("python", "a")],
    ],
)
def test_block_without_runner_is_refused(tmp_path: Path, lines: list[str]) -> None:
    run, skipped, mistakes = sort(read(written(tmp_path, *lines), tmp_path))
    assert (run, skipped, len(mistakes)) == ([], [], 1)


def test_sections_of_errors_match_codes() -> None:
    bullets = ["- **Cause:** a", "- **Check:** b", "- **Remedy:** c", ""]
    page = "\n".join(["# Errors", "", "## timeout", "", *bullets, "## made_up", "", *bullets[1:]])
    assert facts._sections(page, {"timeout"})[1] == [
        "the section `made_up` is of no code",
        "the section `made_up` has ['Check', 'Remedy']; expected Cause, Check and Remedy",
    ]
    assert facts._sections(page, {"timeout", "made_up", "other"})[1][0] == "there is no section `other`"


def test_preamble_indents_block(tmp_path: Path) -> None:
    preamble = tmp_path / "p.py"
    preamble.write_text("def f():\n    # the block\n\nf()\n")
    (block,) = read(written(tmp_path, *fenced("python", "if x:", "    y")), tmp_path)
    assert with_preamble(block, preamble) == "def f():\n    if x:\n        y\n\nf()\n"


@pytest.mark.parametrize(
    ("language", "code", "reason"),
    [
        ("python", "assert False", "AssertionError"),
        ("js", "throw new Error('no')", "Error: no"),
        ("sh", "false", "exit code 1"),
        ("json", "{", "no JSON"),
        ("json", '[[{"txt": 1}]]', 'unknown action "txt"'),
    ],
)
def test_failing_block_is_reported(tmp_path: Path, language: str, code: str, reason: str) -> None:
    (block,) = read(written(tmp_path, *fenced(language, code)), tmp_path)
    workshop = Workshop(tmp_path)
    workshop.prepare([block])
    with pytest.raises(Failure, match=reason):
        workshop.run(block)


def test_wrong_facts_are_reported() -> None:
    root = Path(__file__).resolve().parents[2]
    page = root / ".cache" / "page.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text("[a](no.md) [b](#no) `make nothing` `core/client/src/no.rs` [c](#c)\n\n# C\n")
    try:
        _, found = facts.mistakes([page], root)
    finally:
        page.unlink()
    assert len(found) == 4
