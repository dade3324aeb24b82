// The option `telemetry`: its values, the spans that handlers run in, and providers that fail.

import assert from "node:assert/strict";
import { test } from "node:test";

import { context, createNoopMeter, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";

import { createSession, InvalidOption, openAgent, prompt, runBatch, setLogger } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";
import { run } from "./programs.mjs";

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());

const APPROVAL = { tool_call: { name: "Shell", approve: { action: "run", description: "ls" } } };
const LOOKUP = { external_tool: { id: "t1", name: "lookup", arguments: { key: "a" } } };
const TEXT = { text: "Hello" };

/** A provider that keeps the spans which have ended. */
function spans() {
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const named = (name) => exporter.getFinishedSpans().filter((span) => span.name.startsWith(name));
  return { tracerProvider, tracer: tracerProvider.getTracer("test"), named };
}

const lookup = (handler) => ({ name: "lookup", description: "", parameters: { type: "object" }, handler });
const current = () => trace.getActiveSpan()?.name ?? "none";
const options = (actions, more) => ({ executable: scriptedAgent([actions]), ...more });

for (const [telemetry, problem] of [
  ["yes", "expected a boolean, a provider of OpenTelemetry or an object, got a string"],
  [Promise.resolve({}), "expected a provider or an object, got a promise; await it"],
  [{ content: true }, "unknown name `content`"],
  [{ tracerProvider: 1 }, "`tracerProvider`: expected a provider of OpenTelemetry, got a number"],
  [{ meterProvider: spans().tracerProvider }, "`meterProvider`: expected a provider"],
  [{ captureContent: "no" }, "`captureContent`: expected a boolean, got a string"],
]) {
  test(`telemetry is refused: ${problem}`, async () => {
    const opened = createSession(options([TEXT], { telemetry }));
    await assert.rejects(opened, (error) => error instanceof InvalidOption && error.message.includes(problem));
  });
}

test("provider stands for details", async () => {
  const { tracerProvider, named } = spans();
  const names = [];
  const meterProvider = { getMeter: (name) => names.push(name) && createNoopMeter() };
  for (const telemetry of [tracerProvider, meterProvider]) {
    const session = await createSession(options([TEXT], { telemetry }));
    await session.prompt("Go").result();
    await session.close();
  }
  assert.deepEqual([named("invoke_agent").length, names], [1, ["kimi-agent"]]);
});

test("handlers run in spans", async () => {
  const { tracerProvider } = spans();
  const seen = [];
  const onApproval = async () => {
    await Promise.resolve();
    seen.push(current());
    return "approve";
  };
  const find = () => {
    seen.push(current());
    return "found";
  };
  const more = { telemetry: { tracerProvider }, onApproval, tools: [lookup(find)], onEvent: () => undefined };
  await prompt("Go", options([APPROVAL, LOOKUP, TEXT], more)).result();
  assert.deepEqual(seen.map((name) => name.split(" ")[0]), ["invoke_agent", "execute_tool"]);
  assert.equal(current(), "none");
});

test("turn belongs to span of caller", async () => {
  const { tracerProvider, tracer, named } = spans();
  const session = await createSession({ executable: scriptedAgent([[TEXT], [TEXT]]), telemetry: { tracerProvider } });
  const caller = tracer.startSpan("caller");
  const turn = context.with(trace.setSpan(context.active(), caller), () => session.prompt("Go"));
  await turn.result();
  await session.prompt("Go").result();
  await session.close();
  const parents = named("invoke_agent").map((span) => span.parentSpanContext?.spanId);
  assert.deepEqual(parents, [caller.spanContext().spanId, undefined]);
});

test("sessions of agent have spans", async () => {
  const { tracerProvider, named } = spans();
  const agent = await openAgent(options([TEXT]));
  for (const session of [await agent.createSession({ telemetry: { tracerProvider } }), await agent.createSession()]) {
    await session.prompt("Go").result();
  }
  await agent.close();
  assert.equal(named("invoke_agent").length, 1);
  await assert.rejects(openAgent({ telemetry: true }), /createSession/);
});

test("jobs have spans", async () => {
  const { tracerProvider, tracer, named } = spans();
  const seen = [];
  const onApproval = async () => {
    await Promise.resolve();
    seen.push(current());
    return "approve";
  };
  const find = () => {
    seen.push(current());
    return "found";
  };
  const more = { telemetry: { tracerProvider }, onApproval, tools: [lookup(find)] };
  const given = options([APPROVAL, LOOKUP, { text: "{{env.TRACEPARENT}}" }], more);
  const caller = tracer.startSpan("caller");
  const batch = context.with(trace.setSpan(context.active(), caller), () => runBatch(["a", "b"], given));
  const { traceId, spanId } = caller.spanContext();
  const answers = [];
  for await (const { text } of batch) answers.push(text);
  assert.deepEqual(answers, Array(2).fill(`00-${traceId}-${spanId}-01`));
  const turns = named("invoke_agent");
  assert.deepEqual(turns.map((span) => span.parentSpanContext?.spanId), [spanId, spanId]);
  for (const turn of turns) {
    const children = named("").filter((span) => span.parentSpanContext?.spanId === turn.spanContext().spanId);
    const names = children.map((span) => span.name.split(" ")[0]).sort();
    assert.deepEqual(names, ["chat", "chat", "chat", "execute_tool", "execute_tool"]);
  }
  const firstWords = seen.map((name) => name.split(" ")[0]).sort();
  assert.deepEqual(firstWords, ["execute_tool", "execute_tool", "invoke_agent", "invoke_agent"]);
  assert.equal(current(), "none");
});

