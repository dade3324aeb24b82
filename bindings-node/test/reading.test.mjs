// Reading a turn, and waiting for its result at the same time.
import assert from "node:assert/strict";
import { test } from "node:test";

import { createSession, InvalidOption, openAgent, prompt, SessionClosed, setLogger, Timeout } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

const words = Array.from({ length: 20 }, (_, n) => `${n} `);
const turns = Array.from({ length: 50 }, () => [{ text: words, bulk: true }]);

const textOf = (events) => events.map(({ payload }) => payload.text ?? "").join("");

async function collect(iterable) {
  const found = [];
  for await (const item of iterable) found.push(item);
  return found;
}

async function collectSteps(turn) {
  const found = [];
  for await (const step of turn.steps) found.push(...(await collect(step)));
  return found;
}

/** A test with a session of its own. */
function testWith(name, script, options, use) {
  test(name, async () => {
    const session = await createSession({ executable: scriptedAgent(script), ...options });
    try {
      await use(session);
    } finally {
      await session.close();
    }
  });
}

for (const eventBufferBytes of [1024, 256 << 10]) {
  const name = `result() before the loop takes no event away, with a buffer of ${eventBufferBytes} bytes`;
  testWith(name, turns, { eventBufferBytes }, async (session) => {
    for (const index of turns.keys()) {
      const turn = session.prompt("Go");
      const result = turn.result();
      const events = await (index % 2 ? collect(turn) : collectSteps(turn));
      assert.equal(textOf(events), words.join(""));
      assert.equal((await result).text, words.join(""));
      assert.equal(turn.discarded, 0);
    }
  });
}

testWith("Promise.all of result() and a loop gives every event", turns, {}, async (session) => {
  for (let index = 0; index < turns.length; index += 1) {
    const turn = session.prompt("Go");
    const [result, events] = await Promise.all([turn.result(), collect(turn)]);
    assert.equal(textOf(events), result.text);
  }
});

const long = [{ text: words.concat("x".repeat(4096), words), bulk: true }];
testWith("a loop after result() gets the events that were kept", [turns[0], long], { eventBufferBytes: 2048 }, async (session) => {
  const short = session.prompt("Go");
  await short.result();
  const kept = await collect(short);
  assert.equal(kept[0].type, "TurnBegin");
  assert.equal(kept.length + short.discarded, words.length + 3);
  const other = session.prompt("Go");
  const { text } = await other.result();
  assert.ok(text.startsWith(textOf(await collect(other))));
  assert.ok(other.discarded > 0);
});

testWith("a second loop over a turn is refused, and the first one goes on", turns, {}, async (session) => {
  const turn = session.prompt("Go");
  const first = collect(turn);
  const refused = (error) => error instanceof InvalidOption && /another loop reads its events/.test(error.message);
  await assert.rejects(collect(turn), refused);
  await assert.rejects(turn.next(), refused);
  assert.equal(textOf(await first), words.join(""));
  assert.deepEqual(await collect(turn), []);

  const byStep = session.prompt("Go");
  const steps = collectSteps(byStep);
  await assert.rejects(collectSteps(byStep), refused);
  assert.equal(textOf(await steps), words.join(""));
});

testWith("next() may come before a loop, and a refused loop takes no event", turns, {}, async (session) => {
  const turn = session.prompt("Go");
  assert.equal((await turn.next()).value.type, "TurnBegin");
  const loop = turn[Symbol.asyncIterator]();
  assert.equal((await loop.next()).value.type, "StepBegin");
  const other = turn[Symbol.asyncIterator]();
  await assert.rejects(other.next(), InvalidOption);
  await other.return();
  assert.equal(textOf(await collect(loop)), words.join(""));
});

testWith("textStream gives the answer's text as strings", [[{ think: "Hm" }, { text: ["Hel", "lo"] }]], {}, async (session) => {
  const turn = session.prompt("Go");
  assert.deepEqual(await collect(turn.textStream), ["Hel", "lo"]);
  assert.equal((await turn.result()).text, "Hello");
});

const waiting = [{ text: "One" }, { wait_cancel: true }];

testWith("leaving textStream leaves the turn", [waiting, [{ text: "Two" }]], {}, async (session) => {
  for await (const piece of session.prompt("Go").textStream) {
    assert.equal(piece, "One");
    break;
  }
  assert.equal((await session.prompt("Go").result()).text, "Two");
});

