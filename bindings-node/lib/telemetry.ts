/** Applies the operations of the core on spans and metrics, with the OpenTelemetry of the program. */

import type { Attributes, Context, MeterProvider, Span, SpanContext, Tracer, TracerProvider } from "@opentelemetry/api";

import { kindOf, wrongOption } from "./arguments.js";
import { log } from "./log.js";
import { loadNative, requireInstalled } from "./native.js";
import type { MeterSource, TelemetryOptions, TracerSource } from "./telemetry-types.js";
import { textOf } from "./values.js";
import { VERSION } from "./version.js";

type Api = typeof import("@opentelemetry/api");

/** The operation that starts a span. */
interface Start {
  op: "start";
  span: number;
  parent: number | null;
  name: string;
  kind: "client" | "internal";
  time: number;
  attributes: Attributes;
}

type Operation =
  | Start
  | { op: "event"; span: number; name: string; time: number; attributes: Attributes }
  | { op: "set"; span: number; name?: string; attributes: Attributes }
  | { op: "end"; span: number; time: number; error: { type: string; message: string } | null }
  | { op: "record"; metric: string; value: number; attributes: Attributes };

/** The names of the core. */
interface Names {
  scope: string;
  schema_url: string;
  metrics: { name: string; kind: "histogram" | "counter"; unit: string; description: string; boundaries: number[] }[];
}

interface OpenSpan {
  span: Span;
  context: Context;
}

type Recorder = (value: number, attributes: Attributes) => void;

/** The context of a trace, for the agent. */
interface Carrier {
  traceparent?: string;
  tracestate?: string;
}

/** The sessions of open spans, by the numbers of the spans, which are unique in the process. */
const owners = new Map<number, Tracing>();

/** The instruments of providers. Some SDKs warn about an instrument that is made twice. */
const known = new WeakMap<object, Map<string, Recorder>>();

let loadedApi: Api | undefined;

/** Loads `@opentelemetry/api`, once. Its state is global, so it does not matter which copy of the package this is. */
function loadApi(): Api {
  if (loadedApi) return loadedApi;
  const found = requireInstalled("@opentelemetry/api") as Api | undefined;
  if (!found) throw wrongOption("telemetry", "it needs @opentelemetry/api 1.7 or later: `npm install @opentelemetry/api`");
  return (loadedApi = found);
}

/** Ends all spans, because the program ends. */
export function endSpans(): void {
  for (const tracing of new Set(owners.values())) tracing.endAll();
}

/** Returns the tracing of a session for its option `telemetry`; undefined if telemetry is off. */
export function readTelemetry(given: unknown): Tracing | undefined {
  if (given === undefined || given === null || given === false) return undefined;
  if (given !== true && (typeof given !== "object" || Array.isArray(given))) {
    throw wrongOption("telemetry", `expected a boolean, a provider of OpenTelemetry or an object, got ${kindOf(given)}`);
  }
  const options: TelemetryOptions = given === true ? {} : ofProvider(given);
  check(options);
  return new Tracing(loadApi(), options);
}

/** Returns the details of a provider alone. Other values stay as they are. */
function ofProvider(given: object): TelemetryOptions {
  const { getTracer, getMeter } = given as Partial<TracerSource & MeterSource>;
  const isTracer = typeof getTracer === "function";
  const isMeter = typeof getMeter === "function";
  if (!isTracer && !isMeter) {
    if ("then" in given) throw wrongOption("telemetry", "expected a provider or an object, got a promise; await it");
    return given;
  }
  return { ...(isTracer && { tracerProvider: given as TracerSource }), ...(isMeter && { meterProvider: given as MeterSource }) };
}

