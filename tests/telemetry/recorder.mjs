// The SDK of OpenTelemetry, in memory, and the recorded spans and metrics as JSON.

import { createRequire } from "node:module";

// The packages of the binding, with its development dependencies.
const require = createRequire(new URL("../../bindings-node/package.json", import.meta.url));
const { context, SpanKind, SpanStatusCode, trace } = require("@opentelemetry/api");
const { AsyncLocalStorageContextManager } = require("@opentelemetry/context-async-hooks");
const { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } = require("@opentelemetry/sdk-metrics");
const { OTLPMetricExporter } = require("@opentelemetry/exporter-metrics-otlp-http");
const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-http");
const { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } = require("@opentelemetry/sdk-trace-base");

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());

const isExported = "OTEL_EXPORTER_OTLP_ENDPOINT" in process.env;
const exporters = isExported ? [new OTLPTraceExporter()] : [];

/** Counts the spans that have not ended. */
class OpenSpans {
  #count = 0;
  #waiting = () => undefined;

  onStart() {
    this.#count += 1;
  }

  onEnd() {
    this.#count -= 1;
    if (this.#count === 0) this.#waiting();
  }

  /** Waits until all spans have ended. */
  wait() {
    return this.#count === 0 ? undefined : new Promise((resolve) => (this.#waiting = resolve));
  }

  async forceFlush() {}
  async shutdown() {}
}

/** Records in memory. */
export class Recorder {
  spans = new InMemorySpanExporter();
  metrics = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  reader = new PeriodicExportingMetricReader({ exporter: this.metrics });
  #open = new OpenSpans();
  tracers = new BasicTracerProvider({
    spanProcessors: [this.#open, ...[this.spans, ...exporters].map((exporter) => new SimpleSpanProcessor(exporter))],
  });
  // The other reader exports once, when the provider is shut down.
  exported = isExported ? [new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter() })] : [];
  meters = new MeterProvider({ readers: [this.reader, ...this.exported] });
  tracer = this.tracers.getTracer("program");

  /** The option of a session that is recorded. */
  telemetry(captureContent) {
    return { tracerProvider: this.tracers, meterProvider: this.meters, captureContent };
  }

  /** Runs a function below a span of the program. */
  async withCaller(run) {
    const caller = this.tracer.startSpan("caller");
    await context.with(trace.setSpan(context.active(), caller), run);
    caller.end();
  }

  /** Waits until all spans have ended, which the event loop does. */
  async wait() {
    await this.#open.wait();
  }

  /** The spans that have ended and the metrics. */
  async recorded() {
    await Promise.all([this.reader.forceFlush(), this.tracers.forceFlush()]);
    const spans = this.spans.getFinishedSpans().map((span) => ({
      id: span.spanContext().spanId,
      parent: span.parentSpanContext?.spanId ?? null,
      start: span.startTime[0] * 1e9 + span.startTime[1],
      name: span.name,
      kind: SpanKind[span.kind].toLowerCase(),
      status: SpanStatusCode[span.status.code].toLowerCase(),
      message: span.status.message ?? "",
      attributes: span.attributes,
      events: span.events.map(({ name, attributes }) => ({ name, attributes })),
    }));
    const metrics = (this.metrics.getMetrics().at(-1)?.scopeMetrics ?? []).flatMap((scope) => scope.metrics);
    return { spans, metrics: metrics.flatMap(pointsOf) };
  }
}

function pointsOf({ descriptor: { name, unit }, dataPoints }) {
  return dataPoints.map(({ attributes, value }) => {
    const { count, sum, buckets } = typeof value === "number" ? { count: value, sum: value } : value;
    return { name, unit, attributes, count, sum, boundaries: buckets?.boundaries ?? [] };
  });
}
