"""Policies without an agent: hostile calls, files, errors and warnings."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from kimi_agent import InvalidOption, Policy, PolicyVerdict, ToolCallInfo

HOSTILE: dict[str, Any] = json.loads((Path(__file__).parents[2] / "tests/policy/hostile.json").read_text("utf-8"))


def test_hostile_calls_get_their_decisions(tmp_path: Path) -> None:
    for file in HOSTILE["files"]:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    calls = HOSTILE["calls"]
    on_windows = sys.platform == "win32"
    try:
        for link, target in HOSTILE["links"].items():
            (tmp_path / link).symlink_to(target)
    except OSError:
        # On Windows not every user may make links.
        assert on_windows
        calls = [call for call in calls if not any(link in json.dumps(call) for link in HOSTILE["links"])]
    policy = Policy(HOSTILE["policy"])

    def is_wrong(call: dict[str, Any]) -> bool:
        decision = policy.check(call, tmp_path).decision
        # On Windows no rule knows the shell of a command.
        has_path = call.get("arguments", {}).get("path") is not None
        return decision != call["expect"] and not (on_windows and not has_path and decision != "allow")

    assert [call for call in [*calls, *(HOSTILE["windows"] if on_windows else [])] if is_wrong(call)] == []
    assert len(HOSTILE["calls"]) >= 200


def test_attacks_are_refused(tmp_path: Path) -> None:
    attacks = json.loads((Path(__file__).parents[2] / "tests/policy/attacks.json").read_text("utf-8"))
    # The folder above has nothing else.
    work_dir = tmp_path / "above" / "work"
    for file in HOSTILE["files"]:
        (work_dir / file).parent.mkdir(parents=True, exist_ok=True)
        (work_dir / file).touch()
    if sys.platform != "win32":
        for link, target in HOSTILE["links"].items():
            (work_dir / link).symlink_to(target)
    wrong = []
    for group in attacks["groups"]:
        if "links" in group and sys.platform == "win32":
            continue
        policy = Policy(group["policy"])
        # The tests of the core play all of them: a binding only translates.
        for call in group["calls"][::10]:
            verdict = policy.check(call, work_dir)
            # On Windows no rule knows the shell of a command.
            refused = call["expect"] == "refuse" or (sys.platform == "win32" and call["expect"] != "allow")
            is_right = verdict.decision != "allow" if refused else verdict.decision == call["expect"]
            if not is_right and not (sys.platform == "win32" and call["expect"] == "allow"):
                wrong.append((call, verdict))
    assert wrong == []


def test_check_agrees_with_all_ways_of_deciding(tmp_path: Path) -> None:
    """The test of the Node package plays this table through sessions, a batch and the command, too."""
    table = json.loads((Path(__file__).parents[2] / "tests/policy/agreement.json").read_text("utf-8"))
    for file in table["files"]:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    policy = Policy(table["policy"])
    found = [{**call, "expect": policy.check(call, tmp_path).decision} for call in table["calls"]]
    if sys.platform == "win32":
        # No rule knows the shell of a command there.
        assert [call for call in found if call["name"] == "Shell" and call["expect"] == "allow"] == []
    else:
        assert found == table["calls"]


def test_preset_lists_its_rules_and_can_be_extended() -> None:
    policy = Policy({"extends": "read-only", "allow": ["execute(make test)"]})
    assert {"read(**)", "execute(make test)"} <= set(policy.rules["allow"])
    assert policy.rules["default"] == "ask"
    for command, decision in [("git log", "allow"), ("make test", "allow"), ("git log --output=x", "ask")]:
        assert policy.check({"name": "Shell", "arguments": {"command": command}}).decision == decision
    assert Policy("read-only").rules["allow"] == [*policy.rules["allow"][:-1]]
    with pytest.raises(InvalidOption, match="expected the name of a preset"):
        Policy({"extends": "policy.toml"})


def test_verdict_names_part_and_reason() -> None:
    verdict = Policy({"allow": ["execute(ls)"]}).check({"name": "Shell", "arguments": {"command": "ls; git push"}})
    assert verdict.part == "git push"
    assert "`execute(git push)` would allow it" in verdict.reason


def test_text_of_a_model_cannot_stop_the_program() -> None:
    policy = Policy({"deny": ["execute(rm *)"]})
    for text in (
        "cat <<$(  ",
        "echo hi 2147483648>x",
        "<<EOF;$((()",
        "(" * 16384,
        "xargs " + "(" * 16384,
        "a" * (1 << 20),
    ):
        assert policy.check({"name": "Shell", "arguments": {"command": text}}).decision == "ask"


def test_policy_of_a_file_names_places(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('\ndeny = ["execute(rm *)"]\n', "utf-8")
    call = ToolCallInfo("c1", "Shell", arguments={"command": "rm x"})
    assert Policy.load(path).check(call) == PolicyVerdict("deny", "execute(rm *)", f"{path}:2")


def test_malformed_file_is_an_error(tmp_path: Path) -> None:
    """`tests/policy/malformed.json`, as the other languages play it."""
    table = json.loads((Path(__file__).parents[2] / "tests/policy/malformed.json").read_text("utf-8"))
    for file in table["files"]:
        path = tmp_path / file["name"]
        path.write_bytes(bytes.fromhex(file["hex"]) if "hex" in file else file["repeat"].encode() * file["times"])
        if "error" in file:
            with pytest.raises(InvalidOption, match=re.escape(file["error"])):
                Policy.load(path)
        else:
            Policy.load(path)
    with pytest.raises(InvalidOption, match="cannot be read"):
        Policy.load(tmp_path)


def test_call_of_megabytes_is_decided() -> None:
    table = json.loads((Path(__file__).parents[2] / "tests/policy/malformed.json").read_text("utf-8"))
    policy = Policy(table["policy"])

    def decide(name: str, argument: str, piece: str) -> str:
        text = piece * ((2 << 20) // len(piece.encode()))
        return policy.check({"name": name, "arguments": {argument: text}}, "/").decision

    # The core plays them all.
    calls = table["calls"][::4]
    found = [{**call, "expect": decide(call["name"], call["argument"], call["piece"])} for call in calls]
    assert found == calls


def test_wrong_policy_names_the_rule(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"policy.*deny\[0\]"):
        Policy({"deny": ["execute("]})
    with pytest.raises(InvalidOption, match="expected a mapping"):
        Policy(["read"])  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="cannot be read"):
        Policy.load(tmp_path / "none.toml")
    with pytest.raises(InvalidOption, match="expected a tool call"):
        Policy({}).check({})


def test_warnings_and_repr_tell_about_the_rules() -> None:
    policy = Policy({"deny": ["execute"], "allow": ["execute(ls)"]})
    assert len(policy.warnings) == 1
    assert repr(policy) == "<Policy default=ask deny=1, ask=0, allow=1>"


def test_unknown_preset_is_named_with_the_presets() -> None:
    wrong: Any = "readonly"
    with pytest.raises(InvalidOption, match='there is no preset "readonly"; there are "read-only" and "edit-files"'):
        Policy(wrong)
