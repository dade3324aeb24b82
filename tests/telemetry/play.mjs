// Plays the scenarios with Node. Reads them from stdin, and prints the recorded spans and metrics.

import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

// The packages of the binding, with its development dependencies.
const require = createRequire(new URL("../../bindings-node/package.json", import.meta.url));
const { createSession, KimiAgentError, prompt, Reject, setLogger } = require("kimi-agent");
const { scriptedAgent } = require("kimi-agent/testing");
const { context, SpanKind, SpanStatusCode, trace } = require("@opentelemetry/api");
const { AsyncLocalStorageContextManager } = require("@opentelemetry/context-async-hooks");
const { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } = require("@opentelemetry/sdk-metrics");
const { OTLPMetricExporter } = require("@opentelemetry/exporter-metrics-otlp-http");
const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-http");
const { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } = require("@opentelemetry/sdk-trace-base");

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
setLogger(null);

const isExported = "OTEL_EXPORTER_OTLP_ENDPOINT" in process.env;
const exporters = isExported ? [new OTLPTraceExporter()] : [];

/** The SDK of OpenTelemetry, in memory. */
class Recorder {
  spans = new InMemorySpanExporter();
  metrics = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  reader = new PeriodicExportingMetricReader({ exporter: this.metrics });
  tracers = new BasicTracerProvider({ spanProcessors: [this.spans, ...exporters].map((exporter) => new SimpleSpanProcessor(exporter)) });
  // The other reader exports once, when the provider is shut down.
  exported = isExported ? [new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter() })] : [];
  meters = new MeterProvider({ readers: [this.reader, ...this.exported] });
  tracer = this.tracers.getTracer("program");

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

/** The options of the session of a scenario. */
function options(scenario, recorder) {
  const add = () => recorder.tracer.startActiveSpan("work", (span) => (span.end(), "3"));
  const fail = () => {
    throw new Error("broken on purpose");
  };
  const answers = { approve: () => "approve", reject: async () => new Reject("not now"), fail };
  const tool = (name, handler) => ({ name, description: "", parameters: { type: "object" }, handler });
  return {
    ...scenario.options,
    executable: scriptedAgent({ ...scenario.script, turns: scenario.turns }),
    onApproval: answers[scenario.on_approval],
    tools: scenario.tools ? [tool("add", add), tool("broken", fail)] : [],
    telemetry: { tracerProvider: recorder.tracers, meterProvider: recorder.meters, captureContent: scenario.capture_content },
  };
}

/** Waits for the end of a turn, and cancels it at the first event of a type. */
async function finish(turn, cancelAt) {
  try {
    if (cancelAt !== undefined) for await (const event of turn) if (event.type === cancelAt) await turn.cancel();
    await turn.result();
  } catch (error) {
    // The span has it.
    if (!(error instanceof KimiAgentError)) throw error;
  }
}

async function withCaller(recorder, run) {
  const caller = recorder.tracer.startSpan("caller");
  await context.with(trace.setSpan(context.active(), caller), run);
  caller.end();
}

async function play(scenario, recorder) {
  const [given, cancelAt] = [options(scenario, recorder), scenario.cancel_at];
  if (scenario.one_shot) {
    await withCaller(recorder, () => finish(prompt("Go", given), cancelAt));
    return;
  }
  const session = await createSession(given);
  const run = () => finish(session.prompt("Go"), cancelAt);
  await (scenario.without_caller ? run() : withCaller(recorder, run));
  await session.close();
}

const found = {};
for (const scenario of JSON.parse(await text(process.stdin))) {
  const recorder = new Recorder();
  await play(scenario, recorder);
  found[scenario.name] = await recorder.recorded();
  await recorder.meters.shutdown();
}
console.log(JSON.stringify(found));
