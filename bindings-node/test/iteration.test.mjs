import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { afterEach, beforeEach, describe, test } from "node:test";
import { setImmediate as tick } from "node:timers/promises";

import bridgeModule from "../dist/bridge.js";
import sessionModule from "../dist/session.js";
import { fakeModule, nativeError, text, USAGE } from "./fake-native.mjs";

const { Bridge } = bridgeModule;
const { Session, promptOnce } = sessionModule;

let module, session;
const unhandled = [];
const onUnhandled = (reason) => unhandled.push(reason);

beforeEach(async () => {
  process.on("unhandledRejection", onUnhandled);
  module = fakeModule();
  session = await Session.open(new Bridge(module), {});
});

afterEach(async () => {
  await tick();
  await tick();
  process.off("unhandledRejection", onUnhandled);
  assert.deepEqual(unhandled.splice(0), []);
});

const listeners = (signal) => getEventListeners(signal, "abort").length;

async function collect(iterable) {
  const found = [];
  for await (const item of iterable) found.push(item);
  return found;
}

describe("events of a turn", () => {
  test("arrive in order, and a batch is acknowledged after its last event", async () => {
    const turn = session.prompt("hi");
    const native = module.session.turn;
    assert.deepEqual(module.session.prompted, "hi");
    native.push("a", "b", "c");
    assert.deepEqual(await turn.next(), { done: false, value: text("a") });
    assert.equal(native.acknowledged, 0);
    native.settle();
    assert.deepEqual(await collect(turn), [text("b"), text("c")]);
    assert.equal(native.acknowledged, 3);
    assert.deepEqual(await turn.next(), { done: true, value: undefined });
    assert.deepEqual(await collect(turn), []);
    assert.equal((await turn.result()).status, "finished");
  });

  test("come in more than one batch", async () => {
    const turn = session.prompt("hi");
    const native = module.session.turn;
    const words = Array.from({ length: 1000 }, (_, index) => String(index));
    native.push(...words.slice(0, 500));
    const reading = collect(turn);
    await tick();
    native.push(...words.slice(500));
    native.settle();
    assert.deepEqual((await reading).map((event) => event.payload.text), words);
  });

  test("keep the process alive while next() waits, also after the outcome", async () => {
    const turn = session.prompt("hi");
    const native = module.session.turn;
    module.bridge.deliver({ type: "settled", turn: native.key });
    await tick();
    await tick();
    assert.equal(module.bridge.keepsAlive, false);
    const next = turn.next();
    assert.equal(module.bridge.keepsAlive, true);
    native.settle();
    assert.deepEqual(await next, { done: true, value: undefined });
    assert.equal(module.bridge.keepsAlive, false);
  });

  test("serve concurrent next() calls in their order", async () => {
    const turn = session.prompt("hi");
    const order = [];
    const all = [0, 1, 2, 3].map(async (index) => {
      const result = await turn.next();
      order.push([index, result.done ? "done" : result.value.payload.text]);
    });
    await tick();
    module.session.turn.push("a");
    await tick();
    module.session.turn.push("b");
    module.session.turn.settle();
    await Promise.all(all);
    assert.deepEqual(order, [
      [0, "a"],
      [1, "b"],
      [2, "done"],
      [3, "done"],
    ]);
  });

  test("leaving the loop informs the addon once and ends the iteration", async () => {
    const turn = session.prompt("hi");
    const native = module.session.turn;
    native.push("a", "b");
    for await (const event of turn) {
      assert.deepEqual(event, text("a"));
      break;
    }
    assert.deepEqual(native.calls, ["startLoop", "abandon"]);
    assert.deepEqual(await turn.return(), { done: true, value: undefined });
    assert.deepEqual(await turn.next(), { done: true, value: undefined });
    assert.deepEqual(native.calls, ["startLoop", "abandon"]);
    assert.equal((await turn.result()).status, "cancelled");
  });

  test("return() ends a next() that waits", async () => {
    const turn = session.prompt("hi");
    const waiting = turn.next();
    await turn.return();
    assert.deepEqual(await waiting, { done: true, value: undefined });
  });

  test("throw() leaves, and rejects with what it was given", async () => {
    const turn = session.prompt("hi");
    const waiting = turn.next();
    const reason = new Error("enough");
    await assert.rejects(turn.throw(reason), reason);
    assert.deepEqual(await waiting, { done: true, value: undefined });
    assert.ok(module.session.turn.calls.includes("abandon"));
  });

  test("failed turn throws once after its events, and from result()", async () => {
    const turn = session.prompt("hi");
    const seen = [];
    const reading = (async () => {
      for await (const event of turn) seen.push(event);
    })();
    module.session.turn.push("a");
    module.session.turn.settle({ error: nativeError("agent_exited", "gone", { exitCode: 3, stderr: "oh" }) });
    await assert.rejects(reading, { code: "agent_exited", exitCode: 3, stderr: "oh" });
    assert.deepEqual(seen, [text("a")]);
    assert.deepEqual(await turn.next(), { done: true, value: undefined });
    await assert.rejects(turn.result(), { name: "AgentExited" });
  });

  test("failed turn that is not awaited makes no unhandled rejection", async () => {
    session.prompt("hi");
    module.session.turn.settle({ error: nativeError("timeout", "late") });
  });
});

