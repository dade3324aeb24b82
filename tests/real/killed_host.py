#!/usr/bin/env python3
"""Kills a program that uses Kimi Code over its own server, while a command of it runs: neither may stay.

    python tests/real/killed_host.py

The server gets a signal then. Its commands are in sessions of their own.
The server ends them if it gets the signal once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from harness.real import kimi_code_configuration, toml  # noqa: E402 (the path has to be set first)

from real import install  # noqa: E402
from real.model import ScriptedModel  # noqa: E402

RELEASE = "2.1.0"
# Kimi Code gives a command some seconds to end. This is for a server that stays.
PATIENCE = 60.0


async def host(executable: str, work_dir: str) -> None:
    """The program that is killed."""
    from kimi_agent import create_session

    async with create_session(executable=executable, dialect="kimi-web", yolo=True, work_dir=work_dir) as session:
        print(session.pid, flush=True)
        await session.prompt("Run it").result()


def is_there(pid: int) -> bool:
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def wait(path: Path) -> int:
    """The process id that the command has written down."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            return int(path.read_text("utf-8"))
        time.sleep(0.05)
    raise SystemExit("killed_host: the command of the agent was not started")


def main() -> int:
    if not Path("/proc/self/stat").exists():
        print("killed_host: only where there is /proc")
        return 0
    (kimi,) = install.kimi_code(RELEASE, say=print)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        home = Path(folder)
        command = {"command": f"echo $$ > {home}/pid; sleep 1000; true"}
        replies = [{"calls": [{"id": "c1", "name": "Bash", "arguments": command}]}]
        model = stack.enter_context(ScriptedModel(replies))
        (home / "config.toml").write_text(toml(kimi_code_configuration(model.base_url)), "utf-8")
        path = os.pathsep.join([str(install.node_of(RELEASE).parent), os.environ.get("PATH", os.defpath)])
        env = {**os.environ, "KIMI_CODE_HOME": folder, "PATH": path}
        argv = [sys.executable, __file__, kimi, folder]
        program = stack.enter_context(subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True))
        assert program.stdout is not None
        server = int(program.stdout.readline())
        tool = wait(home / "pid")
        if not (is_there(server) and is_there(tool)):
            raise SystemExit("killed_host: the server and its command do not run")
        program.kill()
        end = time.monotonic() + PATIENCE
        while (is_there(server) or is_there(tool)) and time.monotonic() < end:
            time.sleep(0.05)
        stayed = [name for name, pid in (("the server", server), ("its command", tool)) if is_there(pid)]
        with contextlib.suppress(ProcessLookupError):
            # It leads a session of its own.
            os.killpg(tool, signal.SIGKILL)
        if stayed:
            raise SystemExit(f"killed_host: {' and '.join(stayed)} stayed after the program was killed")
    print("killed_host: the server and its command have ended")
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 3:
        asyncio.run(host(sys.argv[1], sys.argv[2]))
    else:
        sys.exit(main())
