// Ctrl-C in a program that runs a batch.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { dist, start, temporary } from "./programs.mjs";

const skip = process.platform === "win32" && "sends SIGINT";

/** Runs git in a folder. */
function git(folder, ...args) {
  const identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
  return execFileSync("git", ["-C", folder, ...identity, ...args], { encoding: "utf8" });
}

/** Sends SIGINT to a program with two running jobs in worktrees, once or after each line that it prints. */
async function interrupted({ before = "", body = "results.push(status);", deafTo = [], signals = 1 } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "kimi-interrupts-"));
  try {
    const [repository, temp] = [join(folder, "repository"), join(folder, "temp")];
    [repository, temp].forEach((path) => mkdirSync(path));
    git(repository, "init", "-q");
    git(repository, "commit", "-q", "--allow-empty", "-m", "first");
    const journal = join(folder, "batch.jsonl");
    const { child, ended } = start(`
      import { runBatch } from ${dist("index.mjs")};
      const ask = { tool_call: { name: "Shell", approve: true, result: "ok" } };
      const script = { deaf_to: ${JSON.stringify(deafTo)}, turns: [[ask, { wait_cancel: true }]] };
      const options = { executable: scriptedAgent(script), concurrency: 2, workspace: "worktree",
        journal: ${JSON.stringify(journal)}, workDir: ${JSON.stringify(repository)} };
      const results = [];
      let running = 0;
      const onApproval = () => {
        if ((running += 1) === 2) console.log("running");
        return "approve";
      };
      ${before}
      for await (const { status } of runBatch(["a", "b", "c"], { ...options, onApproval })) { ${body} }
      console.log("after", ...results);
    `, [], { TMPDIR: temp });
    await once(child.stdout, "data");
    child.kill("SIGINT");
    if (signals > 1) {
      await once(child.stdout, "data");
      child.kill("SIGINT");
    }
    const { status, signal, stdout, stderr } = await ended;
    const lines = readFileSync(journal, "utf8").trim().split("\n").slice(1);
    return {
      ended: [status, signal],
      out: stdout.trim().split("\n"),
      stderr,
      statuses: lines.map((line) => JSON.parse(line).status),
      worktrees: git(repository, "worktree", "list").trim().split("\n").length,
      branches: git(repository, "branch", "--list", "kimi-agent/*"),
      folders: readdirSync(temp),
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Nothing is left, and the journal is complete. */
function assertDrained({ statuses, worktrees, branches, folders, stderr }) {
  assert.deepEqual(statuses, ["cancelled", "cancelled"], stderr);
  assert.deepEqual({ worktrees, branches, folders }, { worktrees: 1, branches: "", folders: [] });
}

test("interrupt drains the batch", { skip }, async () => {
  const found = await interrupted();
  assert.deepEqual(found.ended, [130, null], found.stderr);
  assertDrained(found);
});

test("second interrupt ends the program", { skip }, async () => {
  // The agent does not answer the cancel, so that the first one still waits.
  const before = `process.prependListener("SIGINT", () => console.log("SIGINT"));
    process[Symbol.for("signal-exit emitter")] = { count: 1 };`;
  const found = await interrupted({ before, deafTo: ["cancel"], signals: 2 });
  assert.deepEqual(found.ended, [130, null], found.stderr);
  assertDrained(found);
});

test("listener of program decides", { skip }, async () => {
  const before = `const controller = new AbortController();
    options.signal = controller.signal;
    process.once("SIGINT", () => controller.abort());`;
  const found = await interrupted({ before });
  assert.deepEqual(found.ended, [0, null], found.stderr);
  assert.deepEqual(found.out, ["running", "after cancelled cancelled"]);
  assertDrained(found);
});

test("exit of program drains the batch", { skip }, async () => {
  const found = await interrupted({ before: `process.once("SIGINT", () => process.exit(3));` });
  assert.deepEqual(found.ended, [3, null], found.stderr);
  assertDrained(found);
});

test("ended batch leaves SIGINT to the system", { skip }, async (t) => {
  const { child, ended } = start(`
    import { runBatch } from ${dist("index.mjs")};
    for await (const _ of runBatch(["a"], { executable: scriptedAgent([[{ text: "x" }]]) }));
    console.log(process.listenerCount("SIGINT"));
    setInterval(() => undefined, 1000);
  `, [], temporary(t));
  assert.equal(String((await once(child.stdout, "data"))[0]), "0\n");
  child.kill("SIGINT");
  assert.equal((await ended).signal, "SIGINT");
});
