// Costs of turns, and prices.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";

import { createSession } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

const folder = mkdtempSync(join(tmpdir(), "kimi-agent-test-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const SCRIPT = [[{ text: "Done" }, { usage: { input_other: 1_000_000, input_cache_read: 1_000_000, output: 100_000 } }]];
const file = join(folder, "prices.toml");
writeFileSync(file, "[k2]\ninput = 0.6\noutput = 2.5\ncache_read = 0.15\n");

for (const [what, prices] of [
  ["an object", { k2: { input: 0.6, output: 2.5, cacheRead: 0.15 } }],
  ["a path", file],
  ["a file URL", pathToFileURL(file)],
]) {
  test(`prices in ${what} estimate the cost`, async () => {
    const session = await createSession({ executable: scriptedAgent(SCRIPT), model: "k2", prices });
    try {
      const { cost } = await session.prompt("Go").result();
      assert.deepEqual(cost, { amount: 1, currency: "USD", source: "estimated" });
      assert.deepEqual(session.status.cost, cost);
    } finally {
      await session.close();
    }
  });
}
