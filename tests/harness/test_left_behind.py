"""Processes, ports, files and worktrees that a run leaves are named, and nothing else is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import left_behind

LISTEN = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


@unittest.skipUnless(sys.platform == "linux", "it reads /proc")
class LeftBehind(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.root = self.folder / "a repository ä"
        self.git("init", "-q", str(self.root))
        self.git("-C", str(self.root), "commit", "-q", "--allow-empty", "-m", "x")
        self.file = self.folder / "before"
        root = mock.patch.object(left_behind, "ROOT", self.root)
        temporary = mock.patch.object(tempfile, "tempdir", str(self.folder))
        for patch in (root, temporary):
            patch.start()
            self.addCleanup(patch.stop)
        self.run_environment = left_behind.before(self.file)
        self.temporary = Path(self.run_environment["TMPDIR"])
        self.addCleanup(shutil.rmtree, self.temporary, True)

    def git(self, *words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], check=True, capture_output=True)

    def start(self, *command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        child = subprocess.Popen(command, text=True, cwd=cwd, env={**os.environ, **(env or {})}, **pipes)

        def end() -> None:
            child.kill()
            child.__exit__(None, None, None)

        self.addCleanup(end)
        assert child.stdout
        child.said = child.stdout.readline().strip()  # type: ignore[attr-defined]
        return child

    def left(self, patience: float = 0.0) -> list[str]:
        return left_behind.after(self.file, patience)

    def test_clean_run_leaves_nothing(self) -> None:
        self.start("sh", "-c", "echo; read line")
        (self.temporary / "pytest-of-me").mkdir()
        self.assertEqual(self.left(), [])
        self.assertFalse(self.temporary.exists())

    def test_process_with_mark_and_its_port_are_named(self) -> None:
        child = self.start(sys.executable, "-c", LISTEN, env=self.run_environment)
        port = child.said  # type: ignore[attr-defined]
        first, second = self.left()
        self.assertRegex(first, rf"^Process {child.pid} \(.* still runs in {re.escape(os.getcwd())}\.$")
        self.assertEqual(second, f"Process {child.pid} listens on port {port}.")

    def test_process_with_empty_environment_is_found_by_its_folder(self) -> None:
        child = self.start("env", "-i", "sh", "-c", "echo; read line", cwd=self.temporary)
        self.assertIn(f"Process {child.pid} ", self.left()[0])

    def test_process_of_repository_with_empty_environment_is_named(self) -> None:
        program = self.root / "agent.sh"
        program.write_text("echo; read line", "utf-8")
        child = self.start("env", "-i", "sh", str(program), cwd=Path("/"))
        self.assertIn(f"Process {child.pid} ", self.left()[0])

    def test_process_of_another_run_is_not_named(self) -> None:
        self.start("sh", "-c", "echo; read line", cwd=self.temporary, env={left_behind.MARK: "another"})
        self.assertEqual(self.left(), [])

    def test_ending_process_is_waited_for(self) -> None:
        child = self.start("sh", "-c", "echo; read line", env=self.run_environment)
        assert child.stdin
        child.stdin.close()
        # Nobody reaps it meanwhile: a process that has ended is not left.
        self.assertEqual(self.left(60.0), [])

    def test_earlier_process_is_not_named(self) -> None:
        child = self.start("sh", "-c", "echo; read line", env=self.run_environment)
        with mock.patch.object(left_behind.uuid, "uuid4") as same:
            same.return_value.hex = self.run_environment[left_behind.MARK]
            shutil.rmtree(self.temporary)
            left_behind.before(self.file)
        self.assertNotIn(f"Process {child.pid} ", " ".join(self.left()))

    def test_files_and_private_folders_are_named(self) -> None:
        private = self.temporary / f"kimi-agent-{os.getuid()}"
        (private / "kimi-agent-1").mkdir(parents=True)
        (self.temporary / "b.txt").touch()
        (self.temporary / "c").mkdir()
        (self.temporary / "c" / "d").touch()
        self.assertEqual(
            self.left(),
            [
                f"The temporary file {self.temporary}/b.txt is left.",
                f"The temporary folder {self.temporary}/c is left, with 1 entries such as d.",
                f"The private folder {private}/kimi-agent-1 is left.",
            ],
        )

    def test_files_of_a_target_are_named_and_those_of_other_programs_are_not(self) -> None:
        (self.temporary / "3" / "qwen-socks-1").mkdir(parents=True)
        self.assertEqual(self.left(), [])
        (self.temporary / "3" / "qwen-sockets").mkdir(parents=True)
        self.assertEqual(self.left(), [f"The temporary folder {self.temporary}/3/qwen-sockets is left."])

    def test_worktree_is_named(self) -> None:
        self.git("-C", str(self.root), "worktree", "add", "-q", "--detach", str(self.folder / "w t"))
        self.assertEqual(self.left(), [f"The git worktree {self.folder}/w t is left."])

    def test_call_without_snapshot_says_what_to_do(self) -> None:
        program = [sys.executable, str(Path(left_behind.__file__)), "--after", str(self.folder / "none")]
        ended = subprocess.run(program, capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("left_behind.py --before FILE", ended.stderr)
        self.assertEqual(len(ended.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
