// A batch of prompts, some of which fail: each has a session of its own, three run at a time.
import { isKimiAgentError, prompt } from "kimi-agent";
import { scriptedAgent } from "kimi-agent/testing";

const scripts = {
  good: [[{ text: "done" }]],
  overloaded: [[{ error: { code: -32003, message: "overloaded" } }]],
  dies: [[{ text: "partly" }, { exit: 3 }]],
  silent: [[{ wait_cancel: true }]],
  cancelled: [{ actions: [{ text: "half" }], status: "cancelled" }],
};
const jobs = ["good", "overloaded", "dies", "good", "silent", "cancelled", "good"];

async function run(job) {
  const options = { executable: scriptedAgent(scripts[job]), idleTimeout: job === "silent" ? 200 : undefined };
  try {
    return (await prompt("Go", options).result()).raiseForStatus().text;
  } catch (error) {
    if (isKimiAgentError(error)) return `${error.code}${error.retryable ? " (retryable)" : ""}`;
    throw error;
  }
}

const results = [];
const queue = [...jobs.entries()];
async function work() {
  for (let next; (next = queue.shift()); ) results[next[0]] = await run(next[1]);
}
await Promise.all([work(), work(), work()]);
console.log(jobs.map((job, n) => `${job}: ${results[n]}`).join("\n"));
