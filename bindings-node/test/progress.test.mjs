// The option `progress` of a batch: a bar on a terminal, lines otherwise.
import assert from "node:assert/strict";
import { test } from "node:test";

import { progressDisplay } from "../dist/progress.js";
import { dist, run } from "./programs.mjs";

const NUMBERS = { total: 4, done: 0, failed: 1, running: 1, waiting: 1, retried: 0, tokens: 1500, concurrency: 4, elapsed: 5 };
const DETAILS = "1 running, 1 waiting, 1 failed, 1,500 tokens";
/** A carriage return, and the sequence that deletes the line. */
const REDRAW = "\r\x1b[K";

/** What a display writes for these numbers of jobs that are done. */
function shown(isTTY, total, ...done) {
  return shownIn(undefined, isTTY, total, ...done);
}

/** The same in a terminal of this width. */
function shownIn(columns, isTTY, total, ...done) {
  let written = "";
  const display = progressDisplay({ isTTY, columns, write: (text) => (written += text) });
  for (const count of done) display.update({ ...NUMBERS, total, done: count });
  display.close();
  display.close();
  return written;
}

/** What a batch of three jobs writes to stderr. */
async function shownOf(isTTY) {
  const { status, stderr } = await run(`
    import { runBatch } from ${dist("index.mjs")};
    process.stderr.isTTY = ${String(isTTY)};
    const executable = scriptedAgent([[{ text: "Hello" }, { usage: { input_other: 1000, output: 200 } }]]);
    for await (const { error } of runBatch(["a", "b", "c"], { executable, concurrency: 2, progress: true })) if (error) throw error;
  `);
  assert.equal(status, 0, stderr);
  return stderr;
}

test("bar shows numbers", () => {
  const bars = shown(true, 4, 0, 2).split(REDRAW);
  assert.deepEqual(bars, [
    "",
    `[${"-".repeat(30)}] 0 of 4 jobs done, ${DETAILS}`,
    `[${"#".repeat(15)}${"-".repeat(15)}] 2 of 4 jobs done, ${DETAILS}, 400.0 jobs/s, 1 s left\n`,
  ]);
});

test("bar is not drawn for each change", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let drawn = 0;
  const display = progressDisplay({ isTTY: true, write: () => (drawn += 1) });
  for (const wait of [0, 0, 100, 0, 100, 100]) {
    context.mock.timers.tick(wait);
    display.update(NUMBERS);
  }
  // The first one, the two that waited, and the last one.
  assert.equal(drawn, 4);
});

test("bar fits the terminal", () => {
  const widths = [20, 60, 80, 100, 120].map((columns) => {
    const [, line] = shownIn(columns, true, 4, 2).trimEnd().split(REDRAW);
    assert.ok(line.length < columns, line);
    return line.indexOf("]");
  });
  assert.deepEqual(widths, [-1, -1, -1, 11, 31]);
});

test("lines show numbers", () => {
  assert.equal(shown(false, 4, 0, 2, 2, 4), `2 of 4 jobs done, ${DETAILS}\n4 of 4 jobs done, ${DETAILS}\n`);
});

test("line is shown for each percent", () => {
  const lines = shown(false, 1000, 1, 9, 10, 11, 19, 20).trim().split("\n");
  assert.deepEqual(lines.map((line) => line.split(" jobs")[0]), ["1 of 1000", "10 of 1000", "20 of 1000"]);
});

test("bar shows unknown total", () => {
  assert.equal(shown(true, null, 2), `${REDRAW}2 jobs done, ${DETAILS}, 400.0 jobs/s\n`);
});

test("lines show unknown total", () => {
  const lines = shown(false, null, 1, 2, 10, 11, 20, 100, 150, 200).trim().split("\n");
  const done = ["1", "2", "10", "20", "100", "200"];
  assert.deepEqual(lines, done.map((count) => `${count} jobs done, ${DETAILS}`));
});

test("empty display writes nothing", () => {
  assert.equal(shown(true, 4), "");
});

test("terminal gets a bar", async () => {
  const last = (await shownOf(true)).split(REDRAW).at(-1);
  assert.match(last, /^\[#{30}\] 3 of 3 jobs done, 0 running, 3,600 tokens, [\d.]+ jobs\/s\n$/);
});

test("file gets lines", async () => {
  const last = (await shownOf(false)).trimEnd().split("\n").at(-1);
  assert.equal(last, "3 of 3 jobs done, 0 running, 3,600 tokens");
});
