"""The table of what the real cases came to, the file that keeps it, and the page that is made of it."""

from __future__ import annotations

import unittest
from pathlib import Path
from typing import Any

from harness import matrix, page, play, releases, runners
from harness.scenario import Scenario, load_all

ROOT = Path(__file__).resolve().parent.parent.parent
OPENED = [{"op": "open", "ok": True}]


def case(needs: list[str] | None = None, **changes: Any) -> Scenario:
    data: dict[str, Any] = {
        "name": "one",
        "about": "It does one thing.",
        "agent": {"kimi": {}},
        "needs": needs or [],
        "program": [{"op": "open"}, {"op": "prompt", "input": "Hi"}, {"op": "close"}],
        "expect": OPENED,
    }
    return Scenario(Path("one.json"), {**data, **changes})


def verdict(scenario: Scenario, outcomes: dict[str, list[dict[str, Any]]], version: str = "1.13.0") -> play.Verdict:
    cast = releases.cast(scenario, version)
    one = play.Play(cast.scenario, version, missing=cast.missing)
    one.outcomes = {language: runners.Outcome(lines) for language, lines in outcomes.items()}
    return play.judge(one, list(outcomes))


def found(scenario: Scenario, outcomes: dict[str, list[dict[str, Any]]]) -> matrix.Results:
    results: matrix.Results = {}
    matrix.add(results, verdict(scenario, outcomes), matrix.fingerprint(scenario, "1.13.0"), outcomes)
    return results


class Committed(unittest.TestCase):
    """The stored results are complete, belong to the current cases, and agree with the page."""

    def setUp(self) -> None:
        self.scenarios = load_all(ROOT / "tests/real/cases")
        self.results = matrix.read(ROOT / "tests/real/results.json")

    def test_every_table_cell_has_result(self) -> None:
        cells = matrix.unexplained(matrix.current(self.results, self.scenarios), self.scenarios)
        self.assertEqual(cells, [], "`tests/run_scenarios.py --matrix --missing` plays what is missing")

    def test_page_matches_results(self) -> None:
        written = (ROOT / "docs/evidence/compatibility.md").read_text("utf-8")
        self.assertEqual(page.document(self.results, self.scenarios), written, "`--matrix --missing` writes it anew")

    def test_results_have_no_unknown_entries(self) -> None:
        self.assertEqual(matrix.current(self.results, self.scenarios), self.results)


class Words(unittest.TestCase):
    def word(self, needs: list[str], lines: list[dict[str, Any]]) -> str:
        return found(case(needs), {"rust": lines})["one"]["1.13.0"].words["rust"]

    def test_outcome_has_its_table_word(self) -> None:
        self.assertEqual(self.word([], OPENED), "yes")
        self.assertEqual(self.word([], []), "FAIL")
        self.assertEqual(self.word(["hooks"], [{"op": "open", "error": "unsupported"}]), "unsupported")
        self.assertEqual(self.word(["hooks"], OPENED), "FAIL")
        self.assertEqual(self.word(["questions"], []), "lacking")

    def test_failure_of_one_language_is_named(self) -> None:
        rows = found(case(), {"rust": OPENED, "python": [], "node": OPENED})
        self.assertEqual(rows["one"]["1.13.0"].words, {"rust": "yes", "python": "FAIL", "node": "yes"})

    def test_disagreeing_languages_are_named(self) -> None:
        rows = found(case(), {"rust": OPENED, "python": [*OPENED, {"op": "close", "ok": True}], "node": OPENED})
        self.assertEqual(rows["one"]["1.13.0"].words, {"rust": "FAIL", "python": "FAIL", "node": "yes"})

    def test_result_of_unplayed_language_is_kept(self) -> None:
        results = found(case(), {"rust": OPENED})
        of = matrix.fingerprint(case(), "1.13.0")
        matrix.add(results, verdict(case(), {"node": OPENED}), of, ["node"])
        self.assertEqual(results["one"]["1.13.0"].words, {"rust": "yes", "node": "yes"})


class Kept(unittest.TestCase):
    def test_changed_case_counts_as_not_played(self) -> None:
        results = found(case(), {"rust": OPENED})
        told = case(about="It still does one thing.")
        changed = case(program=[{"op": "open"}, {"op": "close"}])
        self.assertEqual(matrix.current(results, [told]), results)
        self.assertEqual(matrix.current(results, [changed]), {})
        self.assertEqual(matrix.played(results, told, "1.13.0"), {"rust": "it was played before"})
        self.assertEqual(matrix.played(results, changed, "1.13.0"), {})

    def test_change_for_old_release_keeps_others(self) -> None:
        changed = case(before=[{"release": "1.5", "why": "it is slow", "expect": [{"op": "close", "ok": True}]}])
        self.assertEqual(matrix.fingerprint(case(), "1.13.0"), matrix.fingerprint(changed, "1.13.0"))
        self.assertNotEqual(matrix.fingerprint(case(), "1.0"), matrix.fingerprint(changed, "1.0"))

    def test_failures_are_played_again(self) -> None:
        results = found(case(), {"rust": [], "node": OPENED})
        self.assertEqual(matrix.played(results, case(), "1.13.0"), {"node": "it was played before"})


class Page(unittest.TestCase):
    def test_row_of_kimi_code_has_its_reasons(self) -> None:
        """Each case that it can't do, or does otherwise, is in its section."""
        scenarios = load_all(ROOT / "tests/real/cases")
        told = page.document({}, scenarios).split("## Where Kimi Code differs\n")[1].split("\n## ")[0]
        for scenario in scenarios:
            missing = releases.cast(scenario, "kimi-code-2.1.0").missing
            word = "" if missing is None else "**unsupported**" if missing.refused else "**lacking**"
            expected = f"\n| {scenario.name} | {word}"
            if missing is None and "kimi_code" not in scenario.data:
                self.assertNotIn(expected, told)
            else:
                self.assertIn(expected, told)

    def test_kimi_code_server_row_has_reasons(self) -> None:
        scenarios = load_all(ROOT / "tests/real/cases")
        told = page.document({}, scenarios).split("## Where Kimi Code's server differs\n")[1].split("\n## ")[0]
        for scenario in scenarios:
            missing = releases.cast(scenario, "kimi-code-web-2.1.0").missing
            is_told = missing is not None or "kimi_web" in scenario.data
            self.assertEqual(f"\n| {scenario.name} |" in told, is_told, scenario.name)


class Languages(unittest.TestCase):
    def test_release_played_in_one_language_names_it(self) -> None:
        self.assertEqual(matrix.cell({"python": "yes"}, ["python"]), "yes")
        self.assertEqual(matrix.cell({"python": "yes"}), "Rust –, Python yes, Node –")
        self.assertEqual(list(releases.other_languages("kimi-code-web-2.0.2", ["rust", "python"])), ["rust"])
        self.assertEqual(releases.other_languages("1.51.0", ["rust", "python"]), {})


if __name__ == "__main__":
    unittest.main()
