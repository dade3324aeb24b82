#!/usr/bin/env python3
"""Checks the Rust code for systems whose programs cannot be linked here, with clippy: macOS, and Windows with MSVC.

    tools/cross/lint.py [TARGET…]

Clippy needs the standard library of a target, which rustup installs. Where rustup has none, the library is compiled
from Debian's sources with the compiler of the same version, and `cargo check` takes the place of clippy.
"""

from __future__ import annotations

import argparse
import os
import subprocess

import std
from common import CACHE, ROOT

TARGETS = ("x86_64-pc-windows-msvc", "aarch64-pc-windows-msvc", "x86_64-apple-darwin", "aarch64-apple-darwin")


def lint(target: str) -> bool:
    """Whether clippy finds nothing, in the tests and examples, too."""
    env = {**os.environ, "CARGO_TARGET_DIR": str(CACHE / "lint")}
    library = std.provide(target, env, CACHE)
    command = ["cargo", "check" if library else "clippy", "--locked", "--workspace", "--all-targets"]
    command += ["--target", target, "--features=kimi-agent/mcp,kimi-agent/testing,kimi-agent/otel,kimi-agent/kimi-web"]
    denied = [] if library else ["--", "-D", "warnings"]
    print(f"{target}: cargo {command[1]}", flush=True)
    return subprocess.run([*command, *library, "--quiet", *denied], cwd=ROOT, env=env, check=False).returncode == 0


def main() -> int:
    """Exits with 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=TARGETS, metavar="TARGET")
    failed = [target for target in parser.parse_args().targets if not lint(target)]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
