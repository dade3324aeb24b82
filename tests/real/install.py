"""Pinned releases of kimi-cli and of Kimi Code, each in a cached environment of its own.

A file inside says that an environment is whole, so a half-finished one is never taken for finished; a
lock file keeps two processes from building the same one at once.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

MINIMUM = (3, 12)

# Some early 3.12 releases can't instantiate a frozen generic dataclass with slots through its alias,
# which kimi-cli does while it is imported. Trying is surer than a list of version numbers.
_PROBE = """
import dataclasses, json, sys
from typing import Generic, TypeVar
T = TypeVar("T")
@dataclasses.dataclass(frozen=True, slots=True)
class Box(Generic[T]):
    value: int
try:
    works = Box[int](1).value == 1
except TypeError:
    works = False
print(json.dumps({"version": list(sys.version_info[:3]), "works": works}))
"""


class NoPython(Exception):
    """No Python on this machine can run kimi-cli."""


class InstallFailed(Exception):
    """The environment could not be built; the message holds the end of the installer's output."""


def cache_dir() -> Path:
    chosen = os.environ.get("KIMI_AGENT_TEST_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "kimi-agent-tests"


def _candidates() -> Iterator[str]:
    chosen = os.environ.get("KIMI_TEST_PYTHON")
    if chosen:
        yield chosen
        return
    for minor in (13, 12, 14):
        found = shutil.which(f"python3.{minor}")
        if found:
            yield found
    yield sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for version in sorted(pyenv.glob("versions/3.1[2-9]*/bin/python"), reverse=True):
        yield str(version)


def _usable(python: str) -> bool:
    """Whether it runs (a pyenv shim of an inactive version doesn't), is new enough and free of the defect."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        ran = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, timeout=60, check=True)
        answer = json.loads(ran.stdout)
        return tuple(answer["version"]) >= MINIMUM and answer["works"]
    return False


def find_python() -> str:
    for python in _candidates():
        if _usable(python):
            return python
    wanted = ".".join(map(str, MINIMUM))
    raise NoPython(
        f"kimi-cli needs Python {wanted} or newer (3.12.0 and 3.12.1 won't do), and none was found: looked at "
        "$KIMI_TEST_PYTHON, python3.12 to python3.14 on PATH, and pyenv's versions"
    )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        # The system releases the lock when the file is closed, also when this process is killed.
        yield


def _executable(environment: Path) -> Path:
    return environment / ("Scripts/kimi.exe" if os.name == "nt" else "bin/kimi")


def _run(command: list[str]) -> None:
    ran = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ran.returncode:
        raise InstallFailed(f"{' '.join(command)}: exit {ran.returncode}\n{ran.stdout[-3000:]}")


def ensure(version: str, say: Callable[[str], None] = lambda _: None) -> Path:
    """The `kimi` of that release, installed if it isn't there yet."""
    environment = cache_dir() / f"kimi-cli-{version}"
    # Console scripts hold their environment's path, so it is built in place; this file says it is whole.
    finished = environment / "installed"
    if finished.exists():
        return _executable(environment)
    with _locked(cache_dir() / f"kimi-cli-{version}.lock"):
        if finished.exists():
            return _executable(environment)
        python = find_python()
        say(f"installing kimi-cli {version} with {python} into {environment}")
        shutil.rmtree(environment, ignore_errors=True)
        _build(environment, python, [f"kimi-cli=={version}"], say)
        finished.write_text(f"{python}\n", "utf-8")
    return _executable(environment)


def _build(environment: Path, python: str, what: list[str], say: Callable[[str], None]) -> None:
    """Makes an environment with `what`, which are arguments that uv and pip both know."""
    inside = str(environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    uv = _uv()
    if uv:
        # It takes a fraction of pip's time, and what several releases need is on the disk once.
        try:
            _run([uv, "venv", "--quiet", "--python", python, str(environment)])
            _run([uv, "pip", "install", "--quiet", "--python", inside, *what])
            return
        except InstallFailed as error:
            # It doesn't know the index that pip may be set up with.
            say(f"uv could not install {' '.join(what)}, so pip has to: {error}")
            shutil.rmtree(environment, ignore_errors=True)
    _run([python, "-m", "venv", str(environment)])
    _run([inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what])


def _uv() -> str | None:
    """The program next to this interpreter, like in the environment of the checks, or the program on PATH."""
    beside = Path(sys.executable).with_name("uv.exe" if os.name == "nt" else "uv")
    return str(beside) if beside.exists() else shutil.which("uv")


# The last release's `kimi` is not an agent. Without arguments it installs another program.
_ORIGINAL = (
    "import sys; from kimi_cli.__main__ import run_original_cli; raise SystemExit(run_original_cli(sys.argv[1:]))"
)


def command(version: str, original: bool = False, say: Callable[[str], None] = lambda _: None) -> list[str]:
    """What starts that release; `original` asks for the agent behind a `kimi` that is none any more."""
    kimi = ensure(version, say)
    if not original:
        return [str(kimi)]
    return [str(kimi.with_name("python.exe" if os.name == "nt" else "python")), "-c", _ORIGINAL]


# The major version of Node that Kimi Code is started with; it needs 22.19 or newer.
_NODE = "24"


def _node_package() -> str:
    """The package of npm that has Node itself, for this machine."""
    system = {"linux": "linux", "darwin": "darwin", "win32": "win"}.get(sys.platform, sys.platform)
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine())
    return f"node-{system}-{machine}"


def node_of(version: str) -> Path:
    """The Node that is installed with that release of Kimi Code."""
    return _kimi_code_folder(version) / _node_program()


def _node_program() -> str:
    inside = "node.exe" if os.name == "nt" else "node"
    return f"node_modules/{_node_package()}/bin/{inside}"


def _kimi_code_folder(version: str) -> Path:
    return cache_dir() / f"kimi-code-{version}"


def kimi_code(version: str, say: Callable[[str], None] = lambda _: None) -> list[str]:
    """What starts that release of Kimi Code, installed from npm if it isn't there yet, with a Node of its own."""
    kimi = f"node_modules/.bin/{'kimi.cmd' if os.name == 'nt' else 'kimi'}"
    packages = [f"@moonshot-ai/kimi-code@{version}", f"{_node_package()}@{_NODE}"]
    return [str(from_npm(_kimi_code_folder(version), packages, [kimi, _node_program()], say) / kimi)]


def newest_kimi_code() -> str:
    """The number of the newest release of Kimi Code, as the registry of npm has it."""
    ran = subprocess.run(
        [shutil.which("npm") or "npm", "view", "@moonshot-ai/kimi-code", "version"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if ran.returncode:
        raise InstallFailed(f"npm can't tell the newest release of Kimi Code: {ran.stderr[-3000:]}")
    return ran.stdout.strip()


def from_npm(
    folder: Path,
    packages: list[str],
    programs: list[str],
    say: Callable[[str], None] = lambda _: None,
    how: tuple[str, ...] = (),
    lock: Path | None = None,
) -> Path:
    """The folder with these packages of npm, installed if they aren't there yet; `programs` are files in it then.

    `lock` is a folder with a `package.json` and a `package-lock.json` that pin what the packages depend on as well.
    """
    finished = folder / "installed"
    whole = f"{' '.join(packages)}\n"
    pins = [lock / name for name in ("package.json", "package-lock.json")] if lock else []
    if pins:
        whole += f"{hashlib.sha256(b''.join(pin.read_bytes() for pin in pins)).hexdigest()}\n"

    def is_there() -> bool:
        return finished.exists() and (not pins or finished.read_text("utf-8") == whole)

    if is_there():
        return folder
    with _locked(folder.with_name(f"{folder.name}.lock")):
        if not is_there():
            npm = shutil.which("npm")
            if npm is None:
                raise InstallFailed(f"{packages[0]} comes from npm, which is not on the path")
            say(f"installing {' and '.join(packages)} into {folder}")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            # Without a file of its own npm would look for one above, and install there.
            (folder / "package.json").write_text('{"private": true}\n', "utf-8")
            for pin in pins:
                shutil.copy(pin, folder)
            what = ["ci"] if pins else ["install", "--save-exact", *packages]
            _run([npm, what[0], "--prefix", str(folder), "--no-audit", "--no-fund", *how, *what[1:]])
            missing = [program for program in programs if not (folder / program).exists()]
            if missing:
                raise InstallFailed(f"npm has installed no {folder / missing[0]}")
            finished.write_text(whole, "utf-8")
    return folder


def from_pypi(folder: Path, lock: Path, program: str, say: Callable[[str], None] = lambda _: None) -> Path:
    """The program of packages of PyPI, installed into an environment of their own if they aren't there yet.

    `lock` names every package with its hashes. Only these are installed, whatever else their metadata asks for.
    """
    finished = folder / "installed"
    whole = f"{hashlib.sha256(lock.read_bytes()).hexdigest()}\n"
    path = folder / (f"Scripts/{program}.exe" if os.name == "nt" else f"bin/{program}")

    def is_there() -> bool:
        return finished.exists() and finished.read_text("utf-8") == whole

    if is_there():
        return path
    with _locked(folder.with_name(f"{folder.name}.lock")):
        if not is_there():
            python = find_python()
            say(f"installing {lock.parent.name} with {python} into {folder}")
            shutil.rmtree(folder, ignore_errors=True)
            _build(folder, python, ["--no-deps", "--require-hashes", "-r", str(lock)], say)
            if not path.exists():
                raise InstallFailed(f"PyPI has installed no {path}")
            finished.write_text(whole, "utf-8")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description="Installs releases for the tests and prints where.")
    parser.add_argument("versions", nargs="*", help="as 1.51.0, or kimi-code-2.1.0")
    parser.add_argument("--quick", action="store_true", help="those of the selection")
    chosen = parser.parse_args()
    if not chosen.versions and not chosen.quick:
        parser.error("name a release, or --quick")
    rows = json.loads(Path(__file__).with_name("releases.json").read_text("utf-8"))["releases"] if chosen.quick else {}
    # The server of Kimi Code comes with its release.
    quick = [name for name, row in rows.items() if "quick" in row and not name.startswith("kimi-code-web")]
    for version in [*chosen.versions, *quick]:
        name, _, number = version.rpartition("-")
        install = kimi_code if name else command
        print(*install(number, say=lambda text: print(text, file=sys.stderr)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
