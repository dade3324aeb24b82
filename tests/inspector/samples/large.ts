// A long session.

import { Recorder, type Recording } from "./recorder";

const WORDS =
  "the parser reads a line and splits it into fields while the test checks that each field has the right value and order".split(
    " ",
  );

function sentence(seed: number, length: number): string {
  return Array.from({ length }, (_, at) => WORDS[(seed * 7 + at * ((seed % 5) + 1)) % WORDS.length]).join(" ");
}

/** A session with this number of messages: few are pieces of texts, so that it has many items. */
export function largeRun(messages: number): Recording {
  const run = new Recorder("large.jsonl").open();
  let turns = 0;
  while (run.entries.length < messages) {
    turns += 1;
    run.wait(2).prompt(`Prompt ${String(turns)}: ${sentence(turns, 12)}`);
    for (let step = 1; step <= 8; step++) {
      const seed = turns * 10 + step;
      run
        .step(step)
        .event("ContentPart", { type: "think", think: sentence(seed, 30) })
        .event("ContentPart", { type: "text", text: sentence(seed + 1, 20 + (seed % 40)) });
      run
        .tool("a", "Shell", { command: `make part-${String(seed)}` })
        .wait(0.3)
        .result("a", Array.from({ length: seed % 30 }, (_, at) => sentence(seed + at, 9)).join("\n"), {
          is_error: seed % 97 === 0,
        });
      run
        .tool("b", "ReadFile", { path: `src/part_${String(seed)}.py` })
        .result("b", sentence(seed, 60))
        .status(5_000 + ((seed * 37) % 90_000), 900, 120, 4_000);
    }
    run.endTurn({
      result: {
        status: "finished",
        steps: 8,
        text: "done",
        usage: { input_other: 7_200, output: 960, input_cache_read: 32_000, input_cache_creation: 0 },
      },
    });
  }
  return run.close().recording();
}
