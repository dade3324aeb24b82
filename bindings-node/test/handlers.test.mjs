import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { test } from "node:test";
import { setImmediate as tick } from "node:timers/promises";

import bridgeModule from "../dist/bridge.js";
import sessionModule from "../dist/session.js";
import { Block, hook, reject, setLogger } from "../dist/index.mjs";
import { fakeModule } from "./fake-native.mjs";

async function open(options) {
  const module = fakeModule();
  const session = await sessionModule.Session.open(new bridgeModule.Bridge(module), options);
  let id = 0;
  const run = (kind, payload, { index, callId, inTurn = false } = {}) => {
    id += 1;
    const payloadJson = JSON.stringify(payload);
    module.bridge.deliver({ type: "job", id, owner: module.session.key, kind, index, payloadJson, callId, inTurn });
    return id;
  };
  const answers = async (count) => {
    while (module.bridge.jobsDone.length < count) {
      await new Promise((resolve) => {
        module.bridge.onJobDone = resolve;
      });
    }
    return module.bridge.jobsDone;
  };
  return { module, session, run, answers };
}

test("a tool gets the id of its call and reports its progress", async () => {
  const wrong = [];
  const attempt = (report) => {
    try {
      report();
    } catch (error) {
      wrong.push([error.name, error.message]);
    }
  };
  const handler = async (_, { callId, progress, signal }) => {
    assert.ok(signal instanceof AbortSignal);
    progress(0.5, "half");
    progress(undefined, "more");
    progress(null, null);
    progress();
    attempt(() => progress("half"));
    attempt(() => progress(0.5, 7));
    return callId;
  };
  const { run, answers, module, session } = await open({
    tools: [{ name: "work", description: "works", parameters: {}, handler }],
  });
  const id = run("tool", {}, { index: 0, callId: "c1" });
  assert.deepEqual(await answers(1), [{ id, answerJson: '"c1"' }]);
  assert.deepEqual(module.bridge.progress, [
    [id, 0.5, "half"],
    [id, undefined, "more"],
    [id, undefined, undefined],
    [id, undefined, undefined],
  ]);
  assert.deepEqual(wrong, [
    ["TypeError", "fraction: expected a number from 0 to 1, got a string"],
    ["TypeError", "message: expected text, got a number"],
  ]);
  assert.ok(session);
});

test("each kind of handler gets its request, and its answer goes back as JSON", async () => {
  const seen = [];
  const note = (kind, answer) => (request, { signal }) => {
    assert.ok(signal instanceof AbortSignal);
    seen.push([kind, request]);
    return answer;
  };
  const { run, answers, session } = await open({
    onApproval: note("approval", reject("later")),
    onQuestion: note("question"),
    onEvent: note("event", 1n),
    onStderr: note("stderr", "ignored"),
    tools: [{ name: "add", description: "adds", parameters: {}, handler: note("tool", { sum: 3 }) }],
    hooks: [hook({ event: "Stop", handler: note("hook0") }), { event: "Stop", handler: note("hook1", new Block("no")) }],
  });
  run("approval", { id: "1" });
  run("question", { id: "2" });
  run("event", { type: "TurnEnd", payload: {} });
  run("stderr", "a line");
  run("tool", { a: 1, b: 2 }, { index: 0 });
  run("hook", { id: "3" }, { index: 0 });
  run("hook", { id: "4" }, { index: 1 });
  const done = await answers(7);
  assert.deepEqual(seen, [
    ["approval", { id: "1" }],
    ["question", { id: "2" }],
    ["event", { type: "TurnEnd", payload: {} }],
    ["stderr", "a line"],
    ["tool", { a: 1, b: 2 }],
    ["hook0", { id: "3" }],
    ["hook1", { id: "4" }],
  ]);
  assert.deepEqual(
    done.sort((a, b) => a.id - b.id).map(({ answerJson }) => answerJson),
    ['{"reject":"later"}', "null", "null", "null", '{"sum":3}', "null", '{"block":"no"}'],
  );
  assert.ok(session);
});

