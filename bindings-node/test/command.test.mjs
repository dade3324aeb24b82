// The command `kimi-agent` of the package.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { scriptedAgent } from "../dist/testing.mjs";

const PROGRAM = fileURLToPath(new URL("../dist/command.cjs", import.meta.url));
const HANG_MS = 120_000;

/** Starts the command with an agent that follows a script. */
function start(turns, ...further) {
  const agent = scriptedAgent(turns).flatMap((word) => ["-x", word]);
  const child = spawn(process.execPath, [PROGRAM, "run", ...agent, ...further], { stdio: ["ignore", "pipe", "pipe"] });
  const texts = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) {
    child[name].setEncoding("utf8").on("data", (text) => (texts[name] += text));
  }
  const watchdog = setTimeout(() => child.kill("SIGKILL"), HANG_MS);
  const ended = once(child, "close").then(([code]) => {
    clearTimeout(watchdog);
    return { code, ...texts };
  });
  return { child, ended };
}

test("run prints the answer", async () => {
  const { code, stdout } = await start([[{ text: "Hello, {{prompt}}" }]], "you").ended;
  assert.deepEqual({ code, stdout }, { code: 0, stdout: "Hello, you\n" });
});

test("failure has an exit code", async () => {
  const { code, stderr } = await start([[{ error: { code: -32004, message: "login" } }]], "you").ended;
  assert.equal(code, 3);
  assert.match(stderr, /kimi-agent: .*login/);
});

test("interrupt cancels run", { skip: process.platform === "win32" }, async () => {
  const { child, ended } = start([[{ text: "Working" }, { wait_cancel: true }]], "go");
  await once(child.stdout, "data");
  child.kill("SIGINT");
  const { code, stderr } = await ended;
  assert.equal(code, 130);
  assert.match(stderr, /cancelled: 1 step/);
});
