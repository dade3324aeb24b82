import assert from "node:assert/strict";
import { test } from "node:test";

import { container, createSession, prefix, sandbox, ssh } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

test("agent runs behind a command", async () => {
  const executable = scriptedAgent([[{ text: "{{env.PLACE}}" }]]);
  const session = await createSession({ executable, place: prefix({ command: ["env", "PLACE=behind"] }) });
  assert.equal((await session.prompt("x").result()).text, "behind");
  await session.close();
});

test("wrong settings of a place are refused", async () => {
  assert.throws(() => prefix({ commands: ["env"] }), /unknown option; the options are `command`, `paths`/);
  assert.throws(() => sandbox({ networks: false }), /`networks`: unknown option/);
  assert.throws(() => container({ img: "a" }), /`img`: unknown option/);
  assert.throws(() => ssh({ hosts: "a" }), /`hosts`: unknown option/);
  const refused = { name: "InvalidOption", option: "place" };
  await assert.rejects(createSession({ executable: "agent", place: prefix({ command: [] }) }), refused);
  await assert.rejects(createSession({ executable: "agent", place: sandbox({ write: 3 }) }), refused);
  await assert.rejects(createSession({ executable: "agent", place: container({}) }), refused);
  await assert.rejects(createSession({ executable: "agent", place: ssh({ host: "a", workDir: "b" }) }), refused);
});