function check(options: object): void {
  for (const [name, value] of Object.entries(options) as [string, unknown][]) {
    const method = { tracerProvider: "getTracer", meterProvider: "getMeter", captureContent: "" }[name];
    if (method === undefined) {
      throw wrongOption("telemetry", `unknown name \`${name}\`; expected tracerProvider, meterProvider or captureContent`);
    }
    if (value === undefined || value === null) continue;
    const isFit = method === "" ? typeof value === "boolean" : typeof (value as Partial<Record<string, unknown>>)[method] === "function";
    const expected = method === "" ? "a boolean" : "a provider of OpenTelemetry";
    if (!isFit) throw wrongOption("telemetry", `\`${name}\`: expected ${expected}, got ${kindOf(value)}`);
  }
}

/** Applies the operations of a delivery. `tracing` is that of the session, unless the session was collected. */
export function applyOperations(tracing: Tracing | undefined, opsJson: string): void {
  const operations = JSON.parse(opsJson) as Operation[];
  const owner = tracing ?? operations.map((operation) => "span" in operation && owners.get(operation.span)).find((found) => found);
  if (owner) owner.apply(operations);
}

/** Starts the span of a turn, and adds it to the options of its prompt. `start` returns the operation of the core. */
export function withSpan(tracing: Tracing | undefined, optionsJson: string, start: () => string | null): string {
  const operation = tracing && start();
  const span = operation && tracing.begin(JSON.parse(operation) as Start);
  if (!span) return optionsJson;
  return `{"$span":${JSON.stringify(span)}${optionsJson === "{}" ? "" : ","}${optionsJson.slice(1)}`;
}

/** The spans and metrics of one session or batch. No error of a provider or exporter leaves it. */
export class Tracing {
  readonly #api: Api;
  readonly #captureContent: boolean | undefined;
  readonly #tracer: Tracer | undefined;
  readonly #recorders: Map<string, Recorder>;
  readonly #open = new Map<number, OpenSpan>();
  /** The context of `runBatch()`, because the core starts the spans of its jobs. */
  readonly #caller: Context | undefined;
  #hasFailed = false;

