import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { container, createSession, prefix, remote, sandbox, ssh } from "../dist/index.mjs";
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
  assert.throws(() => remote({ uri: "a" }), /`uri`: unknown option/);
  const refused = { name: "InvalidOption", option: "place" };
  await assert.rejects(createSession({ executable: "agent", place: prefix({ command: [] }) }), refused);
  await assert.rejects(createSession({ executable: "agent", place: sandbox({ write: 3 }) }), refused);
  await assert.rejects(createSession({ executable: "agent", place: container({}) }), refused);
  await assert.rejects(createSession({ executable: "agent", place: ssh({ host: "a", workDir: "b" }) }), refused);
  await assert.rejects(createSession({ place: remote({ url: "agents.example" }) }), refused);
  await assert.rejects(createSession({ place: remote({ url: "wss://a/acp", headers: { "a b": "c" } }) }), refused);
});

test("remote agent is not started with options of processes", async () => {
  const place = remote({ url: "wss://agents.example/acp", headers: { Authorization: "canary" } });
  assert.doesNotMatch(inspect(place), /canary/);
  for (const [option, value] of Object.entries({ executable: "a", extraArgs: ["-x"], env: { A: "b" }, inheritEnv: false, dialect: "1.10" })) {
    const refused = { name: "InvalidOption", option, message: /the agent at wss:\/\/agents.example\/acp \(from `place`\)/ };
    await assert.rejects(createSession({ place, [option]: value }), refused);
  }
});

test("remote agent shows no secrets", async () => {
  const place = remote({ url: "wss://me:canary@agents.example/acp?token=canary", headers: { Authorization: "canary" } });
  for (const shown of [JSON.stringify(place), inspect(place, { showHidden: true, depth: null }), JSON.stringify({ ...place })]) {
    assert.doesNotMatch(shown, /canary/);
    assert.match(shown, /agents\.example\/acp.*Authorization/s);
  }
  // The core gets the address as it is.
  await assert.rejects(createSession({ place }), { option: "place", message: /`url`: it contains a user name/ });
  const headers = { "a b": "canary" };
  await assert.rejects(createSession({ place: remote({ url: "wss://a/acp", headers }) }), /"a b" is not the name of a header/);
});

test("server that is not there is an error", async () => {
  for (const scheme of ["ws", "http"]) {
    const place = remote({ url: `${scheme}://127.0.0.1:9/acp` });
    await assert.rejects(createSession({ place }), { code: "spawn_error", message: /nothing listens at this port/ });
  }
});
