// Reading a turn, and waiting for its result at the same time.
import assert from "node:assert/strict";
import { test } from "node:test";

import { createSession, InvalidOption } from "../dist/index.mjs";
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
  for (const _ of turns) {
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

testWith("next() by hand may come before a loop, and a loop that was refused leaves nothing", turns, {}, async (session) => {
  const turn = session.prompt("Go");
  assert.equal((await turn.next()).value.type, "TurnBegin");
  const loop = turn[Symbol.asyncIterator]();
  assert.equal((await loop.next()).value.type, "StepBegin");
  const other = turn[Symbol.asyncIterator]();
  await assert.rejects(other.next(), InvalidOption);
  await other.return();
  assert.equal(textOf(await collect(loop)), words.join(""));
});
