"""The SDK of OpenTelemetry, in memory, and the recorded spans and metrics as JSON."""

from __future__ import annotations

import os
import threading
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kimi_agent import Telemetry

__all__ = ["Recorder"]

# Seconds. A span that has not ended then is missing.
DEADLINE = 30.0
IS_EXPORTED = "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ


class _OpenSpans(SpanProcessor):
    """Counts the spans that have not ended."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self._add(1)

    def on_end(self, span: Any) -> None:
        self._add(-1)

    def _add(self, number: int) -> None:
        with self._changed:
            self._count += number
            self._changed.notify_all()

    def wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0, DEADLINE)


class Recorder:
    """The SDK of OpenTelemetry, in memory."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        readers: list[MetricReader] = [self.reader]
        if IS_EXPORTED:
            # It exports once, when the provider is shut down.
            readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
        self.tracers, self.meters = TracerProvider(), MeterProvider(readers)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._open = _OpenSpans()
        self.tracers.add_span_processor(self._open)
        if IS_EXPORTED:
            self.tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
        self.tracer = self.tracers.get_tracer("program")

    def telemetry(self, capture_content: bool | None = None) -> Telemetry:
        """The option of a session that is recorded."""
        return Telemetry(self.tracers, self.meters, capture_content)

    def wait(self) -> None:
        """Waits until all spans have ended, which the event loop of a session does."""
        self._open.wait()

    def recorded(self) -> dict[str, Any]:
        """The spans that have ended and the metrics."""
        spans = [
            {
                "id": span.context.span_id,
                "parent": span.parent.span_id if span.parent else None,
                "start": span.start_time,
                "name": span.name,
                "kind": span.kind.name.lower(),
                "status": span.status.status_code.name.lower(),
                "message": span.status.description or "",
                "attributes": dict(span.attributes),
                "events": [{"name": event.name, "attributes": dict(event.attributes)} for event in span.events],
            }
            for span in self.exporter.get_finished_spans()
        ]
        return {"spans": spans, "metrics": list(self.metrics())}

    def metrics(self) -> Any:
        data = self.reader.get_metrics_data()
        for scope in data.resource_metrics[0].scope_metrics if data else []:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    is_sum = hasattr(point, "value")
                    yield {
                        "name": metric.name,
                        "unit": metric.unit,
                        "attributes": dict(point.attributes),
                        "count": point.value if is_sum else point.count,
                        "sum": point.value if is_sum else point.sum,
                        "boundaries": [] if is_sum else list(point.explicit_bounds),
                    }
