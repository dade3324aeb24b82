// A batch with failures, and a chat in a pseudo-terminal with Ctrl-C.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

const options = { cwd: import.meta.dirname, encoding: "utf8", timeout: 120_000 };

test("a batch gives a result for each job, the failed ones included", () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["batch.mjs"], options);
  assert.equal(status, 0, stderr);
  assert.deepEqual(stdout.trim().split("\n"), [
    "good: done",
    "overloaded: llm_service_error (retryable)",
    "dies: agent_exited (retryable)",
    "good: done",
    "silent: timeout (retryable)",
    "cancelled: turn_cancelled",
    "good: done",
  ]);
});

test("in a chat, Ctrl-C cancels the turn, and outside of a turn ends the program", { skip: process.platform === "win32" }, () => {
  const steps = [
    ["expect", "> "],
    ["type", "Hello\r"],
    ["expect", "I wait."],
    ["type", "\x03"],
    ["expect", "[cancelled]"],
    ["expect", "> "],
    ["type", "More\r"],
    ["expect", "You said More. [finished]"],
    ["expect", "> "],
    ["type", "\x03"],
    ["expect", "bye"],
  ];
  const input = steps.map((step) => JSON.stringify(step)).join("\n");
  const python = process.env.PYTHON ?? "python3";
  const { status, stdout, stderr } = spawnSync(python, ["terminal.py", process.execPath, "chat.mjs"], { ...options, input });
  assert.equal(status, 0, stdout + stderr);
});
