// Plays scenarios through the Node package: `runner.mjs CASE.json …`. `tests/README.md` has the format.
//
// The trace goes to stdout, one JSON object a line. What is wrong with a scenario itself is a line, too:
// `{"error": "runner_problem", "message": …}`.
//
// With `-` in place of the files, each line of stdin names a case, and `{"done": name}` ends its trace.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { Player } from "./player.mjs";
import { print } from "./trace.mjs";

/** Longer than any scenario takes, even on a machine that does much else. */
const WATCHDOG_MS = Number(process.env.SCENARIO_WATCHDOG ?? 120) * 1000;

function problem(message) {
  print({ error: "runner_problem", message: String(message) });
}

async function play(scenario) {
  let player;
  try {
    player = new Player(scenario);
  } catch (error) {
    problem(error.message);
    return;
  }
  let watchdog;
  // The timer also keeps the process alive while a program waits for what comes to an idle session.
  const timeout = new Promise((resolve) => (watchdog = setTimeout(resolve, WATCHDOG_MS, "timeout")));
  if ((await Promise.race([player.play(), timeout])) === "timeout") {
    player.stop();
    print({ error: "runner_watchdog" });
  }
  clearTimeout(watchdog);
}

const files = process.argv.slice(2);
if (files.length === 0) {
  problem("usage: runner.mjs CASE.json …");
  process.exitCode = 2;
}
const streamed = files[0] === "-";
for await (const file of streamed ? createInterface({ input: process.stdin }) : files) {
  let scenario;
  try {
    scenario = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    problem(`${file}: ${error.message}`);
    process.exitCode = 2;
    break;
  }
  print({ case: scenario.name });
  await play(scenario);
  if (streamed) print({ done: scenario.name });
}
