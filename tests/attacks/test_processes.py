"""Attacks on how agents are started, signalled and ended, and on what a start takes."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from attacks.support import DEADLINE, Host, gone, kill, limited, scripted, shared_folder
from faults.squeeze import nth_free

Start = Callable[..., Host]
FRIENDLY = [[{"text": "Hello"}]]
STUBBORN = [[{"ignore_eof": True}, {"ignore_signal": "TERM"}, {"text": "a"}]]
"""After its turn it ends neither by the end of its input nor by TERM."""
DENIED = (sys.executable, str(Path(__file__).with_name("deny_signals.py")))
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def opened(host: Host, command: list[str], **options: object) -> int:
    pid = host.do("open", options={"executable": command, **options})["pid"]
    assert isinstance(pid, int)
    return pid


def timeouts(language: str, **seconds: float) -> dict[str, float]:
    """Options in the language's spelling, and its unit."""
    if language == "node":
        return {f"{name}Timeout": value * 1000 for name, value in seconds.items()}
    return {f"{name}_timeout": value for name, value in seconds.items()}


@pytest.mark.needs("python", "python-sync")
def test_default_sigpipe_does_not_end_host(host: Start, tmp_path: Path) -> None:
    it = host()
    it.do("default_action", signal="SIGPIPE")
    for _ in range(25):
        assert it.do("open", options={"executable": ["/bin/false"]})["error"] in ("agent_exited", "spawn_error")
    # In mid-session: the agent closes its input and stays.
    rude = [sys.executable, "-I", "-S", str(Path(__file__).parent.parent / "faults/agents/rude.py")]
    opened(it, [*rude, "closes_stdin_between_turns"])
    for _ in range(2):
        it.do("prompt", input="hi")
    it.do("close")
    opened(it, scripted(tmp_path, FRIENDLY))
    assert it.do("prompt", input="hi")["text"] == "Hello"
    assert it.end() == 0


def test_close_returns_if_agent_survives_kill(host: Start, language: str, tmp_path: Path) -> None:
    it = host(*DENIED)
    pid = opened(it, scripted(tmp_path, STUBBORN), **timeouts(language, close=0.1))
    try:
        assert it.do("prompt", input="hi")["status"] == "finished"
        for _ in range(2):
            closed = it.do("close")
            assert closed["error"] == "timeout"
            assert f"process {pid} still runs" in closed["message"]
            assert "another user" in closed["message"]
            assert f"kill -KILL {pid}" in closed["message"]
        opened(it, scripted(tmp_path, FRIENDLY))
        assert it.do("prompt", input="hi")["text"] == "Hello"
        assert it.do("close") == {}
        assert it.end() == 0
    finally:
        kill(pid)


def test_dropped_session_with_surviving_agent_is_logged(host: Start, language: str, tmp_path: Path) -> None:
    it = host(*DENIED)
    it.do("log")
    pid = opened(it, scripted(tmp_path, STUBBORN), **timeouts(language, close=0.1))
    try:
        assert it.do("prompt", input="hi")["status"] == "finished"
        it.do("drop")
        while f"process {pid} still runs" not in it.stderr:
            it.do("log")
    finally:
        kill(pid)


@as_root
@pytest.mark.needs("python", "python-sync")
def test_close_returns_after_host_drops_privileges(host: Start, language: str, tmp_path: Path) -> None:
    it = host()
    pid = opened(it, scripted(tmp_path, STUBBORN), **timeouts(language, close=0.1))
    assert it.do("prompt", input="hi")["status"] == "finished"
    it.do("become", uid=NOBODY)
    closed = it.do("close")
    assert closed["error"] == "timeout", closed
    assert f"process {pid} still runs" in closed["message"]
    it.do("become", uid=0)
    kill(pid)
    assert gone(pid)


