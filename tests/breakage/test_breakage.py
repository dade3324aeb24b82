"""What breaks the core must itself notice a patch that breaks nothing, or does not fit any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import run
from harness import play
from harness.runners import Outcome
from harness.scenario import Scenario

SOURCE = "core/src/rules.rs"
RULES = "fn one() -> u8 {\n    1\n}\n"
HEAD = "Breaks: The first rule.\nScenarios: first second_*\n\n"


def diff(old: str, new: str, file: str = SOURCE) -> str:
    return f"--- a/{file}\n+++ b/{file}\n@@ -1,3 +1,3 @@\n fn one() -> u8 {{\n-    {old}\n+    {new}\n }}\n"


@pytest.fixture
def copy(tmp_path: Path) -> run.Copy:
    """A repository with one source, and a copy of it inside, as the real one has it."""
    source = tmp_path / SOURCE
    source.parent.mkdir(parents=True)
    source.write_text(RULES, "utf-8")
    (tmp_path / ".gitignore").write_text("/.cache\n", "utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    made = run.Copy(tmp_path, tmp_path / ".cache/tree")
    made.update()
    return made


def patch(folder: Path, text: str) -> run.Patch:
    path = folder / "broken.patch"
    path.write_text(text, "utf-8")
    return run.read(path)


def scenario(name: str) -> Scenario:
    return Scenario(Path(f"{name}.json"), {"name": name, "agent": {"script": []}, "program": [], "expect": []})


def test_a_patch_is_read(tmp_path: Path) -> None:
    read = patch(tmp_path, HEAD + diff("1", "2"))
    assert (read.name, read.breaks) == ("broken", "The first rule.")
    assert (read.patterns, read.files) == (("first", "second_*"), (SOURCE,))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (HEAD, "no unified diff"),
        (diff("1", "2"), "`Breaks: …`"),
        ("Breaks: A rule.\n\n" + diff("1", "2"), "`Scenarios: …`"),
        (HEAD + diff("1", "2", "tests/run_scenarios.py"), "a patch breaks the core"),
    ],
)
def test_a_file_that_is_no_patch_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(run.Failure, match=complaint):
        patch(tmp_path, text)


def test_the_scenarios_are_those_that_it_names(tmp_path: Path) -> None:
    read = patch(tmp_path, HEAD + diff("1", "2"))
    several = [scenario(name) for name in ("first", "first_again", "second_a", "second_b")]
    assert [one.name for one in run.named(read, several)] == ["first", "second_a", "second_b"]
    with pytest.raises(run.Failure, match=r"names the scenario second_\*, which is not there"):
        run.named(read, several[:2])


def test_a_patch_is_applied_and_taken_back(copy: run.Copy) -> None:
    read = patch(copy.root, HEAD + diff("1", "2"))
    copy.apply(read)
    assert (copy.tree / SOURCE).read_text("utf-8") == RULES.replace("1", "2")
    assert (copy.root / SOURCE).read_text("utf-8") == RULES
    copy.restore(read.files)
    assert (copy.tree / SOURCE).read_text("utf-8") == RULES


def test_a_patch_that_does_not_apply_is_to_be_refreshed(copy: run.Copy) -> None:
    with pytest.raises(run.Failure, match=r"refresh it: broken\.patch does not apply"):
        copy.apply(patch(copy.root, HEAD + diff("3", "2")))


def test_a_patch_that_changes_nothing_is_reported(copy: run.Copy) -> None:
    with pytest.raises(run.Failure, match=r"broken\.patch changes nothing"):
        copy.apply(patch(copy.root, HEAD + diff("1", "1")))


def test_a_patch_that_does_not_compile_is_to_be_refreshed_and_taken_back(copy: run.Copy) -> None:
    class Uncompilable(run.Packages):
        def build(self) -> None:
            assert (self.tree / SOURCE).read_text("utf-8") != RULES
            raise run.Failure("the sources do not compile")

    packages = Uncompilable(copy.tree, copy.tree / "target")
    with pytest.raises(run.Failure, match=r"refresh it: with broken\.patch, the sources do not compile"):
        run.check(patch(copy.root, HEAD + diff("1", "2")), copy, packages, [])
    assert (copy.tree / SOURCE).read_text("utf-8") == RULES


def test_the_copy_is_brought_up_to_date_without_touching_what_is_the_same(copy: run.Copy) -> None:
    kept, gone, built = copy.tree / SOURCE, copy.tree / "core/src/gone.rs", copy.tree / "addon.node"
    os.utime(kept, ns=(1, 1))
    gone.write_text("", "utf-8")
    built.write_text("", "utf-8")
    copy.update()
    assert kept.stat().st_mtime_ns == 1
    assert not gone.exists()
    assert built.exists()


def test_what_stays_green_in_one_language_is_a_complaint() -> None:
    reds = {"rust": ["first"], "python": ["first"], "node": []}
    complaint = run.unnoticed(reds)
    assert complaint is not None
    assert complaint.startswith("stays green in node:")
    assert run.told(reds) == "red in rust: first; red in python: first; red in node: none"
    assert run.unnoticed({"rust": ["first"], "node": ["first"]}) is None
    assert run.told({"rust": ["first"], "node": ["first"]}) == "red in rust, node: first"


def test_each_language_is_judged_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def played(scenarios: list[Scenario], commands: dict[str, list[str]], *_: object) -> list[play.Play]:
        right, wrong = Outcome(), Outcome(lines=[{"op": "open", "ok": True}])
        return [play.Play(one, outcomes={"rust": right, "node": wrong}) for one in scenarios]

    monkeypatch.setattr(run.play, "play_scripted", played)
    assert run.red([scenario("first")], {"rust": [], "node": []}) == {"rust": [], "node": ["first"]}


def test_the_copy_has_a_place_of_its_own_where_cargo_would_take_its_crates_for_those_of_the_tree(
    tmp_path: Path,
) -> None:
    assert run.shares_dependencies(run.ROOT, {})
    assert not run.shares_dependencies(run.ROOT, {"CARGO_PROFILE_DEV_DEBUG": "0"})
    config = (run.ROOT / ".cargo/config.toml").read_text("utf-8")
    (tmp_path / ".cargo").mkdir()
    (tmp_path / ".cargo/config.toml").write_text(config.replace('"line-tables-only"', "0"), "utf-8")
    assert not run.shares_dependencies(tmp_path, {})
