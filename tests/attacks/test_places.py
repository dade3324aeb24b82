"""Agents in containers and over ssh that try to stay or to reach more, and what is refused before they start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attacks import places
from attacks.places import Podman, SshServer, agent, held
from attacks.programs import AGENTS, played
from harness import releases
from harness.real import staged
from harness.scenario import LANGUAGES, Scenario
from real.install import kimi_code, node_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Podman and the ssh server are those of Linux")
ENDS = ("close", "cancel", "exit", "kill")
# Opens a session, lets its agent stay, and ends in one of the ways.
HOST = """
import json, os, signal, sys
from kimi_agent import Timeout, sync
executable, place, way = json.loads(sys.argv[1])
options = {"executable": executable, "place": place, "close_timeout": 0.5, "cancel_timeout": 0.5}
session = sync.create_session(work_dir=".", **options)
assert session.prompt("stay").result().text == '"stays"'
if way == "cancel":
    try:
        session.prompt("hang").cancel()
    except Timeout:
        session.close()
if way == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if way == "close":
    session.close()
os._exit(0)
"""
# Prints the code and the text of the error of a session with these prompts.
FAILING = """
import json, sys
from kimi_agent import KimiAgentError, sync
executable, place, *prompts = json.loads(sys.argv[1])
try:
    session = sync.create_session(executable=executable, place=place, work_dir=".")
    for prompt in prompts:
        session.prompt(prompt).result()
except KimiAgentError as error:
    print(json.dumps([error.code, str(error)]))