  constructor(api: object, { tracerProvider, meterProvider, captureContent }: TelemetryOptions) {
    this.#api = api as Api;
    this.#captureContent = captureContent ?? undefined;
    this.#caller = this.#tried(() => this.#api.context.active());
    const names = JSON.parse(loadNative().telemetryNames()) as Names;
    this.#tracer = this.#tried(() => {
      const provider = (tracerProvider as TracerProvider | undefined) ?? this.#api.trace.getTracerProvider();
      return provider.getTracer(names.scope, VERSION, { schemaUrl: names.schema_url });
    });
    const found = this.#tried(() => {
      const provider = (meterProvider as MeterProvider | undefined) ?? this.#api.metrics.getMeterProvider();
      return recordersOf(this.#api, provider, names);
    });
    this.#recorders = found ?? new Map<string, Recorder>();
  }

  /** The option for the core, with the current context for the agent. */
  option(): { captureContent?: boolean } & Carrier {
    const current = this.#tried(() => this.#api.trace.getSpan(this.#api.context.active()));
    const captureContent = this.#captureContent;
    return { ...(captureContent !== undefined && { captureContent }), ...this.#carrier(current) };
  }

  /** Starts the span of a turn in the current context. Returns the values for the core; undefined if that failed. */
  begin(start: object): ({ span: number } & Carrier) | undefined {
    const operation = start as Start;
    const found = this.#tried(() => this.#start(operation, this.#api.context.active()));
    return found && { span: operation.span, ...this.#carrier(found) };
  }

  /** Applies operations of the core, in order. */
  apply(operations: object[]): void {
    for (const operation of operations as Operation[]) this.#tried(() => { this.#applyOne(operation); });
  }

  /** Calls a function with this span as the current one. */
  within<T>(number: number, run: () => T): T {
    const { context, trace } = this.#api;
    const found = this.#open.get(number);
    const inner = found && this.#tried(() => trace.setSpan(context.active(), found.span));
    return inner ? context.with(inner, run) : run();
  }

  /** Ends the spans that no operation can end any more. */
  endAll(): void {
    const error = { type: "session_closed", message: "the program ended during the turn" };
    for (const number of [...this.#open.keys()].reverse()) this.#tried(() => { this.#end(number, undefined, error); });
  }

  #tried<T>(run: () => T): T | undefined {
    try {
      return run();
    } catch (error) {
      const message = `telemetry failed, and the turn continues; the log shows only the first failure of a session: ${textOf(error)}`;
      if (!this.#hasFailed) log.write({ level: "warn", target: "kimi_agent.telemetry", message });
      this.#hasFailed = true;
      return undefined;
    }
  }

  #carrier(span: Span | undefined): Carrier {
    return this.#tried(() => carrierOf(this.#api, span?.spanContext())) ?? {};
  }

  #applyOne(operation: Operation): void {
    switch (operation.op) {
      case "start": {
        const context = operation.parent === null ? this.#caller : this.#open.get(operation.parent)?.context;
        if (context) this.#start(operation, context);
        break;
      }
      case "event":
        this.#open.get(operation.span)?.span.addEvent(operation.name, operation.attributes, timeOf(operation.time));
        break;
      case "set": {
        const span = this.#open.get(operation.span)?.span;
        if (operation.name !== undefined) span?.updateName(operation.name);
        span?.setAttributes(operation.attributes);
        break;
      }
      case "end":
        this.#end(operation.span, timeOf(operation.time), operation.error);
        break;
      case "record":
        this.#recorders.get(operation.metric)?.(operation.value, operation.attributes);
    }
  }

  #start({ span: number, name, kind, attributes, time }: Start, context: Context): Span | undefined {
    if (!this.#tracer) return undefined;
    const { SpanKind, trace } = this.#api;
    const options = { kind: kind === "client" ? SpanKind.CLIENT : SpanKind.INTERNAL, attributes, startTime: timeOf(time) };
    const span = this.#tracer.startSpan(name, options, context);
    this.#open.set(number, { span, context: trace.setSpan(context, span) });
    owners.set(number, this);
    return span;
  }

  #end(number: number, time: [number, number] | undefined, error: { type: string; message: string } | null): void {
    const span = this.#open.get(number)?.span;
    this.#open.delete(number);
    owners.delete(number);
    try {
      if (error) span?.setAttribute("error.type", error.type).setStatus({ code: this.#api.SpanStatusCode.ERROR, message: error.message });
    } finally {
      span?.end(time);
    }
  }
}

/** A time of the core, in nanoseconds, as OpenTelemetry takes it. */
function timeOf(nanoseconds: number): [number, number] {
  return [Math.floor(nanoseconds / 1e9), nanoseconds % 1e9];
}

/** The context of a span in the form of W3C Trace Context. The propagators of the program may have another form. */
function carrierOf({ isSpanContextValid }: Api, context: SpanContext | undefined): Carrier {
  if (!context || !isSpanContextValid(context)) return {};
  const { traceId, spanId, traceFlags, traceState } = context;
  const tracestate = traceState?.serialize() ?? "";
  const traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
  return { traceparent, ...(tracestate !== "" && { tracestate }) };
}

/** The functions that record a value, by the names of the metrics. */
function recordersOf(api: Api, provider: MeterProvider, names: Names): Map<string, Recorder> {
  const made = known.get(provider);
  if (made) return made;
  const meter = provider.getMeter(names.scope, VERSION, { schemaUrl: names.schema_url });
  const found = new Map<string, Recorder>();
  for (const { name, kind, unit, description, boundaries } of names.metrics) {
    // Operations are applied in the context of an arbitrary session.
    if (kind === "histogram") {
      const histogram = meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: boundaries } });
      found.set(name, (value, attributes) => { histogram.record(value, attributes, api.ROOT_CONTEXT); });
    } else {
      const counter = meter.createCounter(name, { unit, description });
      found.set(name, (value, attributes) => { counter.add(value, attributes, api.ROOT_CONTEXT); });
    }
  }
  known.set(provider, found);
  return found;
}
