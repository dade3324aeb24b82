"""Scenarios from cassettes."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any

from harness.cassettes import (
    Reasons,
    not_begun,
    recorded,
    recorder,
    replayed,
    sample,
    unplayable,
    waits_for_file,
    without_traces,
)
from harness.scenario import Scenario


def scenario(*program: dict[str, Any], **more: Any) -> Scenario:
    return Scenario(Path("x.json"), {"name": "a/b", "agent": {"script": []}, "program": list(program), **more})


class Sessions(unittest.TestCase):
    def test_each_session_has_its_cassette(self) -> None:
        case = scenario({"op": "open", "options": {"yolo": True}}, {"op": "close"}, {"op": "one_shot"})
        folder = Path("/made")
        first, _, second = recorded(case, folder).data["program"]
        self.assertEqual(first["options"], {"yolo": True, "record": "/made/a--b-1.jsonl"})
        self.assertEqual(second["options"], {"record": "/made/a--b-2.jsonl"})
        played = replayed(case, folder).data["program"][2]["options"]
        self.assertEqual(played, {"executable": {"recording": "/made/a--b-2.jsonl", "mode": "verify"}})

    def test_session_without_messages_is_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            case = scenario({"op": "open"})
            self.assertIsNotNone(not_begun(case, Path(folder)))
            Path(folder, "a--b-1.jsonl").write_text("{}\n{}\n", "utf-8")
            self.assertIsNone(not_begun(case, Path(folder)))

    def test_forms_without_cassette_are_named(self) -> None:
        self.assertIsNone(unplayable(scenario({"op": "open"})))
        self.assertIn("agent", str(unplayable(scenario({"op": "open_agent"}))))
        self.assertIn("executable", str(unplayable(scenario({"op": "open", "options": {"executable": ["x"]}}))))
        self.assertIn("recording", str(unplayable(scenario({"op": "open"}, options={"record": "x"}))))

    def test_languages_take_turns(self) -> None:
        languages = ["rust", "python", "node"]
        cases = [scenario(name=str(number)) for number in range(20)]
        self.assertEqual({recorder(case, languages) for case in cases}, set(languages))
        self.assertEqual(recorder(cases[0], languages), recorder(cases[0], languages))
        skips = {"rust": "why", "node": "why"}
        self.assertEqual(
            {recorder(scenario(name=str(number), skip=skips), languages) for number in range(9)}, {"python"}
        )
        self.assertIsNone(recorder(scenario(skip={"rust": "why"}), ["rust"]))

    def test_sample_is_chosen_by_name(self) -> None:
        cases = [scenario(name=str(number)) for number in range(300)]
        some = sample(cases, Reasons({}), 3)
        self.assertTrue(60 < len(some) < 140, len(some))
        # What is added or declared leaves the rest of the sample as it is.
        more = sample([scenario(name="another"), *cases], Reasons({}), 3)
        self.assertEqual([case for case in more if case.name != "another"], some)
        declared = sample(cases, Reasons({f"^{some[0].name}$": "why"}), 3)
        self.assertEqual(declared, some[1:])


class Compared(unittest.TestCase):
    def test_effects_outside_of_messages_are_removed(self) -> None:
        lines = [{"op": "exists", "exists": True}, {"op": "drain", "fields": {"stderr": "x", "message": "m"}}]
        self.assertEqual(without_traces(lines), [{"op": "drain", "fields": {"stderr": "", "message": "m"}}])

    def test_wait_for_file_is_found(self) -> None:
        self.assertIsNone(waits_for_file(scenario()))
        self.assertIsNotNone(waits_for_file(scenario(agent={"script": [[{"wait_file": "x"}]]})))

    def test_unused_reason_is_found(self) -> None:
        reasons = Reasons({"a/.*": "one", "c": "two"}, {"a/b": "three", "d": "four"})
        self.assertEqual((reasons.of(scenario()), reasons.unverified(scenario())), ("one", "three"))
        self.assertEqual(reasons.needless(), ["c", "d"])


if __name__ == "__main__":
    unittest.main()
