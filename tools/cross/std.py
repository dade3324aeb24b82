"""Provides Rust's standard library for a target: from rustup, or from the sources that Debian has."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import debian

# A compiler that knows all targets, and the sources of the same version.
PACKAGES = ("rustc-web", "rust-web-src", "libstd-rust-web-dev", "rust-web-llvm")


def provide(target: str, env: dict[str, str], cache: Path) -> list[str]:
    """Returns the arguments that cargo needs for the target, and changes `env` for the compiler that has to be used."""
    if installed(target):
        return []
    rustup = shutil.which("rustup")
    if rustup and subprocess.run([rustup, "target", "add", target], check=False).returncode == 0:
        return []
    print(f"rustup has no standard library for {target}: taking the sources that Debian has", flush=True)
    root = debian.extract(cache, "rust", PACKAGES)
    compiler = cache / "rustc"
    library_path = root / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
    compiler.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={library_path} exec {root}/usr/bin/rustc "$@"\n', "utf-8")
    compiler.chmod(0o755)
    # Building the standard library is unstable.
    env.update({"RUSTC": str(compiler), "RUSTC_BOOTSTRAP": "1"})
    return ["-Zbuild-std"]


def installed(target: str) -> bool:
    """Whether the compiler on PATH has the standard library of a target."""
    command = ["rustc", "--print", "target-libdir", "--target", target]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return any(Path(found).glob("libstd-*"))
