"""Runs a command on the oldest and the newest Python from 3.10 to 3.14, with the wheel installed.

    python tools/each_python.py [--all] [--jobs 2] DIST -- -m pytest bindings-python/tests

`--all` also runs it on the Pythons between. With several jobs, that many run in parallel, and the output of each is
printed when it has ended. The environments are kept below .cache; a wheel that has not changed is not installed again.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from find_python import all_pythons

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "bindings-python" / "requirements-test.txt"
NEWEST = (3, 14)


def environment(base: str, name: str, wheel: Path) -> Path:
    """The interpreter of an environment that has the wheel and what the tests need."""
    venv = ROOT / ".cache" / f"venv-{name}"
    python = venv / "bin" / "python"
    stamp = venv / ".ready"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + wheel.read_bytes()).hexdigest()
    venv.parent.mkdir(exist_ok=True)
    # Another check may be about to make it, too.
    with venv.with_name(f"{venv.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            if not python.exists():
                subprocess.run([base, "-m", "venv", "--clear", str(venv)], check=True)
            install(python, ["-r", str(REQUIREMENTS)])
            install(python, ["--force-reinstall", "--no-deps", str(wheel)])
            stamp.write_text(wanted)
    return python


def install(python: Path, what: list[str]) -> None:
    """Uses uv if it is next to this interpreter, because it is faster, and pip if it is not."""
    uv = Path(sys.executable).with_name("uv")
    if uv.exists():
        installed = subprocess.run([str(uv), "pip", "install", "-q", "--python", str(python), *what], check=False)
        if installed.returncode == 0:
            return
        print("uv could not install that, so pip has to", flush=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", *what], check=True)


def main() -> int:
    """Exits with 1 where the command failed on any of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="also the Pythons between the oldest and the newest")
    parser.add_argument("dist", type=Path)
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    wheel = max(given.dist.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    pythons = {number: path for number, path in all_pythons().items() if number <= NEWEST}
    if not pythons:
        sys.exit("there is no Python from 3.10 to 3.14")
    if not given.all:
        pythons = {number: pythons[number] for number in sorted({min(pythons), max(pythons)})}
    kept = subprocess.PIPE if given.jobs > 1 else None

    def run(number: tuple[int, int]) -> bool:
        name = ".".join(map(str, number))
        if kept is None:
            print(f"--- Python {name}", flush=True)
        command = [str(environment(pythons[number], name, wheel)), *given.command]
        ended = subprocess.run(
            command, cwd=ROOT, check=False, stdout=kept, stderr=kept and subprocess.STDOUT, text=True
        )
        if kept is not None:
            print(f"--- Python {name}\n{ended.stdout}", end="", flush=True)
        return ended.returncode == 0

    with ThreadPoolExecutor(given.jobs) as pool:
        passed = dict(zip(pythons, pool.map(run, pythons), strict=True))
    failed = [".".join(map(str, number)) for number in pythons if not passed[number]]
    if failed:
        print(f"failed on Python {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
