// Programs that use the package, each in a process of its own, and agents: for what happens at their end.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { scriptedAgent } from "../dist/testing.mjs";

/** The built module as a literal to be put into a program. On Windows `import` takes no path, and `require` takes no URL. */
export const dist = (name) => {
  const url = new URL(`../dist/${name}`, import.meta.url);
  return JSON.stringify(name.endsWith(".mjs") ? url.href : fileURLToPath(url));
};

const PRELUDE = `
  import { createSession, prompt, setLogger } from ${dist("index.mjs")};
  import { scriptedAgent } from ${dist("testing.mjs")};
`;

/** Far beyond what a program takes on a loaded machine: one that takes longer hangs. */
const HANG_MS = 120_000;

/** A folder for the temporary files of a program that is killed, until the test ends: nothing is swept there otherwise. */
export function temporary(t) {
  const folder = mkdtempSync(join(tmpdir(), "killed-"));
  t.after(() => rmSync(folder, { recursive: true }));
  return { TMPDIR: folder };
}

/** Starts a program; `lines` are those of its stdout as they come. */
export function start(code, flags = [], env = {}) {
  const argv = [...flags, "--input-type=module", "-e", PRELUDE + code];
  const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } });
  const texts = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) {
    child[name].setEncoding("utf8").on("data", (text) => (texts[name] += text));
  }
  const watchdog = setTimeout(() => child.kill("SIGKILL"), HANG_MS);
  const ended = once(child, "close").then(([status, signal]) => {
    clearTimeout(watchdog);
    return { status, signal, ...texts };
  });
  return { child, ended };
}

/** Runs a program to its end. */
export function run(code, flags) {
  return start(code, flags).ended;
}

/** Does something so many times, a few at once. */
export async function repeat(times, action, width = 4) {
  let left = times;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      await action();
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
}

/** Whether a process is there; one that has ended and was not waited for by its parent is not. */
export function isThere(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    if (error.code === "ESRCH") return false;
    throw error;
  }
}

/** Holds the pipe open for as long as it lives, and so does what it starts; then it becomes the agent. */
const HELD = 'exec 9>"$0"; sleep 1000000 </dev/null >/dev/null 2>&1 & exec "$@"';

/**
 * Makes scripted agents, each with another process, for one session each: `gone` is told once neither is there
 * any more. Their pipes are in the folder.
 */
export function holder(folder) {
  return (name, script) => {
    const pipe = join(folder, name);
    execFileSync("mkfifo", [pipe]);
    const gone = once(createReadStream(pipe).resume(), "end");
    return { executable: ["sh", "-c", HELD, pipe, ...scriptedAgent(script)], gone };
  };
}
