"""Scenarios from cassettes."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any

from harness.cassettes import Reasons, not_begun, recorded, replayed, unplayable, waits_for_file, without_traces
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
        self.assertEqual(played, {"executable": {"recording": "/made/a--b-2.jsonl"}})

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
        self.assertIn("rust", str(unplayable(scenario({"op": "open"}, skip={"rust": "why"}))))


class Compared(unittest.TestCase):
    def test_effects_outside_of_messages_are_removed(self) -> None:
        lines = [{"op": "exists", "exists": True}, {"op": "drain", "fields": {"stderr": "x", "message": "m"}}]
        self.assertEqual(without_traces(lines), [{"op": "drain", "fields": {"stderr": "", "message": "m"}}])

    def test_wait_for_file_is_found(self) -> None:
        self.assertIsNone(waits_for_file(scenario()))
        self.assertIsNotNone(waits_for_file(scenario(agent={"script": [[{"wait_file": "x"}]]})))

    def test_unused_reason_is_found(self) -> None:
        reasons = Reasons({"a/.*": "one", "c": "two"})
        self.assertEqual(reasons.of(scenario()), "one")
        self.assertEqual(reasons.needless(), ["c"])


if __name__ == "__main__":
    unittest.main()
