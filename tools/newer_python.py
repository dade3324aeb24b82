"""Puts the newest supported Python into .cache, if this machine has none and Debian's packages can be reached.

    python tools/newer_python.py 3.14

The package is taken from the next release of Debian and extracted, not installed. The interpreter is changed to use the
C library that comes with it. find_python.py finds it there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from find_python import CACHED, all_pythons

sys.path.insert(0, str(Path(__file__).resolve().parent / "cross"))

import debian

SUITE = "forky"
# Debian's Python has the wheel of pip here, outside of its own folder.
WHEELS = "/usr/share/python-wheels"


def provide(version: str, folder: Path) -> Path:
    """Extracts a Python into a folder, and returns its program."""
    name = f"python{version}"
    root = debian.extract(folder.parent, folder.name, (name, f"{name}-venv"), suite=SUITE)
    program = root / "usr" / "bin" / name
    for settings in (root / "usr" / "lib" / name).glob("_sysconfigdata_*.py"):
        text = settings.read_text("utf-8")
        if f"{root}{WHEELS}" not in text:
            settings.write_text(text.replace(WHEELS, f"{root}{WHEELS}"), "utf-8")
    [loader] = (root / "usr").glob("lib*/ld-linux-*.so.*")
    [libraries] = {path.parent for path in (root / "usr" / "lib").glob("*/libc.so.6")}
    editor = debian.extract(folder.parent, "patchelf", ("patchelf",)) / "usr" / "bin" / "patchelf"
    # Only the older kind of this entry, which is forced here, is also for the extensions that Python loads.
    command = [editor, "--set-interpreter", loader, "--force-rpath", "--set-rpath", libraries, program]
    subprocess.run(command, check=True)
    return program


def main() -> int:
    """Exits with 0 also if it cannot be had: the tests then take the newest Python that is here."""
    [version] = sys.argv[1:]
    if tuple(map(int, version.split("."))) in all_pythons():
        return 0
    try:
        program = provide(version, CACHED / f"python-{version}")
    except (SystemExit, OSError, subprocess.CalledProcessError, ValueError) as error:
        print(f"skipped: Python {version} cannot be taken from Debian: {error}")
        return 0
    subprocess.run([program, "-c", "import ensurepip, sqlite3, ssl, sys; print('Python', sys.version)"], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
