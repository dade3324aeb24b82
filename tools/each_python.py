"""Runs a command on Pythons from 3.10 to 3.14, with the wheel installed.

    python tools/each_python.py DIST -- -m pytest bindings-python/tests              on the oldest and the newest
    python tools/each_python.py --on newest DIST -- -m pytest bindings-python/tests  or oldest, or all

The environments are kept below .cache; a wheel that has not changed is not installed again.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

from find_python import all_pythons

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "bindings-python" / "requirements-test.txt"
NEWEST = (3, 14)


def environment(base: str, name: str, wheel: Path | None) -> Path:
    """The interpreter of an environment that has what the tests need, and the wheel."""
    venv = ROOT / ".cache" / f"venv-{name}"
    python = venv / "bin" / "python"
    venv.parent.mkdir(exist_ok=True)
    # Another check may be about to make it, too.
    with venv.with_name(f"{venv.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not python.exists():
            subprocess.run([base, "-m", "venv", "--clear", str(venv)], check=True)
        for file, what in ((REQUIREMENTS, ["-r"]), (wheel, ["--force-reinstall", "--no-deps"])):
            if file is None:
                continue
            stamp = venv / f".{file.suffix[1:]}"
            wanted = hashlib.sha256(file.read_bytes()).hexdigest()
            if not stamp.exists() or stamp.read_text() != wanted:
                install(python, [*what, str(file)])
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
    parser.add_argument("--on", choices=["oldest", "newest", "all"])
    parser.add_argument("--fetch", action="store_true", help="only install what the tests need besides the wheel")
    parser.add_argument("dist", type=Path, nargs="?")
    parser.add_argument("command", nargs="*")
    given = parser.parse_args()
    if not given.fetch and not given.command:
        parser.error("a folder with a wheel, and a command")
    wheels = [] if given.fetch else list(given.dist.glob("*.whl"))
    if not given.fetch and not wheels:
        sys.exit(f"there is no wheel in {given.dist}: make build")
    pythons = {number: path for number, path in all_pythons().items() if number <= NEWEST}
    if not pythons:
        sys.exit("there is no Python from 3.10 to 3.14")
    ends = {"oldest": min(pythons), "newest": max(pythons)}
    if given.on != "all":
        chosen = {ends[given.on]} if given.on else set(ends.values())
        pythons = {number: pythons[number] for number in sorted(chosen)}

    def run(number: tuple[int, int]) -> bool:
        name = ".".join(map(str, number))
        print(f"--- Python {name}", flush=True)
        wheel = max(wheels, key=lambda path: path.stat().st_mtime, default=None)
        python = environment(pythons[number], name, wheel)
        if given.fetch:
            return True
        command = [str(python), *given.command]
        return subprocess.run(command, cwd=ROOT, check=False).returncode == 0

    passed = {number: run(number) for number in pythons}
    failed = [".".join(map(str, number)) for number in pythons if not passed[number]]
    if failed:
        print(f"failed on Python {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