def test_agent_in_another_process_group_is_ended(host: Start, language: str, tmp_path: Path) -> None:
    # It tries its grandparent's group, its parent's and that of a child; then it becomes a stubborn agent.
    script = (
        "import os, sys, time\n"
        "child = os.fork()\n"
        "if child == 0: os.setpgid(0, 0); time.sleep(1000000)\n"
        "for group in (os.getpgid(os.getppid()), os.getppid(), child):\n"
        "    try: os.setpgid(0, group)\n"
        "    except OSError: pass\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    it = host()
    agent = [sys.executable, "-I", "-S", "-c", script, *scripted(tmp_path, STUBBORN)]
    pid = opened(it, agent, dialect="1.10", **timeouts(language, close=0.1))
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]
    try:
        assert it.do("prompt", input="hi")["status"] == "finished"
        assert it.do("close") == {}
        assert gone(pid)
    finally:
        for child in children:
            kill(child)


def test_agent_cannot_open_terminal_of_host(host: Start, tmp_path: Path) -> None:
    # The host has a controlling terminal, as in a shell; its agents have none.
    terminal = (
        "import fcntl, os, pty, sys, termios\n"
        "master, slave = pty.openpty()\n"
        "os.setsid()\n"
        "fcntl.ioctl(slave, termios.TIOCSCTTY, 0)\n"
        "os.set_inheritable(slave, True); os.set_inheritable(master, True)\n"
        "os.close(os.open('/dev/tty', os.O_RDWR))\n"
        "os.execvp(sys.argv[1], sys.argv[1:])\n"
    )
    it = host(sys.executable, "-c", terminal)
    agent = f'(stty -a </dev/tty || echo none) >"{tmp_path}/terminal" 2>/dev/null; exec "$@"'
    opened(it, ["/bin/sh", "-c", agent, "sh", *scripted(tmp_path, FRIENDLY)], dialect="1.10")
    assert it.do("prompt", input="hi")["text"] == "Hello"
    assert (tmp_path / "terminal").read_text("ascii") == "none\n"


@pytest.mark.parametrize("free", [0, 1, 2, 3, 4, 5, 6, 7, 8])
def test_first_use_without_descriptors_is_spawn_error(host: Start, tmp_path: Path, free: int) -> None:
    it = host()
    agent = scripted(tmp_path, FRIENDLY)
    used = {int(descriptor) for descriptor in os.listdir(f"/proc/{it.pid}/fd")}
    with limited(it.pid, resource.RLIMIT_NOFILE, nth_free(used, free)):
        for _ in range(2):
            failed = it.do("open", options={"executable": agent})
            assert failed.get("error") == "spawn_error", failed
            assert "too many open files" in failed["message"].lower(), failed
    opened(it, agent)
    assert it.do("prompt", input="hi")["text"] == "Hello"
    assert it.do("close") == {}
    assert it.end() == 0
    assert "panic" not in it.stderr.lower(), it.stderr


@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "SIGABRT"])
def test_commands_of_terminals_end_with_host(host: Start, language: str, tmp_path: Path, end: str) -> None:
    script = "trap '' TERM HUP; sleep 1000000 & echo $! $$ >pids.new; mv pids.new pids; wait; sleep 1000000"
    command = {"terminal": {"command": "sh", "args": ["-c", script], "cwd": str(tmp_path)}}
    agent = scripted(tmp_path, {"release": "2.1.0", "turns": [[command]]})
    it = host()
    work_dir = {"workDir" if language == "node" else "work_dir": str(tmp_path)}
    it.do("open", options={"executable": agent, **work_dir}, terminals=str(tmp_path))
    it.tell("prompt", input="hi")
    pids = tmp_path / "pids"
    deadline = time.monotonic() + DEADLINE
    while not pids.exists():
        assert time.monotonic() < deadline, it.stderr
        time.sleep(0.01)
    left = [int(pid) for pid in pids.read_text("ascii").split()]
    try:
        os.kill(it.pid, getattr(signal, end))
        assert [pid for pid in left if not gone(pid)] == []
    finally:
        for pid in left:
            kill(pid)


