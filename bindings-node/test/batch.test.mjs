// Batches: many prompts, each in a session of its own.
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { z } from "zod";

import { InvalidOption, LlmServiceError, runBatch, setLogger, Timeout, tool, TurnCancelled } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";
import { dist, start, temporary } from "./programs.mjs";

const executable = scriptedAgent([[{ text: "{{prompt}}!" }]]);
const hanging = scriptedAgent([[{ text: "On" }, { wait_cancel: true }]]);
const failing = scriptedAgent([[{ error: { code: -32003, message: "overloaded" } }]]);
const reviewing = scriptedAgent([
  [{ external_tool: { id: "t1", name: "final_result", arguments: { at: "5" } } }, { text: "Done" }],
]);
const Review = z.object({ at: z.string().transform(Number) });

async function collect(iterable) {
  const found = [];
  for await (const item of iterable) found.push(item);
  return found;
}

const textsOf = (results) => [...results].sort((a, b) => a.index - b.index).map(({ text }) => text);

/** A test with the path of a journal. */
function testWithJournal(name, use) {
  test(name, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "kimi-batch-"));
    try {
      await use(join(folder, "batch.jsonl"), t);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
}

test("jobs of all kinds run", async () => {
  const jobs = ["a", { prompt: "b", key: "k", data: [1] }, { prompt: [{ type: "text", text: "c" }], timeout: 60_000, model: "m" }];
  const results = await collect(runBatch(jobs, { executable, concurrency: 2 }));
  assert.deepEqual(textsOf(results), ["a!", "b!", "c!"]);
  const second = results.find(({ index }) => index === 1);
  assert.deepEqual([second.key, second.data, second.status, second.attempts], ["k", [1], "finished", 1]);
  assert.equal(second.toJSON().result.text, "b!");
  assert.equal(second.raiseForStatus().text, "b!");
});

test("jobs are pulled lazily", async () => {
  let pulled = 0;
  let closed = false;
  function* endless() {
    try {
      for (;;) yield String((pulled += 1));
    } finally {
      closed = true;
    }
  }
  let read = 0;
  for await (const _ of runBatch(endless(), { executable, concurrency: 2 })) {
    if ((read += 1) === 5) break;
  }
  // The sum: five results that were read, at most four that wait, two jobs that run, and one job more.
  assert.ok(pulled <= 5 + 3 * 2 + 1, String(pulled));
  assert.ok(closed);
});

test("async iterable is a source", async () => {
  const { promise, resolve } = Promise.withResolvers?.() ?? withResolvers();
  async function* jobs() {
    yield "a";
    await promise;
    yield "b";
  }
  const results = runBatch(jobs(), { executable })[Symbol.asyncIterator]();
  assert.equal((await results.next()).value.text, "a!");
  resolve();
  assert.equal((await results.next()).value.text, "b!");
  assert.equal((await results.next()).done, true);
});

function withResolvers() {
  const made = {};
  made.promise = new Promise((resolve) => (made.resolve = resolve));
  return made;
}

test("results come as jobs end", async () => {
  const firstRead = withResolvers();
  const onApproval = async () => {
    await firstRead.promise;
    return "approve";
  };
  const script = [[{ tool_call: { name: "Shell", approve: { description: "Run" } } }, { text: "slow!" }]];
  const slow = { prompt: "slow", executable: scriptedAgent(script) };
  const results = runBatch([slow, "fast"], { executable, concurrency: 2, onApproval })[Symbol.asyncIterator]();
  const { value: first } = await results.next();
  firstRead.resolve();
  assert.deepEqual([first.index, first.text], [1, "fast!"]);
  const { value: second } = await results.next();
  assert.deepEqual([second.index, second.text], [0, "slow!"]);
  assert.equal((await results.next()).done, true);
});

test("job has a timeout", async () => {
  const slow = { prompt: "slow", executable: hanging, timeout: 200 };
  const results = await collect(runBatch([slow, "fast"], { executable, retry: 1 }));
  const [first, second] = [...results].sort((a, b) => a.index - b.index);
  assert.ok(first.error instanceof Timeout);
  assert.equal(second.text, "fast!");
});

test("failed job has an error", async () => {
  const [result] = await collect(runBatch(["a"], { executable: failing, retry: { attempts: 3, initialDelay: 1 } }));
  assert.deepEqual([result.status, result.attempts, result.result], ["failed", 3, undefined]);
  assert.ok(result.error instanceof LlmServiceError);
  assert.ok(result.error.retryable);
  assert.throws(() => result.raiseForStatus(), LlmServiceError);
});

