// A test of vitest that records once, and then plays without its agent.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";

import { agent } from "./helpers.mjs";

const VITEST = join(import.meta.dirname, "node_modules", "vitest", "vitest.mjs");
let folder;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "kimi-agent-vitest-"));
});

afterEach(() => rmSync(folder, { recursive: true }));

function vitest(mode, executable) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [VITEST, "run", "--root", "cassette", "greeting"], {
    cwd: import.meta.dirname,
    env: {
      ...process.env,
      GREETING: join(folder, "greeting.jsonl"),
      KIMI_RECORD: mode,
      KIMI_AGENT_EXECUTABLE: executable,
      NO_COLOR: "1",
    },
    encoding: "utf8",
    timeout: 120_000,
  });
  return { status, output: stdout + stderr };
}

test("vitest records once", () => {
  const recorded = vitest("once", agent([[{ text: "Hello!" }]]));
  assert.equal(recorded.status, 0, recorded.output);
  const recording = readFileSync(join(folder, "greeting.jsonl"), "utf8");
  for (const mode of ["once", "none"]) {
    const played = vitest(mode, "/no/such/agent");
    assert.equal(played.status, 0, played.output);
  }
  assert.equal(readFileSync(join(folder, "greeting.jsonl"), "utf8"), recording);
});

test("vitest shows a missing cassette", () => {
  const { status, output } = vitest("none", "/no/such/agent");
  assert.equal(status, 1, output);
  assert.match(output, /KIMI_RECORD=once/);
});
