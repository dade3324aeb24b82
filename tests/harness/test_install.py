"""What installs a release: uv, and pip where uv is not there or can't."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from real import install


class Build(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = Path(folder.name) / "environment"
        self.ran: list[str] = []
        self.said: list[str] = []

    def build(self, uv: str | None, failing: str = "nothing") -> None:
        def run(command: list[str]) -> None:
            program = "uv" if command[0] == uv else "pip" if "pip" in command else "venv"
            self.ran.append(f"{program} {command[1]}")
            self.environment.mkdir(exist_ok=True)
            (self.environment / program).touch()
            if program == failing:
                raise install.InstallFailed("no such index")

        with mock.patch.object(install, "_uv", lambda: uv), mock.patch.object(install, "_run", run):
            install._build(self.environment, "python3", "kimi-cli==1.5", self.said.append)

    def test_uv(self) -> None:
        self.build("/bin/uv")
        self.assertEqual(self.ran, ["uv venv", "uv pip"])

    def test_no_uv(self) -> None:
        self.build(None)
        self.assertEqual(self.ran, ["venv -m", "pip -m"])

    def test_uv_that_fails(self) -> None:
        self.build("/bin/uv", failing="uv")
        self.assertEqual(self.ran, ["uv venv", "venv -m", "pip -m"])
        self.assertIn("no such index", self.said[0])
        self.assertFalse((self.environment / "uv").exists(), "what uv began is gone before pip begins")

    def test_pip_that_fails(self) -> None:
        with self.assertRaisesRegex(install.InstallFailed, "no such index"):
            self.build(None, failing="pip")


class KimiCode(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = Path(folder.name)
        self.ran: list[list[str]] = []

    def installed(self, whole: bool = True) -> list[str]:
        def run(command: list[str]) -> None:
            self.ran.append(command)
            modules = Path(command[command.index("--prefix") + 1]) / "node_modules"
            for path in (modules / ".bin" / "kimi", modules / install._node_package() / "bin" / "node"):
                if whole:
                    path.parent.mkdir(parents=True)
                    path.touch()

        patches = (
            mock.patch.object(install, "cache_dir", lambda: self.cache),
            mock.patch.object(install, "_run", run),
            mock.patch.object(install.shutil, "which", lambda _: "/bin/npm"),
        )
        with patches[0], patches[1], patches[2]:
            return install.kimi_code("2.1.0")

    @unittest.skipIf(install.os.name == "nt", "programs have other names there")
    def test_it_is_installed_once_with_a_node_of_its_own(self) -> None:
        kimi = self.cache / "kimi-code-2.1.0" / "node_modules" / ".bin" / "kimi"
        self.assertEqual(self.installed(), [str(kimi)])
        self.assertEqual(self.installed(), [str(kimi)])
        (command,) = self.ran
        self.assertIn("@moonshot-ai/kimi-code@2.1.0", command)
        self.assertTrue(any(word.startswith("node-") and word.endswith("@24") for word in command), command)

    def test_what_is_not_whole_is_not_taken(self) -> None:
        with self.assertRaisesRegex(install.InstallFailed, "npm has installed no"):
            self.installed(whole=False)
        self.assertFalse((self.cache / "kimi-code-2.1.0" / "installed").exists())


if __name__ == "__main__":
    unittest.main()
