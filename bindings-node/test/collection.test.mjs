import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { setImmediate as tick } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import bridgeModule from "../dist/bridge.js";
import sessionModule from "../dist/session.js";
import { fakeModule, text } from "./fake-native.mjs";

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc");

async function open(module, options = {}) {
  module.surface ??= new bridgeModule.Bridge(module);
  return sessionModule.Session.open(module.surface, options);
}

async function collectUntil(condition) {
  for (let round = 0; round < 100 && !condition(); round += 1) {
    gc();
    await tick();
  }
  assert.ok(condition(), "it was not collected");
}

test("unreferenced session is abandoned although its handlers refer to it", async () => {
  const module = fakeModule();
  await (async () => {
    let session;
    session = await open(module, { onEvent: () => session.id });
  })();
  await collectUntil(() => module.abandoned.includes(module.session.key));
});

test("unreferenced turn is abandoned, and its listener is removed", async () => {
  const module = fakeModule();
  const session = await open(module);
  const { signal } = new AbortController();
  (() => void session.prompt("hi", { signal }))();
  const native = module.session.turn;
  await collectUntil(() => native.calls.includes("abandon"));
  assert.equal(getEventListeners(signal, "abort").length, 0);
  assert.equal(module.bridge.keepsAlive, false);
});

test("turn that is read or awaited is not abandoned", async () => {
  const module = fakeModule();
  const seen = [];
  let reading, result;
  await (async () => {
    const session = await open(module);
    reading = (async () => {
      for await (const event of session.prompt("hi")) seen.push(event);
    })();
    const other = await open(module);
    result = other.prompt("ho").result();
  })();
  const turns = module.sessions.map((session) => session.turn);
  for (let round = 0; round < 5; round += 1) {
    gc();
    await tick();
  }
  assert.deepEqual(module.abandoned, []);
  turns[0].push("a");
  for (const turn of turns) turn.settle();
  await reading;
  await result;
  assert.deepEqual(seen, [text("a")]);
});
