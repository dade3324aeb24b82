"""Agents that try to leave a sandbox: to write outside, read what is hidden, reach the network, outlive the session."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attacks.programs import ROOT, agent, played
from harness.scenario import LANGUAGES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="this sandbox is that of Linux")


@pytest.fixture(scope="module")
def path_with_bubblewrap() -> str:
    """A PATH with bubblewrap: the system's, or the one that `make fetch` puts into .cache."""
    folder = ROOT / ".cache" / "bubblewrap" / "usr" / "bin"
    path = f"{os.environ['PATH']}{os.pathsep}{folder}"
    assert shutil.which("bwrap", path=path), "bubblewrap is missing: run `make fetch`, or `apt-get install bubblewrap`"
    return path


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is not in the directory of temporary files, which a sandbox replaces."""
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
        yield Path(folder)


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def reported(
    language: str, folder: Path, path: str, port: int, place: dict[str, Any]
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """What the agent says of its attempts, and the trace."""
    project, outside, hidden = (folder / name for name in ("project", "outside", "hidden"))
    for directory in (project, outside, hidden):
        directory.mkdir()
    (hidden / "key").write_text("canary")
    os.mkfifo(project / "pipe")
    options = {
        "executable": agent("sandboxed", str(outside), str(hidden / "key"), str(port), str(project / "pipe")),
        "work_dir": str(project),
        "env": {"PATH": path, "HOME": str(folder)},
        "place": {"type": "sandbox", "hide": [str(hidden)], **place},
    }
    reader = os.open(project / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        turn = [{"op": "open"}, {"op": "prompt", "input": "hi"}, {"op": "result"}, {"op": "close"}]
        lines = played(language, folder, options, turn)
        # The pipe comes to its end, when no process of the agent is left.
        poll = select.poll()
        poll.register(reader, select.POLLHUP)
        assert poll.poll(60_000)
    finally:
        os.close(reader)
    assert not list(outside.iterdir())
    assert not (folder / ".bashrc-of-test").exists()
    text = next((line["text"] for line in lines if line.get("op") == "result" and "text" in line), None)
    assert text is not None, lines
    return json.loads(text), lines


@pytest.mark.parametrize("language", LANGUAGES)
def test_sandboxed_agent_stays_inside(language: str, folder: Path, path_with_bubblewrap: str, listener: int) -> None:
    report, _ = reported(language, folder, path_with_bubblewrap, listener, {"network": False})
    refused = ("OSError", "PermissionError", "FileNotFoundError")
    assert report.pop("project") == "written"
    assert report.pop("temporary") == "written"
    assert report.pop("outlive") == "started"
    for attempt in ("outside", "home", "by_link", "system", "kernel", "terminal", "secret", "secret_again"):
        assert report.pop(attempt) in refused, attempt
    assert report.pop("network") == "ConnectionRefusedError"
    assert report == {"docker": "gone", "umount": "refused", "host_processes": "gone"}
    assert (folder / "project" / "allowed").exists()
    assert not Path("/tmp/allowed").exists()


@pytest.mark.parametrize("network", [True, False])
def test_sandbox_that_reads_root_has_own_processes(
    network: bool, folder: Path, path_with_bubblewrap: str, listener: int
) -> None:
    place = {"read": ["/"], "network": network}
    report, _ = reported("python", folder, path_with_bubblewrap, listener, place)
    assert report["project"] == "written"
    assert report["kernel"] in ("OSError", "PermissionError")
    assert (report["docker"], report["umount"], report["host_processes"]) == ("gone", "refused", "gone")


def test_hidden_home_directory_shows_the_project(folder: Path, path_with_bubblewrap: str, listener: int) -> None:
    place = {"write": ["."], "hide": [str(folder)]}
    report, _ = reported("python", folder, path_with_bubblewrap, listener, place)
    assert report["project"] == "written"
    assert report["home"] == "OSError"
    assert report["secret"] == "FileNotFoundError"


@pytest.mark.parametrize("path", ["/proc/sys", "/sys", "/dev", "/run", "link"])
def test_kernel_is_not_written(path: str, tmp_path: Path, path_with_bubblewrap: str) -> None:
    (tmp_path / "link").symlink_to("/proc/sys")
    options = {
        "executable": agent("sandboxed", "/", "/", "1", "/"),
        "work_dir": str(tmp_path),
        "env": {"PATH": path_with_bubblewrap},
        "place": {"type": "sandbox", "write": [path]},
    }
    [line] = played("python", tmp_path, options, [{"op": "open"}])
    assert line["error"] == "invalid_option"


def test_sandbox_has_a_network_by_default(folder: Path, path_with_bubblewrap: str, listener: int) -> None:
    report, _ = reported("python", folder, path_with_bubblewrap, listener, {})
    assert report["network"] == "connected"


def test_read_only_sandbox_writes_nothing(folder: Path, path_with_bubblewrap: str, listener: int) -> None:
    report, _ = reported("python", folder, path_with_bubblewrap, listener, {"write": []})
    assert report["project"] == "OSError"
    assert not (folder / "project" / "allowed").exists()


def test_agent_does_not_start_without_bubblewrap(tmp_path: Path) -> None:
    options = {
        "executable": agent("sandboxed", "/", "/", "1", "/"),
        "env": {"PATH": str(tmp_path)},
        "place": {"type": "sandbox"},
    }
    [line] = played("python", tmp_path, options, [{"op": "open"}])
    assert line["error"] == "spawn_error"
