// A batch with failures, and a chat in a pseudo-terminal with an approval and Ctrl-C.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { agent, agents } from "./helpers.mjs";

const DEADLINE = 120_000;

/** The results of a batch, whose agents follow the scripts. */
function batch(scripts, questions, ...args) {
  const folder = mkdtempSync(join(tmpdir(), "kimi-agent-programs-"));
  try {
    const { status, stdout, stderr } = spawnSync(process.execPath, ["batch.mjs", ".", ...args], {
      cwd: import.meta.dirname,
      env: { ...process.env, KIMI_AGENT_EXECUTABLE: agents(scripts, folder) },
      input: questions.join("\n"),
      encoding: "utf8",
      timeout: DEADLINE,
    });
    assert.equal(status, 0, stderr);
    return stdout.trim().split("\n").map((line) => JSON.parse(line));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("a batch gives a result for each question, the failed ones included", () => {
  const done = [[{ text: "done" }]];
  // For each start of an agent. The two that can succeed later are retried.
  const scripts = [
    done,
    [[{ error: { code: -32003, message: "overloaded" } }]],
    [[{ text: "partly" }, { exit: 3 }]],
    [{ actions: [{ text: "half" }], status: "cancelled" }],
    ...Array(6).fill(done),
  ];
  const questions = ["a", "b", "c", "d", "e"];
  const results = batch(scripts, questions);
  assert.deepEqual(results.map(({ question }) => question).sort(), questions);
  assert.deepEqual(results.map(({ text, status }) => `${text} ${status}`).sort(), [
    ...Array(4).fill("done finished"),
    "half cancelled",
  ]);
});

test("a batch gives up an answer that takes too long", () => {
  const waiting = [[{ text: "half" }, { wait_cancel: true }]];
  const results = batch([waiting, waiting, waiting], ["a"], "0.2");
  assert.deepEqual(results.map(({ question, error }) => [question, error]), [["a", "timeout"]]);
});

test("in a chat, Ctrl-C cancels the answer, and between answers ends the program", { skip: process.platform === "win32" }, () => {
  const executable = agent([
    [{ text: "I wait." }, { wait_cancel: true }],
    [
      { tool_call: { name: "WriteFile", arguments: { path: "\u001b[8m\u202e" }, approve: { description: `Write${" ".repeat(99)}notes` }, result: "ok" } },
      { text: ["You said ", "{{prompt}}", " and {{last.response}}."] },
    ],
    [{ error: { code: -32003, message: "overloaded" } }],
  ]);
  const steps = [
    ["expect", "> "],
    ["type", "Hello\r"],
    ["expect", "I wait."],
    ["type", "\x03"],
    ["expect", "[cancelled]"],
    ["expect", "> "],
    // The second line was typed before the question, and is not its answer.
    ["type", "More\rn\r"],
    ["expect", String.raw`"Write[99 blanks]notes": {"path":"\u001b[8m\u202e"}`],
    ["expect", "Approve? [y/N]"],
    ["type", "y\r"],
    ["expect", "You said More and approve. [finished]"],
    ["expect", "> "],
    ["type", "Fail\r"],
    ["expect", "[llm_service_error]"],
    ["expect", "> "],
    ["type", "\x03"],
    ["expect", "bye"],
  ];
  const { status, stdout, stderr } = spawnSync(process.env.PYTHON ?? "python3", ["terminal.py", process.execPath, "chat.mjs"], {
    cwd: import.meta.dirname,
    env: { ...process.env, KIMI_AGENT_EXECUTABLE: executable },
    input: steps.map((step) => JSON.stringify(step)).join("\n"),
    encoding: "utf8",
    timeout: DEADLINE,
  });
  assert.equal(status, 0, stdout + stderr);
});
