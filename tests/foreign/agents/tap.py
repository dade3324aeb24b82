"""Stands between the SDK and an agent, and between the agent and the SDK's own MCP server.

    tap.py DIRECTORY PROGRAM [ARGUMENT…]

The agent gets another address for the server `program` in `session/new`, which leads to the server. The file
`progress` in the directory has what passes there: for each call whether it asks for progress, and each report of
progress. The file `listed` is made after the agent got the list of tools.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

# They are about one connection, and each side has its own.
OF_CONNECTION = {"host", "connection", "keep-alive", "transfer-encoding", "content-length"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target = ""
    directory = Path()

    def log_message(self, *_: object) -> None:
        """Nothing is printed, because stdout is the agent's."""

    def forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked: dict[str, Any] = json.loads(body) if body else {}
        if asked.get("method") == "tools/call":
            meta = asked["params"].get("_meta") or {}
            self.note("a call that asks for progress" if "progressToken" in meta else "a call")
        connection = HTTPConnection(self.target)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in OF_CONNECTION}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        self.close_connection = True
        # The agent may have ended.
        with contextlib.suppress(ConnectionError):
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in OF_CONNECTION:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while line := answer.readline():
                self.note_report(line)
                self.wfile.write(line)
                self.wfile.flush()
        connection.close()
        if asked.get("method") == "tools/list":
            (self.directory / "listed").touch()

    do_GET = do_POST = do_DELETE = forward

    def note_report(self, line: bytes) -> None:
        """Writes a report down before it is passed on."""
        message: Any = None
        with contextlib.suppress(ValueError):
            message = json.loads(line.removeprefix(b"data:"))
        if isinstance(message, dict) and message.get("method") == "notifications/progress":
            params = message["params"]
            self.note(f"progress {params['progress']} of {params.get('total')}: {params.get('message')}")

    def note(self, text: str) -> None:
        with (self.directory / "progress").open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")


def with_own_address(line: bytes, port: int) -> bytes:
    """The SDK's line for the agent; the address of the server `program` is the one of this program."""
    message = json.loads(line)
    if message.get("method") != "session/new":
        return line
    for server in message["params"]["mcpServers"]:
        if server["name"] == "program":
            address = urlsplit(server["url"])
            Handler.target = address.netloc
            server["url"] = address._replace(netloc=f"127.0.0.1:{port}").geturl()
    return json.dumps(message).encode() + b"\n"


def main() -> None:
    directory, *command = sys.argv[1:]
    Handler.directory = Path(directory)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    agent = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert agent.stdin is not None
    to_agent = agent.stdin

    def inward() -> None:
        with contextlib.suppress(BrokenPipeError):
            for line in sys.stdin.buffer:
                to_agent.write(with_own_address(line, server.server_address[1]))
                to_agent.flush()
            to_agent.close()

    threading.Thread(target=inward, daemon=True).start()
    status = agent.wait()
    # The other threads may be waiting for a line that never comes.
    os._exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
