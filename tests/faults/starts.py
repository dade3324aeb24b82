"""Agents that can't be started, and systems that have nothing left to start them with."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .fault import CLOSE, OPEN, PROMPT, RESULT, Fault, Step, error, step

SQUEEZE = [sys.executable, "-I", "-S", str(Path(__file__).with_name("squeeze.py"))]
FEW = 12
"""So many free descriptors are more than a start takes."""


def failing(message: str) -> tuple[Step, ...]:
    return (step("open", error("spawn_error", message)),)


def spawns() -> Iterator[Fault]:
    """Each with a program of its own, which the steps make first."""

    def fault(name: str, message: str, command: str, content: str | None = None, mode: str = "700") -> Fault:
        make = () if content is None else (step("run", argv=[*MAKE, command, mode, content.encode("latin-1").hex()]),)
        return Fault("can't be started", f"spawn_{name}", (*make, *failing(message)), command=(command,))

    yield fault("missing", r"{dir}/no \(from the `executable` option\) does not exist", "{dir}/no")
    yield fault("missing_on_path", "`no-such-kimi`", "no-such-kimi")
    yield fault("folder", r"{dir} \(.*\) is a directory", "{dir}")
    yield fault("not_executable", "is not executable", "{dir}/kimi", "#!/bin/sh\n", "600")
    yield fault("no_interpreter", '"/no/such/sh" to run it, which does not exist', "{dir}/kimi", "#!/no/such/sh\n")
    yield fault("carriage_return", r"/bin/sh\\r", "{dir}/kimi", "#!/bin/sh\r\n")
    yield fault("garbage", "neither a binary nor a script", "{dir}/kimi", "garbage\n")
    yield fault("empty", "neither a binary nor a script", "{dir}/kimi", "")
    yield fault("other_machine", "for another kind of machine", "{dir}/kimi", "\x7fELF\x02\x01\x01" + "\0" * 9 + "\x02")
    for name, work_dir, message in (
        ("missing", "{dir}/no", "{dir}/no.* (does not exist|no such directory)"),
        ("file", "{dir}/good.json", "{dir}/good.json.* not a directory"),
    ):
        yield Fault(
            "no such working directory",
            f"work_dir_{name}",
            (step("open", {"error": "~.", "message": "~" + message}),),
            [[]],
            options={"work_dir": work_dir},
            # Each language spells the option its own way.
            calm=False,
        )


MAKE = [sys.executable, "-I", "-S", "-c", "import os, sys; path, mode, text = sys.argv[1:]; "
        "open(path, 'wb').write(bytes.fromhex(text)); os.chmod(path, int(mode, 8))"]  # fmt: skip


def squeezed(what: str, amount: int, *inside: Step) -> tuple[Step, ...]:
    """Steps that are taken while this process lacks something."""
    file = "{dir}/squeezed"
    return (
        step("run", argv=[*SQUEEZE, "{pid}", what, str(amount), file]),
        *inside,
        step("remove", path=file),
        step("wait_file", path=f"{file}.lifted"),
    )


def descriptors() -> Iterator[Fault]:
    no_more = error("spawn_error", "too many open files")
    # A session before shows that it is not the machine, and has what a process opens once opened.
    before = (OPEN, PROMPT, RESULT, CLOSE)
    for free in range(FEW + 1):
        # The number that is needed depends on the language. The call must work, or report why it does not.
        start = no_more if free == 0 else {"ok": True} if free == FEW else ({"ok": True}, no_more)
        yield Fault(
            "no descriptors left",
            f"descriptors_{free:02}",
            (*before, *squeezed("descriptors", free, step("open", start)), CLOSE),
            [[{"text": "a"}]],
            calm=False,
        )


def disks() -> Iterator[Fault]:
    config: dict[str, Any] = {"config": {"default_model": "m", "providers": {}, "models": {}}}
    full = error("spawn_error", "private file.*File too large")
    yield Fault(
        "no disk space for temporary files",
        "disk_full",
        squeezed("file-size", 0, step("open", full, options=config)),
        [[]],
    )
    nowhere = error("spawn_error", "private.*/no/such/place")
    yield Fault(
        "no place for temporary files",
        "no_tmpdir",
        (step("open", nowhere, options=config),),
        [[]],
        env=(("TMPDIR", "/no/such/place"),),
        # The folder's name is a random one.
        calm=False,
    )


def faults() -> Iterator[Fault]:
    yield from spawns()
    yield from descriptors()
    yield from disks()
