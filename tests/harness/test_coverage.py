"""The coverage of scenarios."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from harness import coverage
from harness.scenario import OPS, Scenario
from harness.trace import Line

WIRE = "class TextPart: ...\nEvent = Union[TextPart, UnknownContentPart, TurnEnd, SubagentEvent, UnknownEvent]\n"
ERRORS = "class A(Exception):\n    code: str = 'internal_error'\nclass B(A):\n    code = 'timeout'\n"
OPTIONS = "class SessionOptions(TypedDict):\n    executable: str\n    model: str\n    yolo: bool\n"


class Untouched(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.package = Path(folder.name)
        for name, text in (("_wire.py", WIRE), ("_errors.py", ERRORS), ("_option_types.py", OPTIONS)):
            (self.package / name).write_text(text, "utf-8")

    def test_coverage_without_scenarios_misses_everything(self) -> None:
        missing = coverage.untouched(self.package, coverage.seen(self.package, [], []))
        for name in ("shows the event TextPart", "fails with timeout", "sets the option yolo", "the operation open"):
            self.assertTrue(any(name in row for row in missing), name)
        self.assertFalse(any("internal_error" in row or "executable" in row for row in missing))

    def test_unreadable_event_does_not_cover_its_type(self) -> None:
        trace: list[Line] = [
            {"event": {"type": "ContentPart", "payload": "no part", "error": "why"}},
            {"event": {"type": "TurnEnd", "payload": [], "error": "why"}},
        ]
        self.assertEqual(coverage.seen(self.package, [], [trace]).events, {"UnknownEvent"})

    def test_coverage_by_complete_scenarios_misses_nothing(self) -> None:
        program = [{"op": op} for op in OPS]
        data = {"name": "one", "program": program, "options": {"model": "m", "yolo": True}}
        text = {"type": "ContentPart", "payload": {"type": "text", "text": "a"}}
        trace: list[Line] = [
            {"event": {"type": "SubagentEvent", "payload": {"event": text}}},
            {"event": {"type": "ContentPart", "payload": {"type": "smell"}}},
            {"event": {"type": "ContentPart", "payload": {"type": ["smell"]}}},
            {"event": {"type": "ContentPart", "payload": "text"}},
            {"event": {"type": "Later", "payload": {}}},
            {"event": {"type": "TurnEnd", "payload": {}}},
            {"op": "result", "error": "timeout"},
        ]
        one = Scenario(Path("one.json"), data)
        self.assertEqual(coverage.untouched(self.package, coverage.seen(self.package, [one], [trace])), [])


if __name__ == "__main__":
    unittest.main()
