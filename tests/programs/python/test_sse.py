"""The server of server-sent events, with clients that disconnect in the middle of an answer."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from conftest import DEADLINE, HERE, Environment

HANGING = [{"text": "One, two, "}, {"wait_cancel": True}]
OTHER = [[{"text": "One, two, "}, {"wait_file": "go"}, {"text": "three."}]]
JSON = {"content-type": "application/json"}


@contextmanager
def served(env: Environment, folder: Path) -> Generator[int]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    port: int = listener.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "sse:app", "--app-dir", str(HERE), "--fd", str(listener.fileno())]
    server = subprocess.Popen(
        command, env=env, cwd=folder, pass_fds=[listener.fileno()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    listener.close()
    try:
        yield port
    finally:
        server.terminate()
        said, _ = server.communicate(timeout=DEADLINE)
        assert "Traceback" not in said, said


def post(
    port: int, user: str, question: str, headers: dict[str, str] = JSON
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    connection.request("POST", "/ask", json.dumps({"user": user, "question": question}), headers)
    return connection, connection.getresponse()


def events(response: http.client.HTTPResponse) -> Generator[tuple[str, str]]:
    assert response.status == 200, response.read()
    event = ""
    for line in response:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            event = value
        elif name == "data":
            yield event, json.loads(value)


def test_disconnected_client_stops_only_its_answer(agent: Callable[..., Environment], tmp_path: Path) -> None:
    with served(agent(OTHER, [HANGING, HANGING, [{"text": "Hello!"}]]), tmp_path) as port:
        others, other = post(port, "b", "Count")
        of_other = events(other)
        assert next(of_other) == ("text", "One, two, ")
        for _ in range(2):
            connection, response = post(port, "a", "Count")
            assert next(events(response)) == ("text", "One, two, ")
            response.close()
            connection.close()
        # The question waits until the turn of the client that disconnected has ended.
        connection, response = post(port, "a", "Hi")
        assert list(events(response)) == [("text", "Hello!"), ("end", "finished")]
        (tmp_path / "go").touch()
        assert list(of_other) == [("text", "three."), ("end", "finished")]
        others.close()
        connection.close()


def test_failed_turn_is_event_then_recovers(agent: Callable[..., Environment], tmp_path: Path) -> None:
    with served(agent([[{"text": "I feel "}, {"exit": 3}]], [[{"text": "Hello!"}]]), tmp_path) as port:
        _, response = post(port, "a", "Hi")
        assert list(events(response)) == [("text", "I feel "), ("error", "agent_exited")]
        _, response = post(port, "a", "Hi")
        assert list(events(response)) == [("text", "Hello!"), ("end", "finished")]


def test_foreign_form_or_host_is_refused(agent: Callable[..., Environment], tmp_path: Path) -> None:
    with served(agent([]), tmp_path) as port:
        assert post(port, "a", "Hi", {"content-type": "text/plain"})[1].status == 422
        assert post(port, "a", "Hi", {**JSON, "host": "rebound.example"})[1].status == 400
