#!/usr/bin/env python3
"""The version, which Cargo.toml says, in all the other files that name it; and what a release must consist of.

release.py check              fails if a file names another version
release.py check TAG          also if the tag, such as v1.2.3, is for another, or CHANGELOG.md has no date for it
release.py crates             prints the names of the published crates, in the order of their dependencies
release.py packages FOLDER    fails unless the packages of all systems and the crates are there, in this version
release.py set VERSION        writes another version into all files
release.py notes              prints the section of CHANGELOG.md for this version
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLATFORMS = "bindings-node/lib/platforms.ts"
WHEELS = (
    "macosx_11_0_arm64",
    "macosx_11_0_x86_64",
    "manylinux2014_aarch64*",
    "manylinux2014_x86_64*",
    "musllinux_1_2_aarch64",
    "musllinux_1_2_x86_64",
    "win_amd64",
    "win_arm64",
)
# Each finds all places of the version in a file, between two groups.
PLACES = (
    ("Cargo.toml", r'(?m)(^version = ")([^"]+)(")'),
    ("Cargo.toml", r'(?m)(^kimi-agent.* version = ")([^"]+)(")'),
    ("bindings-node/package.json", r'(^{\s+"name": "kimi-agent",\s+"version": ")([^"]+)(")'),
    ("bindings-node/package-lock.json", r'("name": "kimi-agent",\s+"version": ")([^"]+)(")'),
    ("bindings-node/lib/version.ts", r'(VERSION = ")([^"]+)(")'),
    ("tests/programs/node/electron/package.json", r'("kimi-agent": "\^)([^"]+)(")'),
    ("tests/programs/python/docker/Dockerfile", r"(kimi-agent==)([\d.]+)()"),
    ("tests/programs/python/review.yml", r"(kimi-agent==)([\d.]+)()"),
    ("bindings-python/python/kimi_agent/__init__.py", r'(?m)(^__version__ = ")([^"]+)(")'),
)


def current(root: Path) -> str:
    found = re.search(PLACES[0][1], (root / "Cargo.toml").read_text("utf-8"))
    if not found:
        raise SystemExit("Cargo.toml has no version")
    return found[2]


def differing(root: Path, version: str) -> list[str]:
    """The files that name another version than this, or none."""
    complaints = []
    for name, pattern in PLACES:
        versions = {match[1] for match in re.findall(pattern, (root / name).read_text("utf-8"))}
        if versions != {version}:
            complaints.append(f"{name} has {' and '.join(sorted(versions)) or 'no version'}, Cargo.toml {version}")
    return complaints


def section(root: Path, version: str) -> tuple[str, str] | None:
    """The date and the text of a version in CHANGELOG.md."""
    text = (root / "CHANGELOG.md").read_text("utf-8")
    found = re.search(rf"(?ms)^## \[{re.escape(version)}\] - (\S+)\n(.*?)(?=^## |\Z)", text)
    return (found[1], found[2].strip()) if found else None


def check(root: Path, tag: str | None = None) -> list[str]:
    version = current(root)
    complaints = differing(root, version)
    if tag is not None:
        if tag != f"v{version}":
            complaints.append(f"the tag is {tag}, the version {version}")
        found = section(root, version)
        if not found or not re.fullmatch(r"\d{4}-\d\d-\d\d", found[0]):
            complaints.append(f"CHANGELOG.md has no section with a date for {version}")
    return complaints


def crates(root: Path) -> list[str]:
    """The published crates, which the Makefile names in the order of their dependencies."""
    found = re.search(r"(?m)^CRATES := (.*)$", (root / "Makefile").read_text("utf-8"))
    return re.findall(r"-p (\S+)", found[1]) if found else []


def packages(root: Path, folder: Path) -> list[str]:
    version = current(root)
    names = re.findall(r'(?m)^  "([\w-]+)": \{ os', (root / PLATFORMS).read_text("utf-8"))
    patterns = [f"kimi-agent-{version}.tgz"]
    patterns += [f"kimi-agent-{name}-{version}.tgz" for name in names]
    patterns += [f"kimi_agent-{version}-cp310-abi3-{tag}.whl" for tag in WHEELS]
    patterns.append(f"kimi_agent-{version}.tar.gz")
    patterns += [f"{name}-{version}.crate" for name in crates(root)]
    return [f"{pattern} is missing" for pattern in patterns if len(list(folder.glob(pattern))) != 1]


def change(root: Path, version: str) -> list[str]:
    # The registries spell versions with more parts differently.
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        return [f"{version} is not a version of three numbers"]
    for name, pattern in PLACES:
        path = root / name
        path.write_text(re.sub(pattern, rf"\g<1>{version}\g<3>", path.read_text("utf-8")), "utf-8")
    for lock in subprocess.check_output(["git", "ls-files", "*Cargo.lock"], cwd=root, text=True).split():
        manifest = root / lock.replace("Cargo.lock", "Cargo.toml")
        subprocess.run(
            ["cargo", "update", "--quiet", "--workspace", f"--manifest-path={manifest}"], cwd=root, check=True
        )
    return []


def notes(root: Path) -> list[str]:
    found = section(root, current(root))
    if not found:
        return [f"CHANGELOG.md has no section for {current(root)}"]
    print(found[1])
    return []


def print_crates(root: Path) -> list[str]:
    print("\n".join(crates(root)))
    return []


def main() -> int:
    commands: dict[str, Callable[..., list[str]]] = {
        "check": check,
        "crates": print_crates,
        "notes": notes,
        "packages": packages,
        "set": change,
    }
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        raise SystemExit(__doc__)
    name, *arguments = sys.argv[1:]
    complaints = commands[name](ROOT, *(Path(each) if name == "packages" else each for each in arguments))
    print("\n".join(complaints), file=sys.stderr, end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
