"""A language model that says what a case wrote down.

It is a streaming server on loopback, standard library only, of the APIs in `apis.py`. A case holds a list of
replies; each request of the agent takes the next one. A reply is an object, every key optional:

``think``, ``text``
    A string, or a list whose strings become one chunk each. A list may hold ``{"wait_file": path}``:
    the stream pauses there until that file exists, which is how a case lines up the program and the
    model without sleeping.
``calls``
    Tool calls, sent after the text: ``{"id", "name", "arguments": object or text, "pieces": 2}``.
``usage``
    ``{"input", "output", "cached"}``; 100, 10 and 0 when left out. ``cached`` is part of ``input``.
``end``
    ``"done"`` (default), ``"hang"``: the stream stays open until the agent hangs up, or ``"drop"``: the
    connection is closed without a word.
``finish``
    ``"token_limit"``, ``"content_filter"`` or ``"refusal"``: why the model ended, in the API's own word.
``status``
    An HTTP error with this status instead of a stream, ``message`` being its text. ``retry_after`` is the header of
    that name; ``body`` has the whole answer for an API, by the name of its class.
``for``
    The reply is for the next request that contains this text; to others it is as if it weren't there. This tells
    agents apart that work side by side.
``needs``, ``lacks``
    Strings that the request must, or must not, contain. If one doesn't hold, the reply is a text that
    says so, and the trace of the case shows it.
``offers``, ``withholds``
    Names of tools that the request must, or must not, offer.
``spare``
    True: a case may end without a request for this reply. It stands after the others, for what an agent may still ask
    while it is being cancelled.
``capture``
    ``{"name": regex}``: looked for in the texts of the request; ``{{name}}`` stands for the first group
    (or the whole match) in this reply and in all later ones.

A request too many is answered with the text ``(no reply left)``.
"""

from __future__ import annotations

import argparse
import json
import re
import select
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .apis import APIS, Anthropic, Api, Drop, Reply, Request, Step, Wait

POLL_SECONDS = 0.02


class ScriptedModel:
    """The server; use it as a context manager. ``requests`` keeps the bodies that came in."""

    def __init__(self, replies: list[Reply]) -> None:
        self._replies = list(replies)
        self._captured: dict[str, str] = {}
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self.requests: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.model = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def unused(self) -> int:
        """The number of unused replies, without the spare ones."""
        return sum(not reply.get("spare") for reply in self._replies)

    def __enter__(self) -> ScriptedModel:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def take(self, api: Api, request: Request) -> Reply:
        """The reply to this request, its placeholders filled in."""
        with self._lock:
            self.requests.append(request)
            texts = "\n".join(_strings(api.messages(request)))
            if api.is_aside(request):
                return {"text": "(aside)"}
            place = next((at for at, one in enumerate(self._replies) if one.get("for", "") in texts), None)
            if place is None:
                return {"text": "(no reply left)"}
            reply = self._replies.pop(place)
            objections = list(_objections(reply, request, api.offered(request)))
            for name, pattern in reply.get("capture", {}).items():
                found = re.search(pattern, texts)
                if found is None:
                    objections.append(f"nothing in the request matches {pattern!r}")
                else:
                    self._captured[name] = found.group(found.lastindex or 0)
            if objections:
                return {"text": f"(unexpected request: {'; '.join(objections)})"}
            return dict(_fill(reply, self._captured))


def _strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value, unescaped."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _objections(reply: Reply, request: Request, offered: set[Any]) -> Iterator[str]:
    texts = "\n".join(_strings(request))
    for text in reply.get("needs", []):
        if text not in texts:
            yield f"it lacks {text!r}"
    for text in reply.get("lacks", []):
        if text in texts:
            yield f"it has {text!r}"
    for name in reply.get("offers", []):
        if name not in offered:
            yield f"it doesn't offer {name}"
    for name in reply.get("withholds", []):
        if name in offered:
            yield f"it offers {name}"


def _fill(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("{{" + name + "}}", text)
        return value
    if isinstance(value, dict):
        return {key: _fill(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, names) for item in value]
    return value


class _ClientLeft(Exception):
    """The agent hung up, or the case is over."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Requests are kept, not printed."""

    @property
    def model(self) -> ScriptedModel:
        return self.server.model  # type: ignore[attr-defined,no-any-return]

    def do_GET(self) -> None:
        self._send_json(404, {"error": {"message": "there is nothing here"}})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        api = next((api for api in APIS if api.serves(self.path)), None)
        if api is None:
            self._send_json(404, {"error": {"message": "there is nothing here"}})
            return
        request = json.loads(body)
        reply = self.model.take(api, request)
        # Each answer closes its connection, so that a hang-up is always about this one stream.
        self.close_connection = True
        try:
            if "status" in reply:
                message = reply.get("message", f"scripted status {reply['status']}")
                body = reply.get("body", {}).get(type(api).__name__) or api.error(reply["status"], message)
                self._send_json(reply["status"], body, reply.get("retry_after"))
            elif isinstance(api, Anthropic) and not request.get("stream"):
                self._send_json(200, api.whole(str(reply.get("text", ""))))
            else:
                self._stream(api.stream(reply))
        except (_ClientLeft, ConnectionError):
            pass

    def _send_json(self, status: int, value: Any, retry_after: int | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, steps: Iterator[Step]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for step in steps:
            if isinstance(step, Drop):
                return
            if isinstance(step, Wait):
                self._wait_for(step.path)
            else:
                self._send(step)

    def _send(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def _wait_for(self, path: Path | None) -> None:
        """Waits until the file exists; without one, until the other side has closed the connection."""
        while path is None or not path.exists():
            readable, _, _ = select.select([self.connection], [], [], POLL_SECONDS)
            if self.model.closing.is_set():
                raise _ClientLeft
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise _ClientLeft


def main() -> int:
    """Serves a file of replies by hand, for trying out a case: prints the address, ends at end of input."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("replies", type=Path, help="JSON file with the list of replies")
    with ScriptedModel(json.loads(parser.parse_args().replies.read_text("utf-8"))) as model:
        print(model.base_url, flush=True)
        sys.stdin.read()
        print(f"{len(model.requests)} requests, {model.unused} replies unused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
