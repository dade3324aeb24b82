"""Runs a command on every Python from 3.10 to 3.13 that is here, with the wheel installed in an environment of its own.

    python tools/each_python.py DIST -- -m pytest bindings-python/tests

The environments are kept below .cache; a wheel that has not changed is not installed again.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from find_python import all_pythons

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "bindings-python" / "requirements-test.txt"
NEWEST = (3, 13)


def environment(base: str, name: str, wheel: Path) -> Path:
    """The interpreter of an environment that has the wheel and what the tests need."""
    venv = ROOT / ".cache" / f"venv-{name}"
    python = venv / "bin" / "python"
    stamp = venv / ".ready"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + wheel.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        if not python.exists():
            subprocess.run([base, "-m", "venv", "--clear", str(venv)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "-r", str(REQUIREMENTS)], check=True)
        subprocess.run([*pip, "--force-reinstall", "--no-deps", str(wheel)], check=True)
        stamp.write_text(wanted)
    return python


def main() -> int:
    """Exits with 1 where the command failed on any of them."""
    dist, separator, *command = sys.argv[1:]
    if separator != "--" or not command:
        sys.exit(__doc__)
    wheel = max(Path(dist).glob("*.whl"), key=lambda path: path.stat().st_mtime)
    pythons = {number: path for number, path in all_pythons().items() if number <= NEWEST}
    if not pythons:
        sys.exit("there is no Python from 3.10 to 3.13")
    failed = []
    for number, base in pythons.items():
        name = ".".join(map(str, number))
        print(f"--- Python {name}", flush=True)
        python = environment(base, name, wheel)
        if subprocess.run([str(python), *command], cwd=ROOT, check=False).returncode != 0:
            failed.append(name)
    if failed:
        print(f"failed on Python {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