describe("steps of a turn", () => {
  test("hold their events; a step that is left is passed over", async () => {
    const turn = session.prompt("hi");
    const native = module.session.turn;
    native.push([1, text("a")], [1, text("b")], [2, text("c")], [2, text("d")], [3, text("e")]);
    const seen = [];
    let ended = false;
    for await (const step of turn.steps) {
      if (step.n === 2) {
        for await (const event of step) {
          seen.push([2, event.payload.text]);
          break;
        }
      } else {
        if (step.n === 3) setImmediate(() => native.settle());
        for await (const event of step) seen.push([step.n, event.payload.text]);
        ended = step.n === 3;
      }
    }
    assert.ok(ended);
    assert.deepEqual(seen, [
      [1, "a"],
      [1, "b"],
      [2, "c"],
      [3, "e"],
    ]);
    assert.equal(native.acknowledged, 5);
    assert.deepEqual(native.calls, ["startLoop"]);
  });

  test("steps that nobody reads are passed over as they come", async () => {
    const turn = session.prompt("hi");
    const native = module.session.turn;
    const numbers = [];
    const reading = (async () => {
      for await (const step of turn.steps) numbers.push(step.n);
    })();
    for (const n of [1, 1, 2, 3, 3]) {
      native.push([n, text("x")]);
      await tick();
      await tick();
    }
    native.settle();
    await reading;
    assert.deepEqual(numbers, [1, 2, 3]);
    assert.equal(native.acknowledged, 5);
  });

  test("leaving the loop cancels the turn", async () => {
    const turn = session.prompt("hi");
    module.session.turn.push([1, text("a")]);
    for await (const step of turn.steps) {
      assert.equal(step.n, 1);
      break;
    }
    assert.ok(module.session.turn.calls.includes("abandon"));
  });
});

describe("an AbortSignal", () => {
  test("that was aborted before fails the turn with its reason, and nothing is sent", async () => {
    const reason = new Error("not now");
    await assert.rejects(session.prompt("hi", { signal: AbortSignal.abort(reason) }).result(), reason);
    assert.equal(module.session.prompted, undefined);
  });

  test("cancels a running turn, whose loop ends", async () => {
    const controller = new AbortController();
    const turn = session.prompt("hi", { signal: controller.signal });
    module.session.turn.push("a");
    const seen = [];
    for await (const event of turn) {
      seen.push(event);
      controller.abort();
    }
    assert.deepEqual(seen, [text("a")]);
    assert.ok(module.session.turn.calls.includes("cancel"));
    assert.equal((await turn.result()).status, "cancelled");
    assert.equal(listeners(controller.signal), 0);
  });

  test("has no listener left when the turn has settled, read or not", async () => {
    const { signal } = new AbortController();
    for (let round = 0; round < 3; round += 1) {
      const turn = session.prompt("hi", { signal });
      assert.equal(listeners(signal), 1);
      module.session.turn.settle();
      if (round === 1) await collect(turn);
      else await tick();
      await tick();
      assert.equal(listeners(signal), 0);
    }
  });

  test("does nothing after the end", async () => {
    const controller = new AbortController();
    const turn = session.prompt("hi", { signal: controller.signal });
    module.session.turn.settle();
    await turn.result();
    controller.abort();
    await tick();
    assert.deepEqual(module.session.turn.calls, []);
  });
});

