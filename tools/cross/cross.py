#!/usr/bin/env python3
"""Builds the Python wheel and the npm packages for other systems, and tries those that can be run on this machine.

    tools/cross/cross.py [--quick] [--all-tests] [--only build|test] [--out FOLDER] [TARGET…]

Without a target it takes all of targets.py that can be linked here. On Linux, zig is the linker for all of them. On
macOS and Windows it is the system's own. `--quick` compiles without the optimisations of a release, in a tenth of the
time. `--all-tests` also runs a part of the bindings' tests, and README's programs with the packages from registries on
this machine. All tools are kept below .cache/cross.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from build import build, compiler, pack
from common import CACHE, ROOT, require
from readme import try_readme
from registries import Registries, serve
from runners import NEEDED
from suites import try_suites
from targets import TARGETS, default_targets
from trial import try_packages


def try_target(name: str, out: Path, registries: Registries | None, *, quick: bool) -> bool:
    """Tries the packages of a target. Registries are for README's programs, and stand for all tests."""
    target = TARGETS[name]
    place = CACHE / "run" / name
    place.mkdir(parents=True, exist_ok=True)
    system = target.run(place) if target.run else None
    with tempfile.TemporaryDirectory(prefix="kimi-agent-cross-") as scratch:
        folder = Path(scratch)
        is_right = try_packages(name, target, system, out, folder)
        if registries and system:
            is_right &= try_suites(name, system, folder)
    if registries:
        is_right &= try_readme(compiler(name, quick), system, registries)
    return is_right


def build_inspector() -> None:
    """Builds the page that the command of the packages contains."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm, which builds the page of the inspector, is not on PATH")
    for arguments in (["ci", "--no-audit", "--no-fund", "--loglevel=error"], ["run", "--silent", "build"]):
        subprocess.run([npm, *arguments], cwd=ROOT / "inspector", check=True)


def main() -> int:
    """Exits with 1 if a program did not do what it must."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--all-tests", action="store_true")
    parser.add_argument("--only", choices=["build", "test"])
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "cross")
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], metavar="TARGET")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    names = arguments.targets or default_targets()
    # An hour of building must not end with the message that a program is missing.
    runs = [TARGETS[name].run for name in names] if arguments.only != "build" else []
    require({program: package for run in runs if run for program, package in NEEDED.get(run, {}).items()})
    if arguments.only != "test":
        build_inspector()
        subprocess.run([sys.executable, ROOT / "tools" / "third_party.py"], check=True)
        for name in names:
            print(f"\n{name}", flush=True)
            build(compiler(name, arguments.quick), out)
        pack(out)
    if arguments.only == "build":
        return 0
    with contextlib.ExitStack() as stack:
        registries = None
        if arguments.all_tests:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kimi-agent-registries-"))
            registries = stack.enter_context(serve(out, Path(folder)))
        failed = [name for name in names if not try_target(name, out, registries, quick=arguments.quick)]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
