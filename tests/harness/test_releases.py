"""The releases of kimi-cli: what becomes of a case where something is missing, and the table of it all."""

from __future__ import annotations

import unittest
from pathlib import Path
from typing import Any

from harness import matrix, play, releases, runners
from harness.scenario import BadScenario, Scenario, load_all

CASES = Path(__file__).resolve().parent.parent / "real" / "cases"


def case(**changes: Any) -> Scenario:
    data: dict[str, Any] = {
        "name": "one",
        "about": "It does one thing.",
        "agent": {"kimi": {}},
        "program": [{"op": "open"}, {"op": "prompt", "input": "Hi"}, {"op": "steer", "input": "Ho"}, {"op": "close"}],
        "expect": [{"op": "info", "protocol_version": "{wire}", "server": "{version}"}],
    }
    return Scenario(Path("one.json"), {**data, **changes})


class Cast(unittest.TestCase):
    def test_every_case_can_be_cast_for_every_release(self) -> None:
        for scenario in load_all(CASES):
            for version in releases.versions():
                cast = releases.cast(scenario, version)
                self.assertTrue(cast.scenario.expect, f"{scenario.name} with {version}")

    def test_newest_lacks_nothing(self) -> None:
        self.assertEqual(releases.release(releases.versions()[-1]).missing, ())

    def test_whole(self) -> None:
        cast = releases.cast(case(needs=["steer"]), "1.20.0")
        self.assertIsNone(cast.missing)
        self.assertEqual(cast.scenario.expect, [{"op": "info", "protocol_version": "1.4", "server": "1.20.0"}])

    def test_cut_where_it_is_refused(self) -> None:
        cast = releases.cast(case(needs=["steer"]), "1.13.0")
        self.assertTrue(cast.refused)
        self.assertEqual(cast.scenario.data["program"][-1]["op"], "steer")
        self.assertEqual(cast.scenario.expect, [{"op": "steer", "error": "unsupported"}])

    def test_the_opening_is_refused_first(self) -> None:
        cast = releases.cast(case(needs=["questions", "steer", "hooks"]), "1.13.0")
        self.assertEqual(cast.scenario.data["program"], [{"op": "open"}])

    def test_nothing_to_refuse(self) -> None:
        cast = releases.cast(case(needs=["questions"]), "1.13.0")
        self.assertIsNotNone(cast.missing)
        self.assertFalse(cast.refused)

    def test_options_of_the_release(self) -> None:
        self.assertEqual(releases.cast(case(), "0.58").scenario.data["options"], {"yolo": True})

    def test_unknown_feature(self) -> None:
        with self.assertRaises(BadScenario):
            releases.cast(case(needs=["telepathy"]), "1.13.0")


class Table(unittest.TestCase):
    def result(self, needs: list[str], lines: list[dict[str, Any]]) -> str:
        cast = releases.cast(case(needs=needs, expect=[{"op": "open", "ok": True}]), "1.13.0")
        one = play.Play(cast.scenario, "1.13.0", missing=cast.missing)
        one.outcomes["rust"] = runners.Outcome(lines)
        results: matrix.Results = {}
        matrix.add(results, play.judge(one, ["rust"]), ["rust"])
        return matrix.cell(results["1.13.0"]["one"])

    def test_words(self) -> None:
        opened = [{"op": "open", "ok": True}]
        self.assertEqual(self.result([], opened), "yes")
        self.assertEqual(self.result([], []), "FAIL")
        self.assertEqual(self.result(["hooks"], [{"op": "open", "error": "unsupported"}]), "unsupported")
        self.assertEqual(self.result(["hooks"], opened), "FAIL")
        self.assertEqual(self.result(["questions"], []), "lacking")

    def test_languages_that_differ(self) -> None:
        self.assertEqual(matrix.cell({"rust": "yes", "node": "FAIL"}), "node FAIL, rust yes")
        self.assertEqual(matrix.cell({}), matrix.UNPLAYED)

    def test_document(self) -> None:
        text = matrix.document({"1.13.0": {"one": {"rust": "yes", "node": "yes"}}}, [case()])
        self.assertIn("| one |", text)
        self.assertIn("through Node and Rust", text)
        self.assertIn("1 yes", text)


if __name__ == "__main__":
    unittest.main()
