"""The releases of kimi-cli: what becomes of a case where something is missing, and which are for every change."""

from __future__ import annotations

import unittest
from pathlib import Path
from typing import Any

from harness import kimi_code, releases, trace
from harness.scenario import BadScenario, Scenario, load_all

CASES = Path(__file__).resolve().parent.parent / "real" / "cases"


KIMI_CODE = "kimi-code-2.1.0"


def case(**changes: Any) -> Scenario:
    data: dict[str, Any] = {
        "name": "one",
        "about": "It does one thing.",
        "agent": {"kimi": {}},
        "program": [{"op": "open"}, {"op": "prompt", "input": "Hi"}, {"op": "steer", "input": "Ho"}, {"op": "close"}],
        "expect": [{"op": "info", "protocol_version": "{wire}", "server": "{version}"}],
    }
    return Scenario(Path("one.json"), {**data, **changes})


class Release(unittest.TestCase):
    def test_unknown_release_of_kimi_code(self) -> None:
        for newest in releases.newest_kimi_code("99.0.0"):
            known, found = releases.release(newest.replace("99.0.0", "2.1.0")), releases.release(newest)
            self.assertEqual((found.wire, found.missing, found.server), (known.wire, known.missing, known.server))
            self.assertEqual((found.number, found.note), ("99.0.0", ""))


class Cast(unittest.TestCase):
    def test_every_case_fits_every_release(self) -> None:
        for scenario in load_all(CASES):
            for version in releases.versions():
                cast = releases.cast(scenario, version)
                self.assertTrue(cast.scenario.expect, f"{scenario.name} with {version}")

    def test_kimi_code_scripts_use_own_tool_names(self) -> None:
        for scenario in load_all(CASES):
            cast = releases.cast(scenario, KIMI_CODE)
            # An option, a call or a field of the case must show what it does not have.
            used = trace.compact(cast.scenario.kimi.get("model", []))
            if cast.missing is None:
                self.assertFalse([name for name in kimi_code.TOOLS if f'"name":"{name}"' in used], scenario.name)

    def test_case_without_missing_features_is_whole(self) -> None:
        cast = releases.cast(case(needs=["steer"]), "1.20.0")
        self.assertIsNone(cast.missing)
        self.assertEqual(cast.scenario.expect, [{"op": "info", "protocol_version": "1.4", "server": "1.20.0"}])

    def test_case_ends_at_refused_feature(self) -> None:
        cast = releases.cast(case(needs=["steer"]), "1.13.0")
        self.assertTrue(cast.refused)
        self.assertEqual(cast.scenario.data["program"][-1]["op"], "steer")
        self.assertEqual(cast.scenario.expect, [{"op": "steer", "error": "unsupported"}])

    def test_refused_opening_ends_case(self) -> None:
        cast = releases.cast(case(needs=["questions", "steer", "hooks"]), "1.13.0")
        self.assertEqual(cast.scenario.data["program"], [{"op": "open"}])

    def test_feature_without_call_refuses_nothing(self) -> None:
        cast = releases.cast(case(needs=["questions"]), "1.13.0")
        self.assertIsNotNone(cast.missing)
        self.assertFalse(cast.refused)

    def test_unrefused_feature_has_reason(self) -> None:
        for one in releases.features():
            self.assertNotEqual(bool(one.refused), bool(one.instead), one.name)

    def test_unknown_feature_is_refused(self) -> None:
        with self.assertRaises(BadScenario):
            releases.cast(case(needs=["telepathy"]), "1.13.0")


class Quick(unittest.TestCase):
    LANGUAGES = ("rust", "python", "node")

    def test_quick_selection_covers_cases_and_languages(self) -> None:
        """Cases are played with a release that can play them, and the main job with each release in each language."""
        by_release: dict[str, set[str]] = {version: set() for version in releases.quick()}
        nightly = set(releases.table()["nightly"])
        self.assertEqual(nightly - {scenario.name for scenario in load_all(CASES)}, set())
        for scenario in load_all(CASES):
            played = []
            for version in releases.quick():
                left_out = releases.quick_left_out(scenario, version, list(self.LANGUAGES))
                played += [(version, language) for language in self.LANGUAGES if language not in left_out]
            for version, language in played:
                by_release[version].add(language)
            if scenario.name in nightly:
                self.assertEqual(played, [], scenario.name)
                continue
            each = scenario.name in releases.EACH_RELEASE
            self.assertEqual(len(played), len(releases.quick()) if each else 1, scenario.name)
            self.assertTrue(each or not releases.cast(scenario, played[0][0]).missing, scenario.name)
        self.assertTrue(all(languages == set(self.LANGUAGES) for languages in by_release.values()))


