// What the tests of the programs share: starting a program that prints its address, and agents that follow scripts.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { scriptedAgent } from "kimi-agent/testing";

/** The value of KIMI_AGENT_EXECUTABLE for an agent that follows a script. */
export function agent(script) {
  return JSON.stringify(scriptedAgent(script));
}

/** The same, with a script for each start: the first agent plays the first one. A folder keeps which ones are taken. */
export function agents(scripts, folder) {
  const [node, program] = scriptedAgent(scripts[0]);
  for (const [at, script] of scripts.entries()) writeFileSync(join(folder, `${at}.json`), JSON.stringify(script));
  // A folder can be made only once, so that no two agents take the same script.
  const pick = 'node=$1; program=$2; shift 2; n=0; while ! mkdir "$0/taken.$n" 2>/dev/null; do n=$((n+1)); done';
  return JSON.stringify(["sh", "-c", `${pick}; exec "$node" "$program" "$0/$n.json" "$@"`, folder, node, program]);
}

/** The same as `agent`; each agent appends its process ID to a file. */
export function recordedAgent(script, file) {
  return JSON.stringify(["sh", "-c", 'echo $$ >>"$0"; exec "$@"', file, ...scriptedAgent(script)]);
}

/** Starts a program of this folder with Node, and waits until it prints its address. */
export async function startProgram(args, env = {}, { stderr = "inherit", cwd = import.meta.dirname } = {}) {
  const started = spawn(process.execPath, args, {
    cwd,
    env: { ...process.env, PORT: "0", ...env },
    stdio: ["ignore", "pipe", stderr],
  });
  const [address] = await once(createInterface({ input: started.stdout }), "line");
  return { address, process: started, stop: () => started.kill() };
}

/** Whether a process exists. */
export function exists(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    assert.equal(error.code, "ESRCH");
    return false;
  }
}