testWith("options of one prompt override the session's", [waiting, waiting, [{ text: "Two" }]], {}, async (session) => {
  await assert.rejects(session.prompt("Go", { timeout: 50 }).result(), Timeout);
  await assert.rejects(session.prompt("Go", { idleTimeout: 50 }).result(), Timeout);
  const wrong = (options) => assert.rejects(session.prompt("Go", options).result(), InvalidOption);
  await wrong({ timeout: "soon" });
  await wrong({ timeout: Number.NaN });
  await wrong(null);
  await assert.rejects(session.prompt("Go", { timout: 5 }).result(), { option: "timout", message: /did you mean `timeout`/ });
  assert.equal((await session.prompt("Go", { timeout: 60_000, idleTimeout: undefined }).result()).text, "Two");
});

test("prompt() alone has a timeout, too, and never throws", async () => {
  const executable = scriptedAgent([waiting]);
  await assert.rejects(prompt("Go", { executable, timeout: 50 }).result(), Timeout);
  await assert.rejects(prompt("Go", { executable, timout: 50 }).result(), InvalidOption);
  await assert.rejects(collect(prompt("Go", null)), InvalidOption);
});

testWith("session.cancel() cancels the running turn", [waiting, waiting], {}, async (session) => {
  const turn = session.prompt("Go");
  await turn.next();
  await session.cancel();
  assert.equal((await turn.result()).status, "cancelled");
  for await (const event of session.prompt("Go")) if (event) break;
  await session.cancel();
  assert.equal(session.state, "idle");
  await session.cancel();
  await session.close();
  await assert.rejects(session.cancel(), SessionClosed);
  await assert.rejects(turn.steer("Go"), SessionClosed);
});

test("close({ timeout: 0 }) kills the agent at once", async () => {
  const stubborn = [[{ text: "One" }, { ignore_eof: true }, { ignore_signal: "TERM" }, { stall: true }]];
  const session = await createSession({ executable: scriptedAgent(stubborn), closeTimeout: 600_000, cancelTimeout: 600_000 });
  const turn = session.prompt("Go");
  await turn.next();
  await assert.rejects(session.close({ timeout: -1 }), { option: "timeout" });
  await session.close({ timeout: 0 });
  await assert.rejects(turn.result(), SessionClosed);
  const agent = await openAgent({ executable: scriptedAgent(stubborn), closeTimeout: 600_000 });
  const other = await agent.createSession({ cancelTimeout: 600_000, closeTimeout: 600_000 });
  await other.prompt("Go").next();
  await agent.close({ timeout: 0 });
  assert.equal(other.state, "closed");
});

test("prompt on a closed session fails its turn, and a turn that was left on purpose is not logged", async () => {
  const session = await createSession({ executable: scriptedAgent([waiting, waiting, waiting]) });
  const logged = [];
  setLogger(({ level, message }) => logged.push([level, message]), "warn");
  try {
    await session.prompt("Go").return();
    await session.cancel();
    await session.prompt("Go")[Symbol.asyncDispose]();
    for await (const event of session.prompt("Go")) if (event) break;
    await session.close();
    assert.deepEqual(logged, []);
    await assert.rejects(collect(session.prompt("Go")), SessionClosed);
    await session.prompt("Go").return();
    assert.deepEqual(logged, []);
  } finally {
    setLogger(null);
  }
});

const event = (type, payload) => ({ raw: JSON.stringify({ jsonrpc: "2.0", method: "event", params: { type, payload } }) });
const unreadable = {
  tool_call_id: "t",
  return_value: { is_error: false, output: "ok", message: "", display: "one", extras: 5 },
};

testWith(
  "optional property that cannot be read counts as left out, and is in the JSON of the event",
  [[event("ToolResult", unreadable), event("StatusUpdate", { context_usage: "half", plan_mode: true })]],
  {},
  async (session) => {
    const events = await collect(session.prompt("Go"));
    const [result] = events.filter(({ type }) => type === "ToolResult");
    assert.deepEqual(result.payload.return_value.display, []);
    assert.equal(result.payload.return_value.extras, undefined);
    assert.deepEqual(JSON.parse(JSON.stringify(result.payload)), unreadable);
    const [status] = events.filter(({ type }) => type === "StatusUpdate");
    assert.deepEqual(Object.keys(status.payload), ["plan_mode"]);
    assert.deepEqual(JSON.parse(JSON.stringify(status.payload)), { context_usage: "half", plan_mode: true });
  },
);
