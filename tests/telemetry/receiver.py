"""A receiver of OTLP over HTTP on loopback, which keeps the spans and metrics of each request: protobuf or JSON."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Span = dict[str, Any]
# The path of each kind of request, its type, and the names of its lists.
KINDS = {
    "/v1/traces": (ExportTraceServiceRequest, "resourceSpans", "scopeSpans", "spans"),
    "/v1/metrics": (ExportMetricsServiceRequest, "resourceMetrics", "scopeMetrics", "metrics"),
}


class _Receiver(http.server.ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: dict[str, list[dict[str, Any]]] = {"spans": [], "metrics": []}


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Receiver

    def do_POST(self) -> None:
        body = self._body()
        is_json = self.headers["Content-Type"] == "application/json"
        request, resources, scopes, items = KINDS[self.path]
        found = json.loads(body) if is_json else MessageToDict(request.FromString(body))
        for resource in found[resources]:
            for scope in resource[scopes]:
                self.server.received[items] += scope[items]
        self.send_response(200)
        self.send_header("Content-Type", self.headers["Content-Type"])
        self.send_header("Content-Length", "2" if is_json else "0")
        self.end_headers()
        self.wfile.write(b"{}" if is_json else b"")

    def _body(self) -> bytes:
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        # In chunks, each with its size in a line of its own.
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def log_message(self, format: str, *args: Any) -> None:
        """Keeps the output of the tests free of requests."""


@contextmanager
def receiver() -> Iterator[tuple[str, dict[str, list[dict[str, Any]]]]]:
    """Starts a receiver. Gives its address, and the `spans` and `metrics` that it gets."""
    server = _Receiver()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server.received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def names(spans: list[Span], parent: str = "") -> list[Any]:
    """The names of the spans below a parent, by their start, each with those below it."""
    found = [span for span in spans if span.get("parentSpanId", "") == parent]
    found.sort(key=lambda span: int(span["startTimeUnixNano"]))
    return [[span["name"], names(spans, span["spanId"])] for span in found]


def values(metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The values of metrics in the form of the players."""
    return [
        {
            "name": metric["name"],
            "unit": metric["unit"],
            "attributes": {item["key"]: item["value"]["stringValue"] for item in point.get("attributes", ())},
            "count": int(point["count"]) if kind == "histogram" else _counted(point),
            "sum": point["sum"] if kind == "histogram" else _counted(point),
            "boundaries": point.get("explicitBounds", []),
        }
        for metric in metrics
        for kind in ("sum", "histogram")
        for point in metric.get(kind, {}).get("dataPoints", ())
    ]


def _counted(point: dict[str, Any]) -> int:
    """The value of a counter. Counters of JavaScript are of the type double unless they say otherwise."""
    return int(point["asInt"] if "asInt" in point else point["asDouble"])