test("slow onProgress gets the newest progress", async () => {
  const reports = [];
  const [released, last] = [withResolvers(), withResolvers()];
  const onProgress = (progress) => {
    reports.push(progress.done);
    if (progress.done === 20) last.resolve();
    return released.promise;
  };
  const jobs = Array.from({ length: 20 }, (_, number) => `${number}`);
  assert.equal((await collect(runBatch(jobs, { executable, onProgress, concurrency: 2 }))).length, 20);
  assert.equal(reports.length, 1);
  released.resolve();
  await last.promise;
  assert.ok(reports.length <= 3);
});

for (const [kind, fail] of [
  ["throws", (error) => { throw error; }],
  ["rejects", (error) => Promise.reject(error)],
]) {
  test(`onProgress that ${kind} is logged, and the batch continues`, async () => {
    const records = [];
    setLogger((record) => records.push(record), "debug");
    try {
      const onProgress = ({ done }) => fail(new Error(`no "disk" ${done}`));
      assert.deepEqual(textsOf(await collect(runBatch(["a", "b"], { executable, onProgress, concurrency: 1 }))), ["a!", "b!"]);
    } finally {
      setLogger(null);
    }
    const [first, ...further] = records.filter(({ target }) => target === "kimi_agent.handlers");
    assert.equal(first.level, "warn");
    assert.match(first.message, /^a handler failed; the batch continues\..* handler="progress" error="no \\"disk\\" 0"$/);
    assert.ok(further.length > 0);
    for (const { level, message } of further) {
      assert.deepEqual([level, message.replace(/\d/, "N")], ["debug", 'a handler failed again handler="progress" error="no \\"disk\\" N"']);
    }
  });
}

test("wrong job is not retried", async () => {
  const results = await collect(runBatch([{ prompt: "a", modle: "m" }, "b"], { executable, concurrency: 1 }));
  assert.ok(results[0].error instanceof InvalidOption);
  assert.match(results[0].error.message, /did you mean `model`/);
  assert.equal(results[1].text, "b!");
});

