"""The server of approvals. The tests in Node show its page in a browser."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from conftest import DEADLINE, HERE, Environment

PAGE = HERE.parent / "node" / "approvals" / "page.html"


def write(file: str) -> dict[str, Any]:
    effect = {"write_file": file, "content": ""}
    return {
        "tool_call": {
            "name": "WriteFile",
            "arguments": {"path": file},
            "approve": {"description": f"Write {file}\u202e"},
            "effect": effect,
        }
    }


SAID = {"text": "You said {{last.response}}."}


class Client:
    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.host = parts.netloc
        self.headers = {"authorization": f"Bearer {parts.fragment}", "content-type": "application/json"}

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.host, timeout=DEADLINE)
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {**self.headers, **headers})
        return connection.getresponse()

    def post(self, path: str, body: Any) -> int:
        with closing(self.request("POST", path, body)) as response:
            return response.status

    @contextmanager
    def events(self) -> Generator[Generator[dict[str, Any]]]:
        with closing(self.request("GET", "/events")) as response:
            assert response.status == 200
            # As the page reads them: one line each.
            yield (json.loads(line.removeprefix(b"data: ")) for line in response if line != b"\n")


@contextmanager
def served(env: Environment, folder: Path) -> Generator[Client]:
    for file in (HERE / "approvals.py", PAGE):
        shutil.copy(file, folder)
    command = [sys.executable, "approvals.py"]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    server = subprocess.Popen(command, env=env, cwd=folder, **streams)
    try:
        assert server.stdout is not None
        yield Client(server.stdout.readline().strip())
    finally:
        server.send_signal(signal.SIGINT)
        said, _ = server.communicate(timeout=DEADLINE)
        assert "the turn failed" not in said, said
        assert "Traceback" not in said, said


def until(events: Generator[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(event for event in events if event["type"] == kind)


def test_person_decides_and_cancel_withdraws(agent: Callable[..., Environment], tmp_path: Path) -> None:
    script = [[write("a.txt"), SAID], [write("b.txt"), SAID], [write("c.txt"), SAID]]
    with served(agent(script), tmp_path) as client, client.events() as events:
        assert next(events) == {"type": "state", "state": "ready"}
        for answer, file in (("approve", "a.txt"), ("reject", "b.txt")):
            assert client.post("/prompt", {"prompt": "Write"}) == 204
            asked = until(events, "approval")
            assert (asked["description"], asked["input"]) == (f"Write {file}\\u202e", f'{{"path": "{file}"}}')
            assert client.post("/prompt", {"prompt": "Write"}) == 409
            # A page that is loaded again shows the approval that waits.
            with client.events() as again:
                assert until(again, "approval") == asked
            assert client.post("/answer", {"id": asked["id"], "answer": answer}) == 204
            assert client.post("/answer", {"id": asked["id"], "answer": answer}) == 404
            assert until(events, "resolved")["answer"] == answer
            assert until(events, "state") == {"type": "state", "state": "finished"}
            assert (tmp_path / file).exists() == (answer == "approve")
        assert client.post("/prompt", {"prompt": "Write"}) == 204
        until(events, "approval")
        assert client.post("/cancel", {}) == 204
        assert until(events, "resolved")["answer"] == "withdrawn"
        assert until(events, "state") == {"type": "state", "state": "cancelled"}
        assert not (tmp_path / "c.txt").exists()


def test_requests_without_token_or_with_other_host_are_refused(
    agent: Callable[..., Environment], tmp_path: Path
) -> None:
    with served(agent([]), tmp_path) as client:
        for method, path in (("GET", "/events"), ("POST", "/prompt"), ("POST", "/answer"), ("POST", "/cancel")):
            body = None if method == "GET" else {"prompt": "x", "id": "x", "answer": "approve"}
            assert client.request(method, path, body, authorization="Bearer x").status == 401
            assert client.request(method, path, body, host="rebound.example").status == 400
        page = client.request("GET", "/", authorization="")
        assert page.status == 200
        assert "NONCE" not in page.read().decode()
        assert "frame-ancestors 'none'" in (page.headers["content-security-policy"] or "")


def test_ctrl_c_ends_the_open_pages(agent: Callable[..., Environment], tmp_path: Path) -> None:
    with ExitStack() as pages, served(agent([[SAID]]), tmp_path) as client:
        events = pages.enter_context(client.events())
        assert next(events) == {"type": "state", "state": "ready"}
