#!/usr/bin/env python3
"""Checks the published crates one by one, with the features that their users choose.

check_crates.py features CRATE…   compiles each crate without features, and with each of its features alone; then
                                  counts what a thin client compiles
check_crates.py docs CRATE…       builds the documentation of each crate as docs.rs does: with nightly Rust, with
                                  `--cfg docsrs`, and with the features of `package.metadata.docs.rs`
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# What a client without features compiles: at most so many lines of `cargo tree`, and none of these crates.
MOST_LINES = 85
NOT_THIN = {"kimi-agent-policy", "kimi-agent-testing", "rmcp", "hyper", "toml"}


def each_feature(crate: dict[str, Any]) -> list[list[str]]:
    """The commands that compile a crate without features, and with each alone."""
    command = ["cargo", "check", "-q", "--locked", "-p", crate["name"], "--no-default-features"]
    return [command, *([*command, "--features", feature] for feature in sorted(crate["features"]))]


def documentation(crate: dict[str, Any]) -> list[list[str]]:
    """The command that documents a crate as its manifest tells docs.rs."""
    wanted = ((crate["metadata"] or {}).get("docs") or {}).get("rs") or {}
    command = ["rustup", "run", "--install", "nightly", "cargo", "doc", "-q", "--locked", "--no-deps", "--lib"]
    command += ["-p", crate["name"], "--features", ",".join(wanted.get("features", []))]
    command += ["--all-features"] if wanted.get("all-features") else []
    command += ["--no-default-features"] if wanted.get("no-default-features") else []
    return [command]


def thick_client() -> str:
    """What a client without features compiles against the promise of docs/guides/rust.md."""
    tree = ["cargo", "tree", "--locked", "-e", "normal", "--prefix", "none"]
    command = [*tree, "-p", "kimi-agent", "--no-default-features"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    lines = set(done.stdout.splitlines())
    found = NOT_THIN & {line.split()[0] for line in lines if line}
    if not found and len(lines) <= MOST_LINES:
        return ""
    return f"kimi-agent without features: {len(lines)} lines of cargo tree, at most {MOST_LINES}; with {sorted(found)}"


def main() -> int:
    commands = {"features": each_feature, "docs": documentation}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        raise SystemExit(__doc__)
    what, *names = sys.argv[1:]
    env = {**os.environ, **({"RUSTDOCFLAGS": "--cfg docsrs -D warnings"} if what == "docs" else {})}
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version=1"]
    described = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    crates = {crate["name"]: crate for crate in json.loads(described.stdout)["packages"]}
    failed = [
        " ".join(command)
        for name in names
        for command in commands[what](crates[name])
        if subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
    ]
    if what == "features" and (thick := thick_client()):
        failed.append(thick)
    print("\n".join(f"failed: {command}" for command in failed), end="\n" if failed else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
