"""Which public names count as touched."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness import names, play, runners
from harness.names import Report, Seen
from harness.scenario import LANGUAGES, Scenario

SEEN = Seen(
    events={"TextPart"},
    codes={"timeout", "rpc_error"},
    options={"model", "on_approval"},
    ops={"open", "prompt"},
    described={"ExternalTool": {"name"}, "Hook": set()},
    agent_options={"env"},
    call_options={"PromptOptions": {"idle_timeout"}, "CloseOptions": set()},
)


def complaints(language: str, listed: list[str], report: Report | None = None) -> list[str]:
    with mock.patch.dict(names.EXCEPTIONS, {language: {}}):
        return names.untouched({language: listed}, {language: report or Report()}, SEEN)


class Untouched(unittest.TestCase):
    def test_listed_name_must_be_touched(self) -> None:
        for language in ("python", "node", "rust"):
            self.assertEqual(
                complaints(language, ["Session.invented"]), [f"no scenario touches Session.invented ({language})"]
            )

    def test_unlisted_public_name_must_be_used(self) -> None:
        report = Report(public={"Turn.cancel", "Turn.steer"}, touched={"Turn", "Turn.cancel"})
        self.assertEqual(complaints("node", [], report), ["no scenario touches Turn.steer (node)"])

    def test_field_counts_as_touched_with_its_class(self) -> None:
        report = Report(public={"Reject"}, touched={"Reject"})
        self.assertEqual(complaints("python", ["Reject.feedback"], report), [])
        self.assertEqual(len(complaints("python", ["Reject.feedback"], Report(public={"Reject"}))), 2)

    def test_options_events_and_descriptions_count_from_scenarios(self) -> None:
        shown = [
            "AgentOptions",
            "AgentOptions.env",
            "SessionOptions.model",
            "SessionOptions.onApproval",
            "TextPart",
            "ExternalTool.name",
        ]
        self.assertEqual(complaints("node", shown), [])
        missing = ["SessionOptions.yolo", "AgentOptions.closeTimeout", "TurnEnd", "ExternalTool.handler"]
        self.assertEqual(len(complaints("node", missing)), 4)

    def test_options_of_calls_count_from_programs(self) -> None:
        self.assertEqual(complaints("node", ["PromptOptions", "PromptOptions.idleTimeout"]), [])
        missing = ["PromptOptions.timeout", "CloseOptions", "CloseOptions.timeout"]
        self.assertEqual(len(complaints("node", missing)), 3)

    def test_table_maps_operations_to_rust_names(self) -> None:
        self.assertEqual(complaints("rust", ["Session.prompt", "Error.Timeout", "wire.ContentPart.Text"]), [])
        missing = ["Session.replay", "Error.Spawn", "wire.Event.TurnEnd", "RpcErrorKind.AuthExpired"]
        self.assertEqual(len(complaints("rust", missing)), 4)

    def test_python_events_are_measured(self) -> None:
        self.assertEqual(len(complaints("python", ["TextPart"])), 1)

    def test_needless_exception_is_reported(self) -> None:
        report = Report(public={"tool", "prompt"}, touched={"tool"})
        with mock.patch.dict(names.EXCEPTIONS, {"node": {"tool": "why", "gone": "why", "prompt": "why"}}):
            found = names.untouched({"node": []}, {"node": report}, SEEN)
        self.assertEqual(len(found), 2)
        self.assertIn("tool is declared not to be touched (node), but it is", found)
        self.assertIn("gone is declared not to be touched (node), but it is no public name", found)

    def test_reports_of_several_processes_add_up(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "python")
            rows = [{"public": ["TokenUsageMethods.total"], "touched": []}, {"public": ["Turn"], "touched": ["Turn"]}]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
            report = Report.read(path, Path(folder, "not-there"))
        self.assertEqual(report, Report(public={"TokenUsage.total", "Turn"}, touched={"Turn"}))


class Skips(unittest.TestCase):
    def judged(self, lines: list[dict[str, object]]) -> play.Verdict:
        data = {"name": "one", "agent": {"script": []}, "skip": {"node": "why"}, "expect": [{"op": "open", "ok": True}]}
        one = play.Play(Scenario(Path("one.json"), data), skips={"node": "why"})
        one.outcomes = {language: runners.Outcome(data["expect"]) for language in LANGUAGES}
        one.outcomes["node"] = runners.Outcome(lines)
        return play.judge(one, list(LANGUAGES))

    def test_needed_skip_is_accepted(self) -> None:
        self.assertEqual(self.judged([{"op": "open", "error": "unsupported"}]).status, "pass")

    def test_needless_skip_fails(self) -> None:
        verdict = self.judged([{"op": "open", "ok": True}])
        self.assertEqual(verdict.status, "FAIL")
        self.assertIn("node: it is declared not to play this", verdict.complaints[0])

    def test_undeclared_skip_fails(self) -> None:
        data = {"name": "one", "agent": {"script": []}, "expect": []}
        one = play.Play(Scenario(Path("one.json"), data), outcomes={"rust": runners.Outcome()})
        self.assertIn("node: the runner didn't run it", play.judge(one, ["rust", "node"]).complaints)


if __name__ == "__main__":
    unittest.main()