class KimiCode(unittest.TestCase):
    def test_feature_missing_in_protocol_is_refused(self) -> None:
        cast = releases.cast(case(needs=["steer"]), KIMI_CODE)
        self.assertTrue(cast.refused)
        self.assertEqual(cast.scenario.expect, [{"op": "steer", "error": "unsupported"}])

    def test_case_overrides_kimi_code_behaviour(self) -> None:
        refused = releases.cast(case(kimi_code={"why": "so", "refused": "open"}), KIMI_CODE)
        self.assertEqual(refused.scenario.expect, [{"op": "open", "error": "unsupported"}])
        lacking = releases.cast(case(kimi_code={"why": "so", "lacking": True}), KIMI_CODE)
        self.assertEqual((lacking.refused, lacking.missing and lacking.missing.instead), (False, "so"))
        own = {"why": "so", "expect": [{"op": "close"}], "model": [{"text": "Hi"}], "options": {"yolo": True}}
        cast = releases.cast(case(kimi_code=own), KIMI_CODE).scenario
        self.assertEqual((cast.expect, cast.kimi["model"]), ([{"op": "close"}], [{"text": "Hi"}]))
        self.assertEqual(cast.data["options"], {"yolo": True})
        self.assertEqual(releases.cast(case(kimi_code=own), "1.51.0").scenario.kimi, {})

    def test_kimi_code_tools_have_their_own_names(self) -> None:
        model = [{"calls": [{"id": "c1", "name": "Shell"}], "offers": ["ReadFile", "Agent"]}]
        cast = releases.cast(case(agent={"kimi": {"model": model}}), KIMI_CODE).scenario
        self.assertEqual(cast.kimi["model"], [{"calls": [{"id": "c1", "name": "Bash"}], "offers": ["Read", "Agent"]}])

    def test_lines_missing_in_acp_are_not_expected(self) -> None:
        def event(kind: str, **payload: Any) -> dict[str, Any]:
            return {"event": {"type": kind, "payload": payload}}

        told = kimi_code.patterns(
            [
                {"op": "info", "protocol_version": "{wire}"},
                event("StepBegin", n=1),
                event("ToolCall", id="c1", function={"name": "Shell"}),
                event("ApprovalRequest", tool_call_id="c1", action="run command"),
                event("ApprovalResponse", response="approve"),
                event("ToolResult", tool_call_id="c1", return_value={"is_error": False, "message": "m"}),
                {"never": event("StepBegin", n=2)},
                event("StatusUpdate", token_usage={}),
                event("StatusUpdate", plan_mode=True),
                {"op": "usage", "turn": {}},
                {"op": "result", "steps": 3},
            ],
            kimi_code.over_acp,
        )
        self.assertEqual(
            told,
            [
                {"op": "info", "protocol_version": "{wire}"},
                event("StepBegin", n=1),
                event("ToolCall", id="~^[0-9]+:c1$", function={"name": "Bash"}),
                event("ApprovalRequest", tool_call_id="~^[0-9]+:c1$"),
                event("ToolResult", tool_call_id="~^[0-9]+:c1$", return_value={"is_error": False}),
                event("StatusUpdate", plan_mode=True),
                {"op": "usage", "turn": {}},
                {"op": "result", "steps": 3},
            ],
        )

    def test_kimi_code_server_reports_steps_and_tokens(self) -> None:
        usage = {"op": "usage", "turn": {}}
        steps = {"op": "result", "steps": 3}
        call = {"event": {"type": "ToolCall", "payload": {"id": "c1", "function": {"name": "Shell"}}}}
        told = {"event": {"type": "ToolCall", "payload": {"id": "c1", "function": {"name": "Bash"}}}}
        self.assertEqual(kimi_code.patterns([usage, steps, call], kimi_code.over_server), [usage, steps, told])

    def test_older_releases_have_entries_of_their_own(self) -> None:
        before = [{"release": "2.1.0", "why": "then", "expect": [{"op": "close"}]}]
        scenario = case(kimi_web={"why": "now", "before": before}, kimi_code={"why": "acp"})
        self.assertEqual(kimi_code.own(scenario, "2.1.0", True), {"why": "now"})
        self.assertEqual(kimi_code.own(scenario, "2.0.2", True), {"why": "then", "expect": [{"op": "close"}]})
        self.assertEqual(kimi_code.own(scenario, "2.0.2", False), {"why": "acp"})


if __name__ == "__main__":
    unittest.main()