for (const [options, words] of [
  [{ concurency: 3 }, /did you mean `concurrency`/],
  [{ modle: "m" }, /did you mean `model`/],
  [{ total: 3 }, /`total`: unknown option/],
  [{ on: "ray" }, /`on`: unknown option; only a program in Python/],
  [{ on: true }, /`on`: unknown option/],
  [{ record: new URL("https://example.org/runs") }, /`record`: expected a path or a file URL; got "https:/],
  [{ retry: { attemps: 3 } }, /did you mean `attempts`/],
  [{ concurrency: 0 }, /`concurrency`/],
  [{ workspace: "clone" }, /`workspace`/],
  [{ keepFailed: 1 }, /`keepFailed`: expected a boolean/],
  [{ sessionId: "s" }, /`sessionId`/],
  [{ onProgress: 5 }, /`onProgress`: expected a function/],
  [{ progress: () => undefined }, /a function belongs to `onProgress`/],
  [{ onApproval: "manual" }, /`onApproval`: .*set a function/],
  [{ timeout: "x" }, /`timeout`/],
  [{ signal: 5 }, /`signal`/],
]) {
  test(`wrong option ${Object.keys(options)[0]} is refused`, () => {
    assert.throws(() => runBatch(["a"], { executable, ...options }), (error) => error instanceof InvalidOption && words.test(error.message));
  });
}

for (const jobs of ["a", { prompt: "a" }, 5, undefined, null]) {
  test(`${JSON.stringify(jobs) ?? "nothing"} is not a list of jobs`, () => {
    assert.throws(() => runBatch(jobs, { executable }), /expected an iterable or async iterable of jobs/);
  });
}

for (const kind of ["iterable", "async iterable"]) {
  test(`failing ${kind} ends the batch`, async () => {
    function* jobs() {
      yield "a";
      throw new RangeError("boom");
    }
    const source = kind === "iterable" ? jobs() : (async function* () { yield* jobs(); })();
    const results = runBatch(source, { executable })[Symbol.asyncIterator]();
    assert.equal((await results.next()).value.text, "a!");
    await assert.rejects(results.next(), (error) => error instanceof InvalidOption && error.cause instanceof RangeError);
    assert.equal((await results.next()).done, true);
  });
}

for (const job of [5, null, undefined]) {
  test(`${typeof job} is not a job`, async () => {
    await assert.rejects(collect(runBatch([job], { executable })), InvalidOption);
  });
}

for (const [job, words] of [
  [{ prompt: "a", data: () => 1 }, /`data`: in a job it must have a JSON form, and it is a function/],
  [{ prompt: "a", data: 5n }, /`data`: .*it is a bigint/],
  [{ prompt: "a", onApproval: () => "approve" }, /`onApproval`: a job cannot set it; set it for the batch/],
  [{ prompt: "a", tools: [] }, /`tools`: a job cannot set it; set it for the batch/],
  [{ prompt: "a", sessionId: "one" }, /`sessionId`: a job cannot set it/],
  [{ promt: "a" }, /`promt`: unknown option; did you mean `prompt`/],
  [{ prompt: "a", workDir: new URL("https://example.org") }, /`workDir`: expected a path or a file URL; got "https:/],
  [{ prompt: new Uint8Array(1) }, /`prompt`: expected text, a content part .* got bytes/],
]) {
  test(`mistake in ${Object.keys(job).join(" and ")} fails one job`, async () => {
    const found = await collect(runBatch([job, "b"], { executable, concurrency: 1 }));
    assert.match(found[0].error.message, words);
    assert.equal(found[1].text, "b!");
  });
}

const circular = {};
circular.self = circular;
const nested = (levels) => (levels === 0 ? 1 : [nested(levels - 1)]);

for (const [name, data, words] of [
  ["a nested bigint", { id: 1n }, /`data`: in a job it must have a JSON form: Do not know how to serialize a BigInt$/],
  ["NaN", NaN, /`data`: in a job it must have a JSON form: NaN is not a finite number/],
  ["a nested NaN", { score: NaN }, /`data`: in a job it must have a JSON form: NaN is not a finite number/],
  ["a circular value", circular, /`data`: in a job it must have a JSON form: Converting circular structure to JSON$/],
  ["a value nested too deep", nested(121), /`data`: it is nested more than 120 deep/],
]) {
  test(`data with ${name} fails one job`, async () => {
    const jobs = ["first", { prompt: "p", key: "k", data }, "last"];
    const found = await collect(runBatch(jobs, { executable, concurrency: 1 }));
    assert.deepEqual(textsOf(found), ["first!", "", "last!"]);
    assert.equal(found[1].key, "k");
    assert.equal(found[1].error.option, "data");
    assert.match(found[1].error.message, words);
  });
}

test("data of the deepest level is kept", async () => {
  const data = nested(120);
  const [result] = await collect(runBatch([{ prompt: "p", data }], { executable }));
  assert.deepEqual(result.data, data);
});

test("equal keys are refused", async () => {
  const jobs = [{ prompt: "a", key: "k" }, { prompt: "b", key: "k" }];
  await assert.rejects(collect(runBatch(jobs, { executable })), /"k"/);
});

testWithJournal("journal is resumed", async (journal) => {
  await collect(runBatch(["a", "b"], { executable, journal }));
  const again = await collect(runBatch(["a", "b", "c"], { executable, journal }));
  assert.deepEqual(textsOf(again), ["a!", "b!", "c!"]);
  assert.deepEqual(again.filter(({ fromJournal }) => fromJournal).map(({ index }) => index).sort(), [0, 1]);
});

testWithJournal("output is converted", async (journal) => {
  for (const fromJournal of [false, true]) {
    for await (const result of runBatch(["a", "b"], { executable: reviewing, output: Review, journal })) {
      assert.equal(result.fromJournal, fromJournal);
      assert.equal(result.output.at, 5);
      assert.equal(result.raiseForStatus().output.at, 5);
    }
  }
});

testWithJournal("journal with another schema", async (journal) => {
  await collect(runBatch(["a"], { executable: reviewing, output: Review, journal }));
  const read = collect(runBatch(["a"], { executable: reviewing, output: z.array(z.number()), journal }));
  await assert.rejects(read, /does not fit `output`/);
});

test("tools work for each job", async () => {
  const script = [[{ external_tool: { id: "t1", name: "lookup", arguments: { key: "a" } } }, { text: "Done" }]];
  const keys = [];
  const lookup = tool({
    name: "lookup",
    description: "Looks up.",
    parameters: z.object({ key: z.string() }),
    handler: ({ key }) => {
      keys.push(key);
      return "value";
    },
  });
  const results = await collect(runBatch(["a", "b", "c"], { executable: scriptedAgent(script), tools: [lookup] }));
  assert.deepEqual(textsOf(results), ["Done", "Done", "Done"]);
  assert.deepEqual(keys, ["a", "a", "a"]);
});

test("handlers work for each job", async () => {
  const script = [[{ tool_call: { name: "Shell", approve: { description: "Run" } } }, { text: "Done" }]];
  const seen = [];
  const onApproval = ({ description }) => {
    seen.push(description);
    return "approve";
  };
  const results = await collect(runBatch(["a", "b"], { executable: scriptedAgent(script), onApproval }));
  assert.deepEqual(seen, ["Run", "Run"]);
  assert.deepEqual(results.map(({ result }) => result.rejected), [[], []]);
});

/** Starts and reads a batch of hanging jobs, and waits until two of them run. */
async function runningBatch(options) {
  let onRunning;
  const running = new Promise((resolve) => (onRunning = resolve));
  const onProgress = (progress) => progress.running === 2 && onRunning();
  const batch = runBatch(["a", "b", "c"], { executable: hanging, concurrency: 2, onProgress, ...options });
  const results = collect(batch);
  await running;
  return { batch, results };
}

test("cancel ends running jobs", async () => {
  const { batch, results: read } = await runningBatch();
  await batch.cancel();
  await batch.cancel();
  const results = await read;
  assert.deepEqual(results.map(({ status }) => status), ["cancelled", "cancelled"]);
  assert.throws(() => results[0].raiseForStatus(), TurnCancelled);
});

test("signal cancels the batch, and if aborted before the call, the call throws", async () => {
  const controller = new AbortController();
  const { results: read } = await runningBatch({ signal: controller.signal });
  controller.abort();
  const results = await read;
  assert.deepEqual(results.map(({ status }) => status), ["cancelled", "cancelled"]);
  assert.throws(() => runBatch(["a"], { executable, signal: controller.signal }), { name: "AbortError" });
});

test("dispose cancels the batch", async () => {
  const { batch, results } = await runningBatch();
  await batch[Symbol.asyncDispose]();
  assert.equal((await results).length, 2);
});

test("batch has a deadline", async () => {
  const results = runBatch(["a"], { executable: hanging, timeout: 200 })[Symbol.asyncIterator]();
  assert.equal((await results.next()).value.status, "cancelled");
  await assert.rejects(results.next(), Timeout);
});

test("many jobs run", async () => {
  let most = 0;
  function* jobs() {
    for (let n = 0; n < 200; n += 1) yield { prompt: String(n), data: n };
  }
  const onProgress = ({ running }) => (most = Math.max(most, running));
  const results = await collect(runBatch(jobs(), { executable, concurrency: 32, onProgress }));
  assert.deepEqual(textsOf(results), Array.from({ length: 200 }, (_, n) => `${n}!`));
  assert.ok(most <= 32 && most > 0, String(most));
});

testWithJournal("killed batch is resumed", async (journal, t) => {
  if (process.platform === "win32") return;
  const jobs = Array.from({ length: 20 }, (_, n) => ({ prompt: String(n), key: String(n) }));
  const { child, ended } = start(`
    import { runBatch } from ${dist("index.mjs")};
    const options = { executable: ${JSON.stringify(executable)}, concurrency: 2, journal: ${JSON.stringify(journal)} };
    for await (const { key } of runBatch(${JSON.stringify(jobs)}, options)) console.log(key);
  `, [], temporary(t));
  let read = "";
  while (read.split("\n").length <= 5) read += (await once(child.stdout, "data"))[0];
  child.kill("SIGKILL");
  await ended;
  assert.ok(existsSync(journal));
  const lines = readFileSync(journal, "utf8").split("\n").slice(0, -1).map((line) => JSON.parse(line));
  const finished = lines.flatMap(({ key }) => (key === undefined ? [] : [key]));
  const results = await collect(runBatch(jobs, { executable, concurrency: 2, journal }));
  assert.deepEqual(textsOf(results), jobs.map(({ prompt }) => `${prompt}!`));
  const recalled = results.filter(({ fromJournal }) => fromJournal).map(({ key }) => key);
  assert.deepEqual(recalled.sort(), finished.sort());
});
