"""The server of server-sent events, with clients that disconnect in the middle of an answer."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import DEADLINE, HERE, Environment

HANGING = [{"text": "One, two, "}, {"wait_cancel": True}]
SCRIPT = [HANGING, HANGING, [{"text": "Hello!"}]]


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


def get(port: int, path: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    connection.request("GET", path)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    return connection, response


def events(response: http.client.HTTPResponse) -> Generator[dict[str, Any]]:
    for line in response:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def text_of(event: dict[str, Any]) -> str:
    return str(event["payload"]["text"]) if event["type"] == "ContentPart" else ""


def test_client_that_disconnects_stops_its_answer_and_no_other(
    agent: Callable[..., Environment], tmp_path: Path
) -> None:
    with served(agent(SCRIPT, SCRIPT), tmp_path) as port:
        others, other = get(port, "/ask?user=b&question=Count")
        assert next(filter(None, map(text_of, events(other)))) == "One, two, "
        for _ in range(2):
            connection, response = get(port, "/ask?user=a&question=Count")
            assert next(filter(None, map(text_of, events(response)))) == "One, two, "
            response.close()
            connection.close()
            until = time.monotonic() + DEADLINE
            while get(port, "/state?user=a")[1].read() != b'"idle"':
                assert time.monotonic() < until, "the turn goes on without its client"
        assert get(port, "/state?user=b")[1].read() == b'"active"'
        _, response = get(port, "/ask?user=a&question=Hi")
        assert "".join(map(text_of, events(response))) == "Hello!"
        other.close()
        others.close()
