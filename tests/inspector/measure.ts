// Measures how long a long recording takes to open and to scroll, for docs/guides/inspect-a-run.md: `npm run measure`.
//
// Each round opens the page in a new window. A recording is opened when its first rows are on the screen.

import type { CDPSession, Page } from "playwright-core";

import { startBrowser, writePage } from "./page";
import { largeRun } from "./samples/large";

const MESSAGES = 20_000;
const ROUNDS = 9;

/** Milliseconds from the start of the navigation until the frame with the first rows. */
async function opening(page: Page): Promise<number> {
  await page.waitForSelector(".conversation .row");
  return page.evaluate(
    () =>
      new Promise<number>((resolve) => {
        requestAnimationFrame(() => {
          setTimeout(() => {
            resolve(performance.now());
          });
        });
      }),
  );
}

/** Milliseconds of processor time of the page's main thread. A busy machine changes it less than the time. */
async function processorTime(tools: CDPSession): Promise<number> {
  const { metrics } = await tools.send("Performance.getMetrics");
  return 1000 * (metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN);
}

/** Milliseconds of each frame while the conversation scrolls by a page a frame. */
function frames(page: Page): Promise<number[]> {
  return page.evaluate(async () => {
    const list = document.querySelector(".conversation");
    if (!list) throw new Error("the page has no conversation");
    const frame = (): Promise<number> => new Promise(requestAnimationFrame);
    const taken: number[] = [];
    let last = await frame();
    for (let step = 0; step < 100; step++) {
      list.scrollBy(0, list.clientHeight);
      const now = await frame();
      taken.push(now - last);
      last = now;
    }
    return taken;
  });
}

function spread(values: number[]): string {
  const sorted = values.toSorted((a, b) => a - b);
  const [low, middle, high] = [0, Math.floor(sorted.length / 2), sorted.length - 1].map((at) => sorted[at] ?? 0);
  return `median ${String(Math.round(middle ?? 0))} ms, ${String(Math.round(low ?? 0))} to ${String(Math.round(high ?? 0))} ms`;
}

const recording = largeRun(MESSAGES);
const messages = recording.entries.filter(({ type }) => type === "message").length;
const address = writePage([recording]);
const browser = await startBrowser();
const opened: number[] = [];
const taken: number[] = [];
const scrolled: number[] = [];
for (let round = 0; round < ROUNDS; round++) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 } });
  const page = await context.newPage();
  const tools = await context.newCDPSession(page);
  await tools.send("Performance.enable", { timeDomain: "threadTicks" });
  await page.goto(address);
  opened.push(await opening(page));
  taken.push(await processorTime(tools));
  scrolled.push(...(await frames(page)));
  await context.close();
}
console.log(`${String(recording.entries.length)} entries, ${String(messages)} messages, ${String(ROUNDS)} rounds, Chromium ${browser.version()}`);
console.log(`opening: ${spread(opened)}`);
console.log(`processor time of the main thread for it: ${spread(taken)}`);
console.log(`a frame while scrolling by a page: ${spread(scrolled)}`);
await browser.close();
