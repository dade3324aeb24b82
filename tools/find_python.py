"""Prints the path of a Python from 3.10 on: the one that runs this, or else one of the usual names on PATH."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 10)
NAMES = ("python3.13", "python3.12", "python3.11", "python3.10", "python3.14", "python3")
# Where newer_python.py puts a Python that the machine does not have.
CACHED = Path(__file__).resolve().parent.parent / ".cache"


def version(path: str) -> tuple[int, int] | None:
    """The version of a Python, or None where it does not run (as shims that stand for nothing)."""
    code = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
    try:
        found = subprocess.run([path, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    numbers = found.stdout.split()
    return (int(numbers[0]), int(numbers[1])) if found.returncode == 0 and len(numbers) == 2 else None


def candidates() -> list[str]:
    """Every Python that may be here: on PATH under the usual names, pyenv's, and newer_python.py's."""
    on_path = [path for path in map(shutil.which, NAMES) if path]
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    pyenv = sorted(glob.glob(os.path.join(glob.escape(root), "versions", "3.*", "bin", "python3")))
    cached = sorted(str(path) for path in CACHED.glob("python-3.*/usr/bin/python3.*"))
    return [*on_path, *pyenv, *cached]


def all_pythons() -> dict[tuple[int, int], str]:
    """One Python of each minor version from the oldest that is supported."""
    found: dict[tuple[int, int], str] = {}
    for path in candidates():
        number = version(path)
        if number is not None and number >= OLDEST:
            found.setdefault(number, os.path.realpath(path) if "shims" not in path else path)
    return dict(sorted(found.items()))


if __name__ == "__main__":
    if sys.version_info[:2] >= OLDEST and version(sys.executable):
        print(sys.executable)
    else:
        pythons = all_pythons()
        if not pythons:
            sys.exit("there is no Python from 3.10 on")
        print(next(iter(pythons.values())))
