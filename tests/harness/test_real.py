"""The configuration of a real agent, as files and variables."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any

from harness import real, releases
from harness.scenario import Scenario

CASE: dict[str, Any] = {
    "name": "one",
    "about": "It does one thing.",
    "agent": {"kimi": {"model": [], "config": {"models": {"scripted": {"max_context_size": 7}}}}},
    "options": {"env": {"A": "b"}},
    "program": [{"op": "open"}],
    "expect": [{"op": "open", "ok": True}],
}


class Staged(unittest.TestCase):
    def stage(self, version: str) -> tuple[Path, dict[str, Any]]:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        directory = Path(folder.name)
        with real.staged(Scenario(Path("one.json"), CASE), directory, releases.release(version)) as (case, _):
            return directory, case["options"]

    def test_kimi_code_gets_its_own_home(self) -> None:
        directory, options = self.stage("kimi-code-2.1.0")
        home = directory / "home"
        text = (home / ".kimi-code/config.toml").read_text("utf-8")
        self.assertIn('"max_context_size" = 7', text)
        self.assertIn("http://127.0.0.1:", text)
        self.assertNotIn("config_file", options)
        self.assertEqual(options["env"]["KIMI_CODE_HOME"], str(home / ".kimi-code"))
        self.assertEqual((options["env"]["HOME"], options["env"]["A"]), (str(home), "b"))
        self.assertRegex(options["env"]["PATH"].split(":")[0], r"kimi-code-2\.1\.0/node_modules/node-.*/bin$")

    def test_kimi_cli_gets_option_or_file(self) -> None:
        directory, options = self.stage("1.51.0")
        self.assertEqual(options["config_file"], str(directory / "config.json"))
        directory, options = self.stage("0.58")
        self.assertNotIn("config_file", options)
        self.assertTrue((directory / "home/.kimi/config.json").exists())

    def test_shared_agent_gets_only_its_own_options(self) -> None:
        options = {"env": {"A": "b"}, "handshake_timeout": 100, "work_dir": "/w"}
        program = [{"op": "open_agent", "options": {"handshake_timeout": 5}}, {"op": "open", "agent": "agent"}]
        told = real.with_agent_options(program, options)
        self.assertEqual(told[0]["options"], {"env": {"A": "b"}, "handshake_timeout": 5})
        self.assertEqual((told[1], options), (program[1], {"work_dir": "/w"}))
        alone = program[1:]
        self.assertIs(real.with_agent_options(alone, options), alone)


if __name__ == "__main__":
    unittest.main()
