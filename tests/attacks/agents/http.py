"""Speaks ACP, sends malformed requests to the program's tool server, then calls the tool correctly: `http.py REPORT`.

The report is a JSON object: for each malformed request the status of its answer (0: none), and what the tool said.
"""

import json
import os
import socket
import sys
from urllib.parse import urlsplit

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}}  # fmt: skip


def say(message):
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def exchange(address, data, finish=True):
    """Sends bytes as they are; what comes back until the server closes, or has said nothing for a while."""
    with socket.create_connection(address, timeout=10) as connection:
        try:
            connection.sendall(data)
            if finish:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            while part := connection.recv(65536):
                answer += part
        except OSError:
            return b""
        return answer


def status(answer):
    try:
        return int(answer.split(b" ", 2)[1])
    except (IndexError, ValueError):
        return 0


def requests(host, secret):
    """37 malformed requests, by name. Each but the last ten carries the secret."""
    body = json.dumps(INITIALIZE).encode()
    size_of_body = len(body)
    usual = f"Host: {host}\r\nAuthorization: {secret}\r\nContent-Type: application/json\r\n"
    usual += "Accept: application/json, text/event-stream"

    def post(head=usual, length=size_of_body, content=body, line="POST /mcp HTTP/1.1", more=""):
        size = "" if length is None else f"\r\nContent-Length: {length}"
        return f"{line}\r\n{head}{size}{more}\r\nConnection: close\r\n\r\n".encode("latin-1") + content

    def without(name):
        return "\r\n".join(row for row in usual.split("\r\n") if not row.startswith(name))

    nested = b"[" * 100_000
    secret_less = {
        "no secret": post(without("Authorization")),
        "empty secret": post(usual.replace(secret, "")),
        "other scheme": post(usual.replace("Bearer ", "Basic ")),
        "secret cut short": post(usual.replace(secret, secret[:-1])),
        "secret and more": post(usual.replace(secret, secret + "0")),
        "secret twice": post(more=f"\r\nAuthorization: {secret}"),
        "secret in another header": post(usual.replace("Authorization", "X-Authorization")),
        "secret in the address": post(without("Authorization"), line=f"POST /mcp?secret={secret[7:]} HTTP/1.1"),
        "secret in a cookie": post(without("Authorization") + f"\r\nCookie: {secret}"),
        "secret in capitals": post(usual.replace(secret, secret.upper())),
    }
    return {
        "nothing": b"",
        "one byte": b"P",
        "empty lines": b"\r\n" * 1000,
        "zeros": b"\0" * 10_000,
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xff" * 500,
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 100,
        "HTTP/0.9": b"GET /mcp\r\n",
        "HTTP/9.9": post(line="POST /mcp HTTP/9.9"),
        "no method": post(line=" /mcp HTTP/1.1"),
        "odd method": post(line="P\x80ST /mcp HTTP/1.1"),
        "no such method": post(line="BREW /mcp HTTP/1.1"),
        "long address": post(line=f"POST /{'a' * 200_000} HTTP/1.1"),
        "other path": post(line="POST /mcp/../etc/passwd HTTP/1.1"),
        "connect": post(line="CONNECT example.com:443 HTTP/1.1"),
        "no host": post(without("Host")),
        "other host": post(usual.replace(host, "example.com")),
        "origin": post(more="\r\nOrigin: http://example.com"),
        "1,000 headers": post(more="".join(f"\r\nX-{n}: {n}" for n in range(1000))),
        "a header of 1 MB": post(more=f"\r\nX-Long: {'x' * 1_000_000}"),
        "a folded header": post(more="\r\nX-A: b\r\n folded"),
        "a bare line feed in a header": post(more="\r\nX-A: b\nX-B: c\0"),
        "length and chunks": post(more="\r\nTransfer-Encoding: chunked"),
        "two lengths": post(more="\r\nContent-Length: 1"),
        "negative length": post(length=-1),
        "huge length": post(length=2**64),
        "body nested 100,000 deep": post(length=len(nested), content=nested),
        "body that is no JSON": post(length=5, content=b"hello"),
        **secret_less,
    }


def call(address, host, secret):
    """The tool's output for a correct client."""
    session = ""

    def post(message):
        body = json.dumps(message).encode()
        head = f"POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: {secret}\r\nContent-Type: application/json\r\n"
        head += f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n"
        head += f"Connection: close\r\n{session}\r\n"
        return exchange(address, head.encode() + body, finish=False).decode()

    opened = post(INITIALIZE)
    for row in opened.split("\r\n"):
        if row.lower().startswith("mcp-session-id:"):
            session = row + "\r\n"
    post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return post(
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "echo", "arguments": {"a": "still here"}},
        }
    )


report = {}
for line in sys.stdin.buffer:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params", {})
    if method == "initialize":
        say({"id": number, "result": {"protocolVersion": 1, "agentCapabilities": {"mcpCapabilities": {"http": True}}}})
    elif method == "session/new":
        server = params["mcpServers"][0]
        place = urlsplit(server["url"])
        say({"id": number, "result": {"sessionId": "only"}})
    elif method == "session/prompt":
        address, secret = (place.hostname, place.port), server["headers"][0]["value"]
        report["requests"] = {
            name: status(exchange(address, data)) for name, data in requests(place.netloc, secret).items()
        }
        report["call"] = call(address, place.netloc, secret)
        with open(sys.argv[1], "w") as file:
            json.dump(report, file)
        say({"id": number, "result": {"stopReason": "end_turn"}})
    elif number is not None:
        say({"id": number, "result": {}})
