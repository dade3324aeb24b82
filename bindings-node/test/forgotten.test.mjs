// Sessions of the real addon that nobody holds any more: the garbage collector ends them, and their agents go.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { setImmediate as tick } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { createSession, output } from "../dist/index.mjs";
import { holder } from "./programs.mjs";

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc");

const folder = mkdtempSync(join(tmpdir(), "forgotten-"));
after(() => rmSync(folder, { recursive: true }));

const held = holder(folder);

/** Collects garbage until the agent is gone; a test whose agent stays runs into its limit. */
async function collectUntil(gone) {
  let over = false;
  void gone.then(() => (over = true));
  while (!over) {
    gc();
    await tick();
  }
}

const skip = process.platform === "win32" && "there are no named pipes of this kind";

describe("an unreferenced session", { timeout: 240_000, skip }, () => {
  test("is collected when it is idle, and its agent exits", async () => {
    const agent = held("idle", [[{ text: "a" }]]);
    const collected = [];
    const registry = new FinalizationRegistry((what) => collected.push(what));
    await (async () => {
      const session = await createSession({ executable: agent.executable, onEvent: () => session.id });
      registry.register(session, "session");
      assert.equal((await session.prompt("hi").result()).text, "a");
    })();
    await collectUntil(agent.gone);
    while (collected.length === 0) await tick();
    assert.deepEqual(collected, ["session"]);
  });

  test("is collected in the middle of an unreferenced turn", async () => {
    const agent = held("turn", [[{ text: "a" }, { wait_cancel: true }]]);
    await (async () => {
      const session = await createSession({ executable: agent.executable });
      const turn = session.prompt("hi");
      assert.equal((await turn.next()).value.type, "TurnBegin");
    })();
    await collectUntil(agent.gone);
  });

  test("is collected with output that refers to its turn", async () => {
    const agent = held("output", [[{ text: "a" }, { wait_cancel: true }]]);
    await (async () => {
      const session = await createSession({ executable: agent.executable });
      const turns = [];
      const validate = (value) => ({ value, turns });
      const checked = output({ type: "object" }, { validate: { "~standard": { version: 1, vendor: "test", validate } } });
      turns.push(session.prompt("hi", { output: checked }));
      assert.equal((await turns[0].next()).value.type, "TurnBegin");
    })();
    await collectUntil(agent.gone);
  });

  test("is kept while its turn is read", async () => {
    const agent = held("read", [[{ text: "a" }, { wait_cancel: true }, { text: "b" }]]);
    const turn = await (async () => (await createSession({ executable: agent.executable })).prompt("hi"))();
    const texts = [];
    for await (const event of turn) {
      if (event.type !== "ContentPart") continue;
      texts.push(event.payload.text);
      for (let round = 0; round < 20; round += 1) {
        gc();
        await tick();
      }
      if (texts.length === 1) void turn.cancel();
    }
    assert.deepEqual(texts, ["a", "b"]);
    assert.equal((await turn.result()).status, "cancelled");
  });
});
