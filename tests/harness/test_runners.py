"""Runners that print invalid lines, end early or die; and the configuration of real cases."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path
from unittest import mock

from harness import real, runners


class Run(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_program(self, body: str) -> dict[str, runners.Outcome]:
        program = self.folder / "runner.py"
        head = 'import os, sys\ndef case(path):\n    print(\'{"case": "%s"}\' % os.path.basename(path), flush=True)\n'
        program.write_text(head + textwrap.dedent(body), "utf-8")
        cases = {name: self.folder / name for name in ("a", "b", "c")}
        return runners.run([sys.executable, str(program)], cases)

    def test_lines_go_to_their_case(self) -> None:
        outcomes = self.run_program("""
            for path in sys.argv[1:]:
                case(path)
                print('{"op": "open"}')
        """)
        self.assertEqual(
            {name: one.lines for name, one in outcomes.items()},
            {name: [{"op": "open"}] for name in "abc"},
        )
        self.assertEqual([one.problem for one in outcomes.values()], [None, None, None])

    def test_many_cases_are_several_command_lines(self) -> None:
        with mock.patch.object(runners, "LONGEST_COMMAND", 2 * len(str(self.folder / "a")) + 6):
            outcomes = self.run_program("""
                for path in sys.argv[1:]:
                    case(path)
                    print('{"cases": %d}' % (len(sys.argv) - 1))
            """)
        self.assertEqual([outcomes[name].lines for name in "abc"], [[{"cases": 2}], [{"cases": 2}], [{"cases": 1}]])

    def test_crash_fails_one_case_only(self) -> None:
        outcomes = self.run_program("""
            for path in sys.argv[1:]:
                case(path)
                if path.endswith("b"):
                    sys.exit("it broke")
        """)
        self.assertEqual(
            [outcomes[name].problem for name in "abc"],
            [None, "the runner ended with exit code 1", None],
        )
        self.assertIn("it broke", outcomes["b"].stderr)

    def test_invalid_line_is_reported(self) -> None:
        outcomes = self.run_program("""
            for path in sys.argv[1:]:
                case(path)
                print("hello")
        """)
        self.assertIn("hello", outcomes["a"].problem or "")

    def test_runner_without_case_is_reported(self) -> None:
        outcomes = self.run_program("pass")
        self.assertEqual({one.problem for one in outcomes.values()}, {"the runner printed no case"})

    @mock.patch.object(runners, "SILENCE_SECONDS", 1.0)
    def test_silent_runner_is_ended_despite_held_output(self) -> None:
        outcomes = self.run_program("""
            import subprocess, time
            for path in sys.argv[1:]:
                case(path)
                if path.endswith("c"):
                    held = subprocess.Popen(["sleep", "1000"], start_new_session=True)
                    with open(path + ".pid", "w") as file:
                        file.write(str(held.pid))
                    time.sleep(1000)
        """)
        os.kill(int((self.folder / "c.pid").read_text()), signal.SIGKILL)
        self.assertEqual([outcomes[name].problem for name in "ab"], [None, None])
        self.assertIn("said nothing", outcomes["c"].problem or "")

    def test_watchdog_ends_blocked_python_runner(self) -> None:
        # Waits for a signal with the interpreter's lock held.
        program = textwrap.dedent("""
            import ctypes, runner
            class Api:
                def run(self, play, limit):
                    play.close()
                    ctypes.PyDLL(None).pause()
            runner.WATCHDOG = runner.GRACE = 0.01
            runner.run("tests/scenarios/turn_text.json", Api())
        """)
        folder = runners.ROOT / "tests" / "runners" / "python"
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=runners.ROOT, env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("in run", done.stderr)


class Configuration(unittest.TestCase):
    @unittest.skipUnless(Path("/proc/self/cmdline").exists(), "needs /proc")
    def test_processes_left_behind_are_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(real.left_behind(Path(folder)), [])
            (Path(folder) / "work").mkdir()
            for arguments, place in (([f"{folder}/work"], "/"), ([], f"{folder}/work")):
                with (
                    mock.patch.object(real, "LINGER_SECONDS", 0.0),
                    subprocess.Popen(
                        [sys.executable, "-c", "input(1)", *arguments],
                        cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    ) as process,
                ):  # fmt: skip
                    # A process that has only just begun may have no command line yet.
                    assert process.stdout
                    process.stdout.read(1)
                    found = real.left_behind(Path(folder))
                    of_another = real.left_behind(Path(folder[:-1]))
                    process.communicate(b"\n")
                self.assertEqual(len(found), 1, arguments or place)
                self.assertEqual(of_another, [], "a name that only begins alike is another's")


if __name__ == "__main__":
    unittest.main()
