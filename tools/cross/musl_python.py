"""Builds CPython for musl from the source that Debian has, because no registry has it ready to run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import debian
from common import programs, wrapper

NAME = "python3.13"
TARGET = "x86_64-linux-musl"


def build(prefix: Path, suite: str) -> Path:
    """Builds it into a folder, unless it is there, and returns the program."""
    program = prefix / "bin" / NAME
    if program.exists():
        return program
    source = debian.source(prefix.parent, NAME, suite)
    [zig] = programs("build").parent.glob("lib/python*/site-packages/ziglang/zig")
    # What configure cannot find out without running a program.
    answers = {"ac_cv_file__dev_ptmx": "yes", "ac_cv_file__dev_ptc": "no", "ac_cv_buggy_getaddrinfo": "no"}
    # The libraries of this machine are for another C library. Optimising would take longer than all tests.
    env = {**os.environ, "READELF": "readelf", "PKG_CONFIG": "false", "OPT": "-O0", **answers}
    commands = {"CC": f"cc -target {TARGET} -dynamic", "CXX": f"c++ -target {TARGET} -dynamic", "AR": "ar"}
    for variable, command in commands.items():
        script = source / f"zig-{variable.lower()}"
        script.write_text(f'#!/bin/sh\nexec "{zig}" {command} "$@"\n', "utf-8")
        script.chmod(0o755)
        env[variable] = str(script)
    compiler = same_release(prefix.parent, suite)
    options = ["--without-ensurepip", "--disable-test-modules", f"--prefix={prefix}", f"--with-build-python={compiler}"]
    steps = [
        ["./configure", "-q", f"--host={TARGET}", "--build=x86_64-linux-gnu", *options],
        ["make", "-s", f"-j{os.cpu_count()}"],
        ["make", "-s", "install"],
    ]
    with (prefix.parent / "python.log").open("w", encoding="utf-8") as log:
        for step in steps:
            done = subprocess.run(step, cwd=source, env=env, stdout=log, stderr=subprocess.STDOUT, check=False)
            if done.returncode:
                raise SystemExit(f"CPython for musl cannot be built: {log.name}")
    shutil.rmtree(source)
    return program


def same_release(folder: Path, suite: str) -> Path:
    """The same release for this machine, which compiles a part of it. It brings its own C library."""
    root = debian.extract(folder, "build", ("python3",), suite=suite)
    loader = f'"{root}/lib64/ld-linux-x86-64.so.2" --library-path "{root}/usr/lib/x86_64-linux-gnu" --argv0 "$0"'
    return wrapper(folder / f"build-{NAME}", f'{loader} "{root}/usr/bin/{NAME}"', PYTHONHOME=f"{root}/usr")