"""
# A tool of the program.
LOOKUP = {
    "name": "lookup",
    "description": "Looks a value up.",
    "parameters": {"type": "object", "properties": {}},
    "behaviour": {
        "return_value": {"is_error": False, "output": "the value of the program", "message": "", "display": []}
    },
}


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    with places.podman(tmp_path_factory.mktemp("podman")) as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with places.ssh_server(tmp_path_factory.mktemp("ssh")) as started:
        yield started


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def asked(language: str, project: Path, options: dict[str, Any], prompt: str = "look") -> list[dict[str, Any]]:
    """The trace of one turn."""
    turn = [{"op": "open"}, {"op": "prompt", "input": prompt}, {"op": "result"}, {"op": "close"}]
    return played(language, project.parent, {"work_dir": str(project), **options}, turn)


def answer(lines: list[dict[str, Any]]) -> Any:
    text = next((line["text"] for line in lines if line.get("op") == "result" and "text" in line), None)
    assert text is not None, lines
    return json.loads(text)


def error_of(project: Path, place: dict[str, Any], executable: list[str], *prompts: str) -> tuple[str, str]:
    """The code and the text of the error of a session."""
    words = [sys.executable, "-c", FAILING, json.dumps([executable, place, *prompts])]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, timeout=places.WAIT, check=False)
    assert done.stdout, done.stderr
    code_of_error, text = json.loads(done.stdout)
    return code_of_error, text


def ended(project: Path, place: dict[str, Any], way: str) -> None:
    """Runs the host whose agent stays, until the host has ended."""
    words = [sys.executable, "-c", HOST, json.dumps([agent("/work/pipe"), place, way])]
    if place["type"] == "ssh":
        words[-1] = json.dumps([agent(str(project / "pipe")), place, way])
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, timeout=places.WAIT, check=False)
    assert done.returncode == (-signal.SIGKILL if way == "kill" else 0), done.stderr


def without_containers(podman: Podman) -> bool:
    """Whether the containers of agents are gone, now or soon."""
    until = time.monotonic() + places.WAIT
    while podman.agents() and time.monotonic() < until:
        time.sleep(0.2)
    return not podman.agents()


# --- containers ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_paths_and_variables_in_container(language: str, project: Path, podman: Podman) -> None:
    env = {"CANARY": "a b\n\\c", "HOME": "/tmp"}
    options = {"executable": agent("/none"), "env": env, "place": podman.place(project)}
    assert answer(asked(language, project, options)) == {"cwd": "/work", "canary": "a b\n\\c", "home": "/tmp", "uid": 0}
    assert podman.agents() == []


def test_hostile_agent_in_container_stays_inside(project: Path, podman: Podman) -> None:
    secret = project.parent / "secret"
    secret.write_text("canary")
    with held(project / "pipe"), socket.create_server(("127.0.0.1", 0)) as listener:
        words = [places.python(), "-I", "-S", str(AGENTS / "sandboxed.py")]
        words += [str(project.parent), str(secret), str(listener.getsockname()[1]), "/work/pipe"]
        report = answer(asked("python", project, {"executable": words, "place": podman.place(project, network=False)}))
    refused = ("OSError", "PermissionError", "FileNotFoundError")
    assert (report["project"], report["outlive"], report["network"]) == ("written", "started", "ConnectionRefusedError")
    for attempt in ("outside", "by_link", "system", "secret", "secret_again", "terminal"):
        assert report[attempt] in refused, attempt
    assert (report["docker"], report["umount"], report["host_processes"]) == ("gone", "refused", "gone")
    assert (project / "allowed").exists()
    assert not (project.parent / "file").exists()
    assert podman.agents() == []


def test_network_of_container(project: Path, podman: Podman) -> None:
    # The group may read what a clone has, whatever the umask is.
    place = podman.place(project, user=f"1234:{os.getgid()}")
    assert answer(asked("python", project, {"executable": agent("/none"), "place": place}))["uid"] == 1234
    options = {"executable": agent("/none"), "place": place, "dialect": "acp", "tools": [LOOKUP]}
    assert asked("python", project, options)[0]["error"] == "unsupported"


@pytest.mark.parametrize("way", ENDS)
def test_removal_of_container(way: str, project: Path, podman: Podman) -> None:
    with held(project / "pipe"):
        ended(project, podman.place(project), way)
        if way == "close":
            assert podman.agents() == []
    assert without_containers(podman)


@pytest.mark.parametrize("way", ["close", "exit", "kill"])
def test_agent_in_running_container_ends_however_the_program_ends(way: str, project: Path, podman: Podman) -> None:
    name = podman.start(project)
    place = {"type": "container", "runtime": "podman", "name": name, "mount": podman.mounts(project)}
    with held(project / "pipe"):
        ended(project, place, way)
    assert podman.run("inspect", "-f", "{{.State.Running}}", name).strip() == "true"


def test_agent_runs_in_running_container(project: Path, podman: Podman) -> None:
    place = {"type": "container", "runtime": "podman", "name": podman.start(project), "mount": podman.mounts(project)}
    options = {"executable": agent("/none"), "env": {"CANARY": "x"}, "place": place}
    report = answer(asked("node", project, options))
    assert (report["cwd"], report["canary"]) == ("/work", "x")


def test_container_that_cannot_start_is_an_error(project: Path, podman: Podman) -> None:
    place = podman.place(project)
    for settings, executable, expected, part in [
        ({"image": "no-such:1"}, agent("/none"), "agent_exited", "run `podman pull no-such:1`"),
        ({"image": None, "name": "no-such"}, agent("/none"), "agent_exited", "the container no-such does not exist"),
        ({"args": ["--no-such-flag"]}, agent("/none"), "agent_exited", "podman did not start the container"),
        ({}, ["no-such-agent"], "agent_exited", "the container has no program no-such-agent"),
        ({"runtime": "no-such"}, agent("/none"), "spawn_error", "install it, or set another `runtime`"),
        ({"mount": {str(AGENTS): "/work"}}, agent("/none"), "invalid_option", "outside of the directories"),
        ({"mount": {"no-such": "/work"}}, agent("/none"), "invalid_option", "does not exist"),
    ]:
        code, text = error_of(project, {**place, **settings}, executable)
        assert code == expected, text
        assert part in text, text
    assert podman.agents() == []


# --- ssh ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_agent_over_ssh_has_its_paths_and_variables(language: str, project: Path, server: SshServer) -> None:
    there = project.parent / "there"
    there.mkdir()
    env = {"CANARY": "a b\n\\c'"}
    report = answer(
        asked(language, project, {"executable": agent("/none"), "env": env, "place": server.place(str(there))})
    )
    assert (report["cwd"], report["canary"], report["uid"]) == (str(there), "a b\n\\c'", os.getuid())


@pytest.mark.parametrize("way", ENDS)
def test_agent_over_ssh_ends_however_the_program_ends(way: str, project: Path, server: SshServer) -> None:
    with held(project / "pipe"):
        ended(project, server.place(str(project)), way)


def test_dropped_connection_is_the_cause_of_the_exit(project: Path, server: SshServer) -> None:
    with held(project / "pipe"):
        executable = agent(str(project / "pipe"))
        code, text = error_of(project, server.place(str(project)), executable, "stay", "drop")
    assert (code, "ssh has no connection to 127.0.0.1" in text) == ("agent_exited", True), text


def test_host_that_cannot_be_used_is_an_error(project: Path, server: SshServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        free = str(closed.getsockname()[1])
    for place, executable, part in [
        (server.place("/", IdentityFile="other"), agent("/none"), "it did not accept a key"),
        (server.place("/", UserKnownHostsFile="nobody"), agent("/none"), "its key is not known"),
        (server.place("/", Port=free), agent("/none"), "no ssh server listens there"),
        ({**server.place("/"), "host": "no-such-host.invalid"}, agent("/none"), "the name is not known"),
        (server.place("/no/such/directory"), agent("/none"), "has no directory /no/such/directory"),
        (server.place("/"), ["no-such-agent"], "the program no-such-agent was not found on 127.0.0.1"),
    ]:
        code, text = error_of(project, place, executable)
        assert (code, part in text) == ("agent_exited", True), text


# --- a real agent ---


@pytest.mark.parametrize("kind", ["container", "ssh"])
def test_kimi_code_works_in_place(kind: str, tmp_path: Path, podman: Podman, server: SshServer) -> None:
    version = next(one for one in releases.quick() if releases.release(one).kimi_code)
    release = releases.release(version)
    executable = kimi_code(release.number)
    turn = [{"op": "open"}, {"op": "prompt", "input": "Write a file"}, {"op": "result"}, {"op": "close"}]
    inside = "/work" if kind == "container" else str(tmp_path / "there")
    call = {"id": "c1", "name": "Write", "arguments": {"path": f"{inside}/made.txt", "content": "made"}}
    model: list[dict[str, Any]] = [{"calls": [call]}, {"text": "Done"}]
    settings: dict[str, Any] = {"on_approval": {"answers": ["approve"]}}
    if kind == "container":
        name = "mcp__program__lookup"
        model.insert(1, {"offers": [name], "calls": [{"id": "c2", "name": name, "arguments": {}}]})
        model[2]["needs"] = ["the value of the program"]
        settings["tools"] = [LOOKUP]
    data = {"name": "place", "agent": {"kimi": {"model": model}}, "options": settings, "program": turn}
    with staged(Scenario(Path("place.json"), data), tmp_path / "case", release) as (case, _):
        options = dict(case["options"])
        work_dir = Path(options["work_dir"])
        if kind == "ssh":
            os.symlink(work_dir, inside)
            place = server.place(inside)
        else:
            folder = node_of(release.number).parent.parent.parent.parent
            home = options["env"]["HOME"]
            mount = {str(work_dir): "/work", home: home, "/usr": "/usr:ro", str(folder): f"{folder}:ro"}
            place = podman.place(work_dir, mount=mount, args=["--network=host"])
        options |= {"executable": executable, "place": place}
        lines = played("python", tmp_path, options, case["program"])
    result = next(line for line in lines if line.get("op") == "result")
    assert (result["status"], result["text"]) == ("finished", "Done"), lines
    assert (work_dir / "made.txt").read_text() == "made"
