// The log target `kimi_agent.wire`, and what else the core logs of an agent's lines.
import assert from "node:assert/strict";
import { test } from "node:test";

import { createSession, setLogger } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

/** The records of one turn in a session. */
async function logged(level, actions, options = {}, text = "go") {
  const records = [];
  setLogger((record) => records.push(record), level);
  try {
    const session = await createSession({ executable: scriptedAgent([actions]), ...options });
    await session.prompt(text).result();
    await session.close();
  } finally {
    setLogger(null);
  }
  return records;
}

const isMessage = ({ target }) => target === "kimi_agent.wire";

test("messages are logged at the level trace only, with secrets replaced", async () => {
  const options = { env: { TOKEN: "canary-of-env" } };
  const quiet = await logged("debug", [{ text: "a" }], options);
  assert.deepEqual(quiet.filter(isMessage), []);
  const records = await logged("trace", [{ text: "b" }], options, "my canary-of-env");
  const messages = records.filter(isMessage).map(({ message }) => message);
  assert.ok(messages.some((message) => /^> \{.*"prompt".*my \*\*\*/.test(message)), messages.join("\n"));
  assert.ok(messages.some((message) => /^< \{.*"text":"b"/.test(message)), messages.join("\n"));
  assert.ok(!records.some(({ message }) => message.includes("canary")));
});

test("flood of invalid lines is summarised, and unknown events are logged at debug level", async () => {
  const flood = { repeat: { times: 3000, actions: [{ raw: "not JSON" }] }, bulk: true };
  const records = await logged("debug", [flood, { event: { type: "Novel", payload: {} } }]);
  const invalid = records.filter(({ message }) => message.includes("invalid line"));
  assert.ok(invalid.length >= 5 && invalid.length <= 8, String(invalid.length));
  assert.ok(invalid.some(({ message }) => message.includes("more invalid lines dropped")));
  const unknown = records.filter(({ message }) => message.includes("unknown event delivered"));
  assert.deepEqual(unknown.map(({ level }) => level), ["debug"]);
});