describe("a session", () => {
  test("fails a second prompt, typed: prompt() itself never throws", async () => {
    const turn = session.prompt("hi");
    const second = session.prompt("again");
    const expected = { name: "TurnInProgress", code: "turn_in_progress" };
    await assert.rejects(second.result(), expected);
    await assert.rejects(second.steer("more"), expected);
    await assert.rejects(collect(second), expected);
    assert.deepEqual(await collect(second), []);
    await second.cancel();
    await second[Symbol.asyncDispose]();
    assert.deepEqual([second.discarded, second.usage.output], [0, 0]);
    const steps = session.prompt("again").steps;
    await assert.rejects(steps.next(), expected);
    module.session.turn.settle();
    return turn.result();
  });

  test("that cannot be opened rejects typed", async () => {
    module.openFailure = nativeError("handshake_error", "who is there?");
    await assert.rejects(Session.open(new Bridge(module), {}), { name: "HandshakeError", message: "who is there?" });
  });

  test("is described by properties", async () => {
    assert.equal(session.id, "session");
    assert.equal(session.workDir, "/work");
    assert.equal(session.state, "idle");
    assert.equal(session.protocolVersion, "1.10");
    assert.equal(session.pid, 4242);
    assert.deepEqual(session.server, { name: "fake", version: "1" });
    assert.deepEqual(session.usage, { ...USAGE, total: 0 });
    assert.deepEqual(session.status, { plan_mode: true });
    assert.equal(session.prompt("hi").discarded, 7);
    assert.deepEqual(session.capabilities, { planMode: true, hooks: [] });
    assert.deepEqual(session.externalTools, { accepted: [], rejected: [] });
    await session.setPlanMode(true);
    await session[Symbol.asyncDispose]();
    assert.equal(session.state, "closed");
  });

  test("passes answers on for a request, its payload or its id", async () => {
    const { Reject } = await import("../dist/index.mjs");
    const turn = session.prompt("hi");
    await turn.respond({ type: "ApprovalRequest", payload: { id: "a" } }, "approve");
    await turn.respond({ id: "b" }, new Reject("no"));
    await turn.respond("c", undefined);
    assert.deepEqual(module.session.turn.calls, [
      ["respond", "a", "approve"],
      ["respond", "b", { reject: "no" }],
      ["respond", "c", null],
    ]);
    await session.respond("d", { "Which?": ["A", "B"] });
    assert.deepEqual(module.session.responded, ["d", { "Which?": ["A", "B"] }]);
    await assert.rejects(turn.steer("more"), { code: "no_active_turn" });
    module.session.turn.settle();
  });

  test("disposing of a turn cancels it and waits", async () => {
    const turn = session.prompt("hi");
    await turn[Symbol.asyncDispose]();
    assert.deepEqual(module.session.turn.calls, ["abandon", "cancel"]);
    await turn[Symbol.asyncDispose]();
    assert.equal(module.session.turn.calls.length, 2);
  });

  test("replays events", async () => {
    const replay = session.replay();
    module.session.turn.push("a");
    module.session.turn.settle({ result: {} });
    assert.deepEqual(await collect(replay), [text("a")]);
  });

  test("replays events one by one", async () => {
    const replay = session.replay();
    module.session.turn.push("a");
    module.session.turn.settle({ result: {} });
    assert.deepEqual(await replay.next(), { done: false, value: text("a") });
    assert.equal((await replay.next()).done, true);
  });

  test("for one prompt takes options and signal together", async () => {
    const controller = new AbortController();
    const turn = promptOnce(new Bridge(module), "hi", { workDir: "/x", signal: controller.signal });
    const { content, options } = module.opened;
    assert.deepEqual({ content, options }, { content: "hi", options: { workDir: "/x" } });
    controller.abort();
    assert.equal((await turn.result()).status, "cancelled");
  });
});

describe("the process stays alive", () => {
  test("for a call, a running turn and a handler, not for an idle session", async () => {
    assert.equal(module.bridge.keepsAlive, false);
    const turn = session.prompt("hi");
    assert.equal(module.bridge.keepsAlive, true);
    module.session.turn.settle();
    await tick();
    await tick();
    assert.equal(module.bridge.keepsAlive, false);
    await turn.result();
    const closing = session.close();
    assert.equal(module.bridge.keepsAlive, true);
    await closing;
    assert.equal(module.bridge.keepsAlive, false);
  });
});
