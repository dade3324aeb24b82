"""Places for tests on this machine: containers of Podman, and an ssh server on loopback."""

from __future__ import annotations

import contextlib
import io
import os
import select
import shutil
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from attacks.programs import AGENTS

__all__ = ["Podman", "SshServer", "held", "podman", "python", "ssh_server"]

WAIT = 60.0
"""Nothing takes that long; waiting ends there, so that a test fails instead of hanging."""
# The machine's own /usr is mounted, so the image has only links into it.
LINKS = ("bin", "sbin", "lib", "lib64")
FOLDERS = ("usr", "etc", "tmp", "root", "proc", "sys", "dev", "run", "work")
# Containers on virtual machines may not raise limits, and crun refuses hybrid cgroups.
CONFIGURATION = """
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=10000:10000"]
[engine]
runtime = "runc"
"""


def python() -> str:
    """This interpreter, without the virtual environment around it."""
    return os.path.realpath(sys.executable)


def agent(pipe: str) -> list[str]:
    """The agent of `agents/placed.py` at its own path."""
    return [python(), "-I", "-S", str(AGENTS / "placed.py"), pipe]


@contextlib.contextmanager
def held(pipe: Path) -> Iterator[None]:
    """A pipe. At the end it waits until no process holds its other end."""
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield
        poll = select.poll()
        poll.register(reader, select.POLLHUP)
        assert poll.poll(WAIT * 1000), "a process of the agent is left"
    finally:
        os.close(reader)


@dataclass
class Podman:
    """Podman, with an image for tests."""

    image: str
    started: list[str] = field(default_factory=list)

    def run(self, *words: str) -> str:
        """The output of a command of Podman."""
        done = subprocess.run(["podman", *words], capture_output=True, text=True, timeout=WAIT, check=False)
        assert done.returncode == 0, f"podman {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def agents(self) -> list[str]:
        """The names of the containers of agents, whether they run or not."""
        return self.run("ps", "--all", "--filter", "name=kimi-agent-", "--format", "{{.Names}}").split()

    def mounts(self, work_dir: Path) -> dict[str, str]:
        """The mounts of an agent in Python that works in this directory."""
        same = {"/usr", str(AGENTS), str(Path(python()).parent.parent)}
        return {str(work_dir): "/work", **{path: f"{path}:ro" for path in sorted(same)}}

    def place(self, work_dir: Path, **settings: Any) -> dict[str, Any]:
        """A fresh container with these settings."""
        mount = self.mounts(work_dir)
        return {"type": "container", "runtime": "podman", "image": self.image, "mount": mount, **settings}

    def start(self, work_dir: Path) -> str:
        """A running container with the same mounts."""
        volumes = [word for path, inside in self.mounts(work_dir).items() for word in ("-v", f"{path}:{inside}")]
        name = f"{self.image}-{len(self.started)}"
        self.run("run", "-d", "--init", "--name", name, *volumes, self.image, "sleep", "100000")
        self.started.append(name)
        return name


@contextlib.contextmanager
def podman(folder: Path) -> Iterator[Podman]:
    """Makes the image, and removes it at the end."""
    for program in ("podman", "runc"):
        if not shutil.which(program):
            pytest.skip(f"{program} is missing: `apt-get install podman runc catatonit`")
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in FOLDERS:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(entry)
        for name in LINKS:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(entry)
    configuration = folder / "containers.conf"
    configuration.write_text(CONFIGURATION)
    before = os.environ.get("CONTAINERS_CONF")
    os.environ["CONTAINERS_CONF"] = str(configuration)
    made = Podman(f"places-{os.getpid()}")
    try:
        archive_path = folder / "image.tar"
        archive_path.write_bytes(content.getvalue())
        made.run("import", str(archive_path), made.image)
        yield made
    finally:
        for name in made.started:
            subprocess.run(["podman", "rm", "-f", "-t", "0", name], capture_output=True, timeout=WAIT, check=False)
        subprocess.run(["podman", "rmi", "-f", made.image], capture_output=True, timeout=WAIT, check=False)
        if before is None:
            del os.environ["CONTAINERS_CONF"]
        else:
            os.environ["CONTAINERS_CONF"] = before


@dataclass
class SshServer:
    """An ssh server of this user, with keys of its own."""

    folder: Path
    port: int

    def options(self, **changed: str) -> list[str]:
        """Arguments of `ssh` for this server, which read no file of the user."""
        names = {"IdentityFile": "key", "UserKnownHostsFile": "known", "Port": str(self.port), **changed}
        files = ("IdentityFile", "UserKnownHostsFile")
        settings = [f"{name}={self.folder / value if name in files else value}" for name, value in names.items()]
        words = ["-F", "none", *(word for setting in settings for word in ("-o", setting))]
        return [*words, "-o", "IdentitiesOnly=yes", "-o", "GlobalKnownHostsFile=none"]

    def place(self, work_dir: str, **changed: str) -> dict[str, Any]:
        """This machine over ssh."""
        return {"type": "ssh", "host": "127.0.0.1", "work_dir": work_dir, "options": self.options(**changed)}


@contextlib.contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Starts the server."""
    program = shutil.which("sshd", path=f"/usr/sbin:{os.environ['PATH']}")
    if not program:
        pytest.skip("the ssh server is missing: `apt-get install openssh-server`")
    for name in ("host", "key", "other"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True, timeout=WAIT)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "nobody").write_text("")
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "key.pub",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
    }
    (folder / "config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    command = [program, "-D", "-e", "-f", str(folder / "config")]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr
        said = ""
        while "Server listening" not in said:
            line = server.stderr.readline()
            assert line, f"the ssh server has ended: {said}"
            said += line
        yield SshServer(folder, port)
    finally:
        server.terminate()
        server.communicate()
