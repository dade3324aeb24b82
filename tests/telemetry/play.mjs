// Plays the scenarios with Node. Reads them from stdin, and prints the recorded spans and metrics.

import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

import { Recorder } from "./recorder.mjs";

const require = createRequire(new URL("../../bindings-node/package.json", import.meta.url));
const { createSession, KimiAgentError, prompt, Reject, runBatch, setLogger } = require("kimi-agent");
const { scriptedAgent } = require("kimi-agent/testing");

setLogger(null);

/** The options of the session of a scenario. */
function options(scenario, recorder) {
  const add = () => recorder.tracer.startActiveSpan("work", (span) => (span.end(), "3"));
  const fail = () => {
    throw new Error("broken on purpose");
  };
  const answers = { approve: () => "approve", reject: async () => new Reject("not now"), fail };
  const tool = (name, handler) => ({ name, description: "", parameters: { type: "object" }, handler });
  const named = Object.entries(scenario.options ?? {}).map(([name, value]) => [camelCase(name), value]);
  return {
    ...Object.fromEntries(named),
    executable: scriptedAgent({ ...scenario.script, turns: scenario.turns }),
    output: scenario.output,
    onApproval: answers[scenario.on_approval],
    tools: scenario.tools ? [tool("add", add), tool("broken", fail)] : [],
    telemetry: recorder.telemetry(scenario.capture_content),
  };
}

/** Waits for the end of a turn, and cancels it at the first event of a type. */
async function finish(turn, cancelAt) {
  try {
    if (cancelAt !== undefined) for await (const event of turn) if (event.type === cancelAt) await turn.cancel();
    await turn.result();
  } catch (error) {
    // The span has it.
    if (!(error instanceof KimiAgentError)) throw error;
  }
}

function camelCase(name) {
  return name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
}

async function runJobs(jobs, given) {
  for await (const { error } of runBatch(jobs, { ...given, concurrency: 1 })) if (error) throw error;
}

async function play(scenario, recorder) {
  const [given, cancelAt] = [options(scenario, recorder), scenario.cancel_at];
  if (scenario.one_shot) {
    await recorder.withCaller(() => finish(prompt("Go", given), cancelAt));
    return;
  }
  if (scenario.jobs) {
    await recorder.withCaller(() => runJobs(scenario.jobs, given));
    return;
  }
  const session = await createSession(given);
  const run = () => finish(session.prompt("Go"), cancelAt);
  await (scenario.without_caller ? run() : recorder.withCaller(run));
  await session.close();
}

const found = {};
for (const scenario of JSON.parse(await text(process.stdin))) {
  const recorder = new Recorder();
  await play(scenario, recorder);
  found[scenario.name] = await recorder.recorded();
  await recorder.meters.shutdown();
}
console.log(JSON.stringify(found));