test("error of a handler is returned as text", async () => {
  const { run, answers, session } = await open({
    onApproval: () => {
      throw new Error("sync");
    },
    onQuestion: async () => {
      await tick();
      throw "a string";
    },
    tools: [{ name: "t", description: "", parameters: {}, handler: () => 10n }],
    hooks: [{ event: "Stop", handler: () => Promise.reject(Object.create(null)) }],
  });
  run("approval", {});
  run("question", {});
  run("tool", {}, { index: 0 });
  run("hook", {}, { index: 0 });
  const done = (await answers(4)).sort((a, b) => a.id - b.id);
  assert.deepEqual(done[0], { id: 1, reason: "sync" });
  assert.deepEqual(done[1], { id: 2, reason: "a string" });
  assert.match(done[2].reason, /a bigint, which has no JSON form/);
  assert.match(done[3].reason, /no text/);
  assert.ok(session);
});

test("handlers run concurrently, and a cancelled handler is aborted and not answered", async () => {
  const aborted = [];
  let release;
  const gate = new Promise((resolve) => (release = resolve));
  const { run, answers, module, session } = await open({
    onApproval: async ({ id }, { signal }) => {
      signal.addEventListener("abort", () => aborted.push(id));
      if (id === "slow") await gate;
      return "approve";
    },
  });
  const slow = run("approval", { id: "slow" });
  run("approval", { id: "quick" });
  assert.equal((await answers(1))[0].id, 2);
  assert.equal(module.bridge.keepsAlive, true);
  module.bridge.deliver({ type: "cancel_job", id: slow });
  await tick();
  await tick();
  assert.deepEqual(aborted, ["slow"]);
  assert.equal(module.bridge.keepsAlive, false);
  release();
  await tick();
  assert.equal(module.bridge.jobsDone.length, 1);
  assert.ok(session);
});

test("handlers see the asynchronous context of their caller", async () => {
  const storage = new AsyncLocalStorage();
  const seen = [];
  const { run, answers, session } = await storage.run("opened", () =>
    open({ onApproval: () => (seen.push(storage.getStore()), "reject") }),
  );
  const turn = storage.run("prompted", () => session.prompt("hi"));
  storage.run("elsewhere", () => {
    run("approval", {});
    run("approval", {}, { inTurn: true });
  });
  await answers(2);
  assert.deepEqual(seen, ["opened", "prompted"]);
  assert.ok(turn);
});

test("job of an unknown session is answered with a failure", async () => {
  const { module, answers } = await open({});
  module.bridge.deliver({ type: "job", id: 9, owner: 12345, kind: "approval", payloadJson: "{}", inTurn: false });
  assert.deepEqual(await answers(1), [{ id: 9, reason: "the session is gone" }]);
});

test("log is passed to the logger, and a logger that throws causes a warning", async () => {
  const { module } = await open({});
  const records = [];
  assert.equal(module.bridge.level, undefined);
  setLogger((record) => {
    records.push(record);
    if (record.level === "error") throw new Error("no disk");
  }, "debug");
  assert.equal(module.bridge.level, "debug");
  const warned = new Promise((resolve) => process.once("warning", resolve));
  module.bridge.deliver(
    { type: "log", level: "error", target: "kimi_agent::driver", message: "first" },
    { type: "log", level: "info", target: "x", message: "second" },
  );
  assert.match((await warned).message, /no disk/);
  assert.deepEqual(records, [
    { level: "error", target: "kimi_agent::driver", message: "first" },
    { level: "info", target: "x", message: "second" },
  ]);
  setLogger(null);
  assert.equal(module.bridge.level, null);
});

test("invalid logger or level is refused and changes nothing", async () => {
  const { module } = await open({});
  setLogger(() => undefined, "warn");
  const wrong = (option, message) => ({ name: "InvalidOption", option, message });
  assert.throws(() => setLogger(() => undefined, "verbose"), wrong("level", /expected one of "error".*got "verbose"/));
  assert.throws(() => setLogger(() => undefined, null), wrong("level", /got null/));
  assert.throws(() => setLogger("console"), wrong("logger", /expected a function or null; got "console"/));
  assert.equal(module.bridge.level, "warn");
  setLogger(null);
});
