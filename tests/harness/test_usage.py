"""Mistakes of a caller and lacks of a machine end a program with one sentence."""

from __future__ import annotations

import errno
import subprocess
import sys
import unittest
from pathlib import Path

from harness import usage

TESTS = Path(__file__).resolve().parent.parent
# Programs of the tests with arguments that are wrong, and a part of what they have to say.
MISTAKES = [
    (["soak/run.py", "--languages", "perl"], "--languages has no 'perl'; it takes"),
    (["soak/run.py", "--agent", "/no/such"], "/no/such is missing; run `make build`"),
    (["explore/run.py", "--languages", "perl"], "--languages has no 'perl'; it takes"),
    (["docs/run.py", "no_such_page"], "no document has a path with 'no_such_page'"),
    (["foreign/agents/run.py", "--agents", "nobody"], "--agents has no 'nobody'; it takes"),
    (["foreign/agents/run.py", "--only", "no_such"], "no case has a name with 'no_such'"),
    (["foreign/agents/run.py", "--languages", "perl"], "--languages has no 'perl'; it takes"),
    (["exit/run.py", "many"], "the number of exits is 'many'"),
    (["recordings/replay.py", "--languages", "perl"], "--languages has no 'perl'; it takes"),
    (["recordings/replay.py", "--only", "no_such"], "no recording has a name with 'no_such'"),
    (["recordings/replay.py", "--folder", "/no/such"], "there is no folder /no/such"),
    (["limits/run.py", "--rust-program", "/no/such"], "/no/such is missing; run `make build`"),
    (["limits/run.py", "--rust-program", sys.executable, "--languages", "perl"], "--languages has no 'perl'"),
    (["limits/run.py", "--rust-program", sys.executable, "--only", "no_such"], "no case has a name with 'no_such'"),
    (["kills/run.py", "--rounds", "0"], "--rounds is 0"),
]


class Usage(unittest.TestCase):
    def test_programs_refuse_wrong_arguments_in_one_sentence(self) -> None:
        for words, said in MISTAKES:
            with self.subTest(words=words):
                command = [sys.executable, str(TESTS / words[0]), *words[1:]]
                ended = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertEqual(ended.returncode, 1, ended.stderr)
                self.assertIn(said, ended.stderr)
                self.assertEqual(len(ended.stderr.splitlines()), 1, ended.stderr)
                self.assertEqual(ended.stdout, "")

    def test_full_disk_and_missing_program_are_reported(self) -> None:
        def full() -> int:
            raise OSError(errno.ENOSPC, "No space left on device", "/tmp/x")

        def missing() -> int:
            return subprocess.run(["no-such-program"], check=False).returncode

        for run, said in (
            (full, "p: no space is left for /tmp/x; delete files there, or set TMPDIR to another disk"),
            (missing, "p: the program no-such-program is missing; install it, then run `make setup`"),
        ):
            with self.assertRaises(SystemExit) as ended:
                usage.reported("p", run)
            self.assertEqual(ended.exception.code, said)

    def test_other_errors_are_not_hidden(self) -> None:
        def broken() -> int:
            raise PermissionError(errno.EACCES, "Permission denied", "/x")

        with self.assertRaises(PermissionError):
            usage.reported("p", broken)


if __name__ == "__main__":
    unittest.main()
