"""Scenario files: what is refused, what is filled in, how an expectation is written back."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar

from harness import scenario

GOOD: dict[str, Any] = {
    "name": "one",
    "about": "It does one thing.",
    "agent": {"script": [[{"text": "{dir}"}]]},
    "program": [{"op": "open"}],
}


class Load(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, file: str = "one.json", **changes: Any) -> Path:
        path = self.folder / file
        path.write_text(json.dumps({**GOOD, **changes}), "utf-8")
        return path

    def refused(self, **changes: Any) -> str:
        with self.assertRaises(scenario.BadScenario) as caught:
            scenario.load(self.write(**changes))
        return str(caught.exception)

    def test_good(self) -> None:
        self.assertFalse(scenario.load(self.write()).real)

    def test_refused(self) -> None:
        self.assertIn("unknown key 'exepct'", self.refused(exepct=[]))
        self.assertIn("'about'", self.refused(about=None))
        self.assertIn("'script' or 'kimi'", self.refused(agent={}))
        self.assertIn("step 0", self.refused(program=[{"op": "opne"}]))
        self.assertIn("needs 'expect'", self.refused(agent={"kimi": {}}))
        self.assertIn("real cases", self.refused(needs=["hooks"]))
        kimi = {"kimi": {}}
        self.assertIn("'before'", self.refused(agent=kimi, expect=[{}], before=[{"release": "1.9"}]))
        self.assertIn("'modle' in 'agent.kimi'", self.refused(agent={"kimi": {"modle": []}}))
        self.assertIn("no language", self.refused(skip={"perl": "no"}))

    def test_no_json(self) -> None:
        path = self.folder / "one.json"
        path.write_text("{", "utf-8")
        with self.assertRaises(scenario.BadScenario):
            scenario.load(path)

    def test_names_are_taken_once(self) -> None:
        self.write("one.json")
        self.write("two.json")
        with self.assertRaises(scenario.BadScenario):
            scenario.load_all(self.folder)

    def test_only(self) -> None:
        self.write("one.json")
        self.write("two.json", name="two")
        self.assertEqual([s.name for s in scenario.load_all(self.folder, ["tw"])], ["two"])

    def test_skips(self) -> None:
        one = scenario.load(self.write(skip={"node": "why"}))
        self.assertEqual(one.skipped("node"), "why")
        self.assertIsNone(one.skipped("rust"))

    def test_before(self) -> None:
        kimi = {"kimi": {"model": [{"text": "new"}]}}
        entry = {"release": "1.9", "why": "it differs", "model": [{"text": "old"}], "expect": [{"op": "close"}]}
        one = scenario.load(self.write(agent=kimi, expect=[{"op": "open"}], before=[entry]))
        self.assertIs(one.before("1.10.0"), one)
        older = one.before("1.8.0")
        self.assertEqual(older.expect, [{"op": "close"}])
        self.assertEqual(older.kimi["model"], [{"text": "old"}])

    def test_prepared(self) -> None:
        one = scenario.load(self.write(expect=[{"text": "{dir}"}], keep=["StatusUpdate"]))
        data = scenario.prepared(one, {"dir": "/tmp/x"})
        self.assertEqual(data["agent"], {"script": [[{"text": "/tmp/x"}]]})
        self.assertEqual(set(data), {"name", "about", "agent", "program"})


class WithExpectation(unittest.TestCase):
    lines: ClassVar[list[Any]] = [{"b": "ü", "a": [1]}, {"op": "close"}]

    def test_replaced_and_the_rest_untouched(self) -> None:
        text = '{\n  "name": "x",   "odd": {"expect": [0]},\n  "expect": [ {"op":\n"old"} ],\n  "last": 1\n}\n'
        written = scenario.with_expectation(text, self.lines)
        self.assertEqual(json.loads(written)["expect"], self.lines)
        self.assertTrue(written.startswith('{\n  "name": "x",   "odd": {"expect": [0]},\n  "expect": ['))
        self.assertTrue(written.endswith('],\n  "last": 1\n}\n'))
        self.assertIn('\n    {"a": [1], "b": "ü"},\n', written)

    def test_added(self) -> None:
        written = scenario.with_expectation('{\n  "name": "x"\n}\n', self.lines)
        self.assertEqual(json.loads(written), {"name": "x", "expect": self.lines})

    def test_the_same_again(self) -> None:
        once = scenario.with_expectation('{"name": "x"}', self.lines)
        self.assertEqual(scenario.with_expectation(once, self.lines), once)


if __name__ == "__main__":
    unittest.main()
