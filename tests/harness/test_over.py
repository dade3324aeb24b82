"""The declared differences over other protocols: how they change a scenario, and that none is declared in vain."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar

from harness.acp import ACP
from harness.over import Declared
from harness.scenario import BadScenario, Scenario, load_all
from harness.web import WEB

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
    NOTHING: ClassVar[Declared] = Declared({}, {})

    def test_script_names_its_protocol(self) -> None:
        cast = ACP.cast(scenario(options={"yolo": True}), self.NOTHING)
        self.assertEqual(cast.data["agent"]["script"], {"wire": "acp", "turns": [[{"text": "Hi"}]]})
        self.assertEqual(cast.data["options"], {"yolo": True, "dialect": "acp"})

    def test_declared_course_replaces_rules(self) -> None:
        course = {"why": "so", "expect": [{"op": "open", "error": "x"}]}
        cast = ACP.cast(scenario(), Declared({}, {"one": course}))
        self.assertEqual(cast.expect, course["expect"])

    def test_invalid_course_is_refused(self) -> None:
        course = {"why": "so", "expect": [{"op": "open", "ok": True}]}
        with self.assertRaisesRegex(BadScenario, "one takes no other course"):
            ACP.cast(scenario(), Declared({}, {"one": course}))

    def test_skipped_scenario_has_reason(self) -> None:
        for changes, word in (
            ({"options": {"hooks": []}}, "hooks"),
            ({"program": [{"op": "open", "options": {"config": {}}}]}, "config"),
            ({"program": [{"op": "steer"}]}, "steer"),
            ({"agent": {"script": [[{"parallel": [{"external_tool": {}}]}]]}}, "external_tool"),
            ({"agent": {"script": {"wire": "1.3"}}}, "wire"),
        ):
            self.assertIn(word, ACP.reason(scenario(**changes), self.NOTHING) or "", changes)
        self.assertIsNone(ACP.reason(scenario(), self.NOTHING))
        self.assertEqual(ACP.reason(scenario(), Declared({"on.": "so"}, {})), "so")


class DeclaredDifferences(unittest.TestCase):
    def test_declared_courses_are_all_needed(self) -> None:
        scenarios = load_all(SCENARIOS)
        for over in (ACP, WEB):
            known, used = over.declared(), set[str]()
            over.chosen(scenarios, known, used)
            self.assertEqual(over.needless(scenarios, known, used), [], over.title)

    def test_needless_declaration_is_named(self) -> None:
        course = {"why": "so", "expect": [{"op": "open", "error": "x"}]}
        known = Declared({"nothing.*": "so"}, {"gone": course})
        complaints = "\n".join(ACP.needless([scenario()], known, {"turns"}))
        for word in (
            "`nothing.*` leaves out nothing",
            "gone is not played",
            "`steps` changes no trace",
            "the option `hooks`",
        ):
            self.assertIn(word, complaints)
        self.assertNotIn("`turns`", complaints)

    def test_declarations_have_reasons(self) -> None:
        for over in (ACP, WEB):
            known = over.declared()
            reasons = [*known.left_out.values(), *(course["why"] for course in known.courses.values())]
            self.assertTrue(all(isinstance(why, str) and len(why) > 10 for why in reasons), over.title)

    def test_written_courses_are_read_again(self) -> None:
        known = ACP.declared()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "acp.json"
            ACP.write(known.courses, known, path)
            self.assertEqual(ACP.declared(path), known)
            self.assertEqual(json.loads(path.read_text("utf-8")), json.loads(ACP.path.read_text("utf-8")))


if __name__ == "__main__":
    unittest.main()