test("left batch ends spans", async () => {
  const { tracerProvider, named } = spans();
  const statuses = [];
  const find = () => void batch.cancel();
  const more = { telemetry: { tracerProvider }, tools: [lookup(find)] };
  const batch = runBatch(["a"], options([LOOKUP, { wait_cancel: true }], more));
  for await (const { status } of batch) statuses.push(status);
  assert.deepEqual(statuses, ["cancelled"]);
  assert.equal(named("invoke_agent").length, 1);
});

test("agent gets trace", async () => {
  const { tracerProvider, tracer } = spans();
  const caller = tracer.startSpan("caller");
  const given = options([{ text: "{{env.TRACEPARENT}}" }], { telemetry: { tracerProvider } });
  const session = await context.with(trace.setSpan(context.active(), caller), () => createSession(given));
  const { text } = await session.prompt("Go").result();
  await session.close();
  const { traceId, spanId } = caller.spanContext();
  assert.equal(text, `00-${traceId}-${spanId}-01`);
});

test("content needs permission", async () => {
  const { tracerProvider, named } = spans();
  for (const captureContent of [true, false, undefined]) {
    await prompt("Go", options([TEXT], { telemetry: { tracerProvider, captureContent } })).result();
  }
  const contents = named("invoke_agent").map(({ attributes }) => attributes["gen_ai.input.messages"] !== undefined);
  assert.deepEqual(contents, [true, false, false]);
});

const throwing = () => {
  throw new Error("failed on purpose");
};
const onlySpans = (processor) => new BasicTracerProvider({ spanProcessors: [processor] });
const quiet = { forceFlush: async () => undefined, shutdown: async () => undefined, onStart: () => undefined, onEnd: () => undefined };
for (const [name, tracerProvider] of [
  ["start", onlySpans({ ...quiet, onStart: throwing })],
  ["end", onlySpans({ ...quiet, onEnd: throwing })],
  ["tracer", { getTracer: throwing }],
]) {
  test(`failing ${name} harms nothing`, async () => {
    const records = [];
    setLogger((record) => records.push(record), "warn");
    const more = { telemetry: { tracerProvider }, onApproval: () => "approve", tools: [lookup(() => "found")] };
    const result = await prompt("Go", options([APPROVAL, LOOKUP, TEXT], more)).result();
    setLogger(null);
    assert.deepEqual([result.text, result.toolCalls.length], ["Hello", 2]);
    const messages = records.filter(({ target }) => target === "kimi_agent.telemetry");
    assert.equal(messages.length, 1);
    assert.match(messages[0].message, /^telemetry failed.*failed on purpose/);
  });
}

test("refused prompts end their spans", async () => {
  const { tracerProvider, named } = spans();
  const session = await createSession(options([{ wait_cancel: true }], { telemetry: { tracerProvider } }));
  const turn = session.prompt("Go");
  await assert.rejects(session.prompt("Go").result());
  await assert.rejects(session.prompt("Go", { timeout: "soon" }).result());
  await turn.cancel();
  await session.close();
  await assert.rejects(prompt("Go", options([TEXT], { telemetry: { tracerProvider }, timeout: "soon" })).result());
  await session.close();
  const ends = named("invoke_agent").map(({ attributes }) => attributes["error.type"]);
  assert.deepEqual(ends.sort(), ["invalid_option", "invalid_option", "turn_in_progress", undefined]);
});

test("unset option loads nothing", async () => {
  const code = `
    import { createRequire } from "node:module";
    await prompt("Go", { executable: scriptedAgent([[{ text: "Hi" }]]), telemetry: false }).result();
    const { cache } = createRequire(import.meta.url);
    console.log(Object.keys(cache).filter((name) => name.includes("opentelemetry")).length);`;
  assert.equal((await run(code)).stdout.trim(), "0");
});

test("missing package is named", async () => {
  const code = `
    import { Module } from "node:module";
    const resolve = Module._resolveFilename;
    Module._resolveFilename = (name, ...rest) => {
      if (name !== "@opentelemetry/api") return resolve(name, ...rest);
      throw Object.assign(new Error(name), { code: "MODULE_NOT_FOUND" });
    };
    await prompt("Go", { telemetry: true }).result().catch((error) => console.log(error.code, error.message));`;
  const { stdout } = await run(code);
  assert.match(stdout, /^invalid_option invalid option `telemetry`: .*`npm install @opentelemetry\/api`/);
});

test("exit ends spans", async () => {
  const code = `
    const ended = [];
    const span = (name) => ({
      addEvent: () => undefined, end: () => ended.push(name), setAttribute: () => span(name), setAttributes: () => undefined,
      setStatus: () => undefined, spanContext: () => ({ traceId: "", spanId: "", traceFlags: 0 }),
      updateName: () => undefined,
    });
    const tracerProvider = { getTracer: () => ({ startSpan: (name) => span(name) }) };
    process.on("exit", () => console.log(ended.join()));
    const executable = scriptedAgent([[{ text: "On" }, { wait_cancel: true }]]);
    const session = await createSession({ executable, telemetry: { tracerProvider } });
    for await (const piece of session.prompt("Go").textStream) process.exit();`;
  const { stdout, stderr } = await run(code);
  assert.equal(stdout.trim(), "chat,invoke_agent kimi-scripted-agent", stderr);
});
