"""Where things are, and the programs that everything here needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "cross"
# Installs a package for a program of this folder.
PIP = [sys.executable, "-m", "pip", "install", "-q", "--root-user-action=ignore"]


# What is installed where: the programs that build packages, and those that look into them.
REQUIREMENTS = {
    "build": Path(__file__).with_name("requirements.txt"),
    "audit": ROOT / "tests" / "packages" / "requirements.txt",
}


def require(needed: Mapping[str, str]) -> None:
    """Exits with a message if programs are missing. Their values are the packages of Debian that have them."""
    missing = {program: package for program, package in needed.items() if not shutil.which(program)}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        raise SystemExit(
            f"missing: {', '.join(missing)}. On Debian: apt-get install --no-install-recommends {packages}"
        )


def programs(purpose: str) -> Path:
    """The folder of the programs for a purpose. They are installed if their requirements have changed."""
    requirements = REQUIREMENTS[purpose]
    folder = CACHE / purpose
    place = folder / ("Scripts" if sys.platform == "win32" else "bin")
    stamp = folder / ".ready"
    if not stamp.exists() or stamp.read_bytes() != requirements.read_bytes():
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([place / "python", "-m", "pip", "install", "-q", "-r", requirements], check=True)
        stamp.write_bytes(requirements.read_bytes())
    return place


def node_library() -> str:
    """A folder for `LIBNODE_PATH`: with windows-gnu, napi-build links with Node. The addon does not need it."""
    folder = CACHE / "node"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "libnode.a").write_bytes(b"!<arch>\n")
    (folder / "libnode.dll").touch()
    return str(folder)


def wrapper(path: Path, command: str, **env: str) -> Path:
    """Writes a program that runs a command with its own arguments."""
    variables = "".join(f'export {key}="{value}"\n' for key, value in env.items())
    path.write_text(f'#!/bin/sh\n{variables}exec {command} "$@"\n', "utf-8")
    path.chmod(0o755)
    return path
