"""Looks for known weaknesses in all that is shipped, built with or tested with: the lock files and the requirements.

advisories.py             says which database cannot be reached, and leaves out its files
advisories.py --strict    fails if a database cannot be reached

cargo-deny asks the database of RustSec, npm the registry of npm, and pip-audit PyPI.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# They hold releases of other projects, which are measured or driven as they are.
OF_OTHERS = ("bench/", "tests/foreign/")


class UnreachableError(Exception):
    """A database cannot be reached. The text says why."""


@dataclass(frozen=True)
class Audit:
    """How the files of one kind are audited. `find` returns the weaknesses in a file."""

    pattern: str
    find: Callable[[str], list[str]]


def cargo(file: str) -> list[str]:
    manifest = str(Path(file).with_name("Cargo.toml"))
    options = ["--locked", "--manifest-path", manifest, "--config", "deny.toml"]
    ended = run("cargo-deny", *options, "check", "--hide-inclusion-graph", "advisories")
    if "failed to fetch advisory database" in ended.stderr:
        raise UnreachableError(ended.stderr.strip().splitlines()[-1])
    return [ended.stderr.strip()] if ended.returncode else []


def npm(file: str) -> list[str]:
    ended = run("npm", "audit", "--json", "--package-lock-only", "--fetch-retries=0", folder=ROOT / Path(file).parent)
    report = json.loads(ended.stdout or "{}")
    if "security/advisories" in report.get("message", ""):
        raise UnreachableError(report["message"])
    if "vulnerabilities" not in report:
        return [f"npm audit failed: {ended.stdout}{ended.stderr}"]
    return [f"{each['name']} ({each['severity']}): {reasons(each)}" for each in report["vulnerabilities"].values()]


def reasons(package: dict[str, object]) -> str:
    """The titles of the weaknesses of a package, or the packages that it has them from."""
    via = package["via"]
    assert isinstance(via, list)
    return ", ".join(each if isinstance(each, str) else f"{each['title']}, {each['url']}" for each in via)


@functools.cache
def ask_about_pip_audit() -> None:
    """Raises an error if PyPI does not know its own package: then it is a mirror, which has no database."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text(f"pip-audit=={importlib.metadata.version('pip-audit')}\n", "utf-8")
        ended = run("pip-audit", "--requirement", str(file), "--no-deps", "--disable-pip", *REPORT)
    if "HTTPSConnectionPool" in ended.stderr or "skip_reason" in ended.stdout:
        raise UnreachableError((ended.stdout or ended.stderr).strip().splitlines()[-1])


def pip(file: str) -> list[str]:
    ask_about_pip_audit()
    ended = run("pip-audit", "--requirement", file, *REPORT)
    if not ended.stdout:
        return [f"pip-audit failed: {ended.stderr}"]
    found = json.loads(ended.stdout)["dependencies"]
    skipped = [each["skip_reason"] for each in found if "skip_reason" in each]
    return [
        f"{each['name']} {each['version']}: {weakness['id']}, fixed in {', '.join(weakness['fix_versions']) or 'none'}"
        for each in found
        for weakness in each.get("vulns", [])
    ] + skipped


REPORT = ("--format", "json", "--progress-spinner", "off")
AUDITS = (Audit("*Cargo.lock", cargo), Audit("*package-lock.json", npm), Audit("*requirements*.txt", pip))


def run(*command: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    # The programs of this environment come first.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def main() -> int:
    strict = sys.argv[1:] == ["--strict"]
    failed = False
    for audit in AUDITS:
        listed = subprocess.run(
            ["git", "ls-files", audit.pattern], cwd=ROOT, check=True, capture_output=True, text=True
        )
        files = [file for file in listed.stdout.splitlines() if not file.startswith(OF_OTHERS)]
        for file in files:
            try:
                found = audit.find(file)
            except UnreachableError as error:
                print(f"skipped: the database for {', '.join(files)} cannot be reached: {error}")
                failed |= strict
                break
            print(f"{file}: {len(found) or 'no'} known weaknesses", *found, sep="\n  ")
            failed |= bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