def others_can_read(path: Path) -> bool:
    """Whether a user without rights of its own can: with a umask of 027 or 077, other users can read no clone."""
    folders = all(folder.stat().st_mode & 0o001 for folder in path.parents)
    return folders and path.stat().st_mode & 0o004 != 0


@as_root
def test_first_use_without_threads_is_spawn_error(host: Start, language: str) -> None:
    natives = Path(__file__).resolve().parents[2].glob("bindings-node/*.node")
    if language == "node" and not all(map(others_can_read, natives)):
        pytest.skip("Node loads its native file at the first use, and another user cannot read it in this clone")
    with shared_folder() as folder:
        it = host(TMPDIR=str(folder))
        agent = [str(folder / "agent"), *scripted(folder, FRIENDLY)[1:]]
        options = {"executable": agent, "workDir" if language == "node" else "work_dir": str(folder)}
        # The limit does not hold for root, who could set it only before.
        soft, hard = resource.prlimit(it.pid, resource.RLIMIT_NPROC)
        resource.prlimit(it.pid, resource.RLIMIT_NPROC, (0, hard))
        it.do("become", uid=NOBODY)
        for _ in range(2):
            failed = it.do("open", options=options)
            assert failed.get("error") == "spawn_error", failed
        if language == "node":
            # It cannot take the limit back.
            assert it.end() == 0
            return
        it.do("become", uid=0)
        resource.prlimit(it.pid, resource.RLIMIT_NPROC, (soft, hard))
        it.do("open", options=options)
        assert it.do("prompt", input="hi")["text"] == "Hello"
        assert it.do("close") == {}
        assert it.end() == 0
        assert "panic" not in it.stderr.lower(), it.stderr


@pytest.mark.needs("python", "python-sync")
def test_host_ignoring_sigchld_can_use_agents(host: Start, tmp_path: Path) -> None:
    it = host()
    it.do("ignore", signal="SIGCHLD")
    opened(it, scripted(tmp_path, [[{"text": "a"}], [{"exit": 3}]]))
    assert it.do("prompt", input="hi")["status"] == "finished"
    died = it.do("prompt", input="hi")
    # The system has thrown the exit status away.
    assert (died["error"], died["exit_code"], died["signal"]) == ("agent_exited", None, None)
    assert it.do("close") == {}
    opened(it, scripted(tmp_path, FRIENDLY))
    assert it.do("close") == {}


def test_empty_tmpdir_keeps_working_directory_clean(host: Start, tmp_path: Path) -> None:
    agent = scripted(tmp_path, FRIENDLY)
    it = host(TMPDIR="")
    before = sorted(tmp_path.iterdir())
    opened(it, agent, config={"default_model": "m", "providers": {}, "models": {}})
    assert sorted(tmp_path.iterdir()) == before
    assert it.do("prompt", input="hi")["text"] == "Hello"
    assert it.do("close") == {}
    assert sorted(tmp_path.iterdir()) == before


def test_agent_dies_with_killed_host(host: Start, tmp_path: Path) -> None:
    it = host(TMPDIR=str(tmp_path))
    pid = opened(it, scripted(tmp_path, STUBBORN))
    assert it.do("prompt", input="hi")["status"] == "finished"
    os.kill(it.pid, signal.SIGKILL)
    assert gone(pid)


def test_server_dies_with_killed_host(host: Start, tmp_path: Path) -> None:
    it = host(TMPDIR=str(tmp_path))
    pid = opened(it, scripted(tmp_path, FRIENDLY), dialect="kimi-web")
    assert it.do("prompt", input="hi")["status"] == "finished"
    os.kill(it.pid, signal.SIGKILL)
    assert gone(pid)


@pytest.mark.needs("python", "python-sync")
def test_agent_dies_when_host_calls_exec(host: Start, tmp_path: Path) -> None:
    it = host(TMPDIR=str(tmp_path))
    pid = opened(it, scripted(tmp_path, STUBBORN))
    assert it.do("prompt", input="hi")["status"] == "finished"
    it.tell("execv", argv=["/bin/cat"])
    assert gone(pid)
