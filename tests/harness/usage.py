"""Mistakes of a caller and lacks of a machine, said in one sentence with what helps."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def stop(program: str, said: str) -> NoReturn:
    """Ends the program with this sentence on stderr, and exit code 1."""
    raise SystemExit(f"{program}: {said}")


def chosen(program: str, option: str, given: str, known: Iterable[str]) -> list[str]:
    """The names of an option, separated by commas. Ends the program if one of them is unknown."""
    names, all_known = [name.strip() for name in given.split(",")], list(known)
    for name in names:
        if name not in all_known:
            stop(program, f"{option} has no {name!r}; it takes {', '.join(all_known)}, separated by commas")
    return names


def needs(program: str, *paths: Path | str) -> None:
    """Ends the program unless these files, or programs on PATH, are there. `make build` makes the files."""
    for path in paths:
        if isinstance(path, Path):
            if not path.exists():
                stop(program, f"{path} is missing; run `make build` first")
        elif shutil.which(path) is None:
            stop(program, f"the program {path} is missing; install it, then run `make setup`")


def needs_package(program: str) -> None:
    """Ends the program unless this interpreter has the Python package."""
    if importlib.util.find_spec("kimi_agent") is None:
        stop(program, "this Python has no package kimi_agent; run `make build`, and this with .cache/venv/bin/python")


def reported(program: str, run: Callable[[], int]) -> int:
    """Runs it. A full disk and a missing program are reported in one sentence."""
    try:
        return run()
    except OSError as error:
        if error.errno in _NO_SPACE:
            place = error.filename or tempfile.gettempdir()
            stop(
                program, f"no space is left for {os.fsdecode(place)}; delete files there, or set TMPDIR to another disk"
            )
        if isinstance(error, FileNotFoundError) and error.filename and os.sep not in os.fsdecode(error.filename):
            needs(program, os.fsdecode(error.filename))
        raise
