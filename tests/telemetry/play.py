"""Plays the scenarios with Python: `play.py async` or `play.py sync`.

Reads them from stdin, and prints the recorded spans and metrics.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kimi_agent import ExternalTool, KimiAgentError, Reject, Telemetry, create_session, prompt, sync
from kimi_agent.testing import scripted_agent

IS_EXPORTED = "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ


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
        if IS_EXPORTED:
            self.tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
        self.tracer = self.tracers.get_tracer("program")

    def recorded(self) -> dict[str, Any]:
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


def options(scenario: dict[str, Any], recorder: Recorder) -> dict[str, Any]:
    """The options of the session of a scenario."""

    def add(_: Any) -> str:
        with recorder.tracer.start_as_current_span("work"):
            return "3"

    def fail(_: Any) -> Any:
        raise ValueError("broken on purpose")

    answers = {"approve": lambda _: "approve", "reject": lambda _: Reject("not now"), "fail": fail}
    tools = [("add", add), ("broken", fail)] if scenario.get("tools") else []
    return {
        **scenario.get("options", {}),
        "executable": scripted_agent({**scenario.get("script", {}), "turns": scenario["turns"]}),
        "on_approval": answers.get(scenario.get("on_approval", "")),
        "tools": [ExternalTool(name, "", {"type": "object"}, handler) for name, handler in tools],
        "telemetry": Telemetry(
            tracer_provider=recorder.tracers,
            meter_provider=recorder.meters,
            capture_content=scenario.get("capture_content"),
        ),
    }


async def finish(turn: Any, cancel_at: str | None) -> None:
    """Waits for the end of a turn, and cancels it at the first event of a type."""
    try:
        if cancel_at is not None:
            async for event in turn:
                if type(event).__name__ == cancel_at:
                    await turn.cancel()
        await turn.result()
    except KimiAgentError:
        # The span has it.
        pass


def finish_blocking(turn: Any, cancel_at: str | None) -> None:
    """The same, blocking."""
    try:
        if cancel_at is not None:
            for event in turn:
                if type(event).__name__ == cancel_at:
                    turn.cancel()
        turn.result()
    except KimiAgentError:
        # The span has it.
        pass


async def play(scenario: dict[str, Any], recorder: Recorder) -> None:
    """Plays a scenario with the asynchronous API."""
    given, cancel_at = options(scenario, recorder), scenario.get("cancel_at")
    if scenario.get("one_shot"):
        with recorder.tracer.start_as_current_span("caller"):
            await finish(prompt("Go", **given), cancel_at)
        return
    async with create_session(**given) as session:
        if scenario.get("without_caller"):
            await finish(session.prompt("Go"), cancel_at)
        else:
            with recorder.tracer.start_as_current_span("caller"):
                await finish(session.prompt("Go"), cancel_at)


def play_blocking(scenario: dict[str, Any], recorder: Recorder) -> None:
    """Plays a scenario with the blocking API."""
    given, cancel_at = options(scenario, recorder), scenario.get("cancel_at")
    if scenario.get("one_shot"):
        with recorder.tracer.start_as_current_span("caller"):
            finish_blocking(sync.prompt("Go", **given), cancel_at)
        return
    with sync.create_session(**given) as session:
        if scenario.get("without_caller"):
            finish_blocking(session.prompt("Go"), cancel_at)
        else:
            with recorder.tracer.start_as_current_span("caller"):
                finish_blocking(session.prompt("Go"), cancel_at)


def main() -> None:
    found: dict[str, Any] = {}
    for scenario in json.load(sys.stdin):
        recorder = Recorder()
        if sys.argv[1] == "sync":
            play_blocking(scenario, recorder)
        else:
            asyncio.run(play(scenario, recorder))
        found[scenario["name"]] = recorder.recorded()
        recorder.meters.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
