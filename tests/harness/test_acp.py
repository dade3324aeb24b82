"""The declared differences over ACP: how they change a scenario, and that none is declared in vain."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar

from harness import acp
from harness.scenario import BadScenario, Scenario, load_all

SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios"


def scenario(**changes: Any) -> Scenario:
    data: dict[str, Any] = {
        "name": "one",
        "about": "It does one thing.",
        "agent": {"script": [[{"text": "Hi"}]]},
        "program": [{"op": "open"}],
        "expect": [{"op": "open", "ok": True}],
    }
    return Scenario(Path("one.json"), {**data, **changes})


class Cast(unittest.TestCase):
    NOTHING: ClassVar[acp.Declared] = acp.Declared({}, {})

    def test_the_script_says_which_protocol(self) -> None:
        cast = acp.cast(scenario(options={"yolo": True}), self.NOTHING)
        self.assertEqual(cast.data["agent"]["script"], {"wire": "acp", "turns": [[{"text": "Hi"}]]})
        self.assertEqual(cast.data["options"], {"yolo": True, "dialect": "acp"})

    def test_another_course_takes_the_place_of_the_rules(self) -> None:
        course = {"why": "so", "expect": [{"op": "open", "error": "x"}]}
        cast = acp.cast(scenario(), acp.Declared({}, {"one": course}))
        self.assertEqual(cast.expect, course["expect"])

    def test_a_course_that_is_none_is_refused(self) -> None:
        course = {"why": "so", "expect": [{"op": "open", "ok": True}]}
        with self.assertRaisesRegex(BadScenario, "one takes no other course"):
            acp.cast(scenario(), acp.Declared({}, {"one": course}))

    def test_what_is_left_out_has_a_reason(self) -> None:
        for changes, word in (
            ({"options": {"hooks": []}}, "hooks"),
            ({"program": [{"op": "open", "options": {"config": {}}}]}, "config"),
            ({"program": [{"op": "steer"}]}, "steer"),
            ({"agent": {"script": [[{"parallel": [{"external_tool": {}}]}]]}}, "external_tool"),
            ({"agent": {"script": {"wire": "1.3"}}}, "wire"),
        ):
            self.assertIn(word, acp.reason(scenario(**changes), self.NOTHING) or "", changes)
        self.assertIsNone(acp.reason(scenario(), self.NOTHING))
        self.assertEqual(acp.reason(scenario(), acp.Declared({"on.": "so"}, {})), "so")


class DeclaredDifferences(unittest.TestCase):
    def test_all_of_them_are_needed(self) -> None:
        known, used = acp.declared(), set[str]()
        scenarios = load_all(SCENARIOS)
        acp.chosen(scenarios, known, used)
        self.assertEqual(acp.needless(scenarios, known, used), [])

    def test_what_is_not_needed_is_named(self) -> None:
        course = {"why": "so", "expect": [{"op": "open", "error": "x"}]}
        known = acp.Declared({"nothing.*": "so"}, {"gone": course})
        complaints = "\n".join(acp.needless([scenario()], known, {"turns"}))
        for word in (
            "`nothing.*` leaves out nothing",
            "gone is not played",
            "`steps` changes no trace",
            "the option `hooks`",
        ):
            self.assertIn(word, complaints)
        self.assertNotIn("`turns`", complaints)

    def test_each_says_why(self) -> None:
        known = acp.declared()
        reasons = [*known.left_out.values(), *(course["why"] for course in known.courses.values())]
        self.assertTrue(all(isinstance(why, str) and len(why) > 10 for why in reasons))

    def test_what_is_written_is_read_again(self) -> None:
        known = acp.declared()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "acp.json"
            acp.write(known.courses, known, path)
            self.assertEqual(acp.declared(path), known)
            self.assertEqual(json.loads(path.read_text("utf-8")), json.loads(acp.DECLARED.read_text("utf-8")))


if __name__ == "__main__":
    unittest.main()
