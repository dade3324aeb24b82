// The report of a batch in a browser, on a phone and on a desktop: nothing is cut, the filter works, links open.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { axeSource, startBrowser } from "./browser.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const command = join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "debug", "kimi-agent");
const LONG = "src/some/long/folder/name/without/blanks/and/without/an/end/file.py";
const ANSWER = `The file has a parser.\n\n${"A sentence that has to wrap on a narrow screen. ".repeat(9)}`;

let folder;
let address;
let browser;

const usage = { input_other: 100, output: 20, input_cache_read: 0, input_cache_creation: 0 };
const turn = { status: "finished", stop_reason: "finished", steps: 1, usage, tool_calls: [], rejected: [], handler_failures: [] };
const line = (index, fields) => ({
  id: String(index).padStart(32, "0"),
  key: `${LONG}-${String(index)}`,
  index,
  prompt: `Summarize ${LONG}`,
  data: null,
  result: null,
  error: null,
  usage,
  attempts: 1,
  duration: 1.5,
  recording: null,
  diff: null,
  workspace: null,
  ended: "2026-01-01T00:00:02.000Z",
  ...fields,
});

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "kimi-agent-report-"));
  const recording = join(folder, "repair.jsonl");
  copyFileSync(join(root, "docs/assets/repair.jsonl"), recording);
  const result = { ...turn, text: ANSWER };
  const error = { code: "llm_service_error", message: `no model at https://example.com/${LONG}`, retryable: true };
  const lines = [
    { format: "kimi-agent-batch/1", batch: "0123456789ab", started: "2026-01-01T00:00:00.000Z", sdk: { name: "kimi-agent", version: "0.1.0" } },
    line(0, { status: "finished", result, recording }),
    line(1, { status: "failed", error }),
  ];
  const journal = join(folder, "batch.jsonl");
  writeFileSync(journal, lines.map((each) => `${JSON.stringify(each)}\n`).join(""));
  const { status, stderr } = spawnSync(command, ["report", journal], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  address = pathToFileURL(join(folder, "batch.html")).href;
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

for (const width of [400, 1400]) {
  for (const scheme of ["light", "dark"]) {
    test(`report_is_complete_and_accessible_${String(width)}_${scheme}`, async () => {
      const tab = await browser.newPage();
      await tab.setViewport({ width, height: 900 });
      await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await tab.goto(address);
      const cut = await tab.evaluate(() =>
        [document.documentElement, ...document.querySelectorAll("body *")]
          .filter((element) => element.checkVisibility() && element.getBoundingClientRect().right > innerWidth + 1)
          .map((element) => element.outerHTML.slice(0, 80)),
      );
      assert.deepEqual(cut, []);
      assert.match(await tab.$eval(".jobs", (jobs) => jobs.innerText), new RegExp(`${LONG}-1`));
      await tab.evaluate(readFileSync(axeSource, "utf8"));
      // eslint-disable-next-line no-undef
      const { violations } = await tab.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa"] }));
      assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), []);

      const shown = () => tab.$$eval(".jobs tr", (rows) => rows.filter((row) => row.querySelector("td")?.checkVisibility()).length);
      assert.equal(await shown(), 2);
      await tab.click("#only");
      assert.equal(await shown(), 1);
      await tab.click("#only");
      await tab.click("summary");
      assert.match(await tab.$eval("details", (details) => details.innerText), /narrow screen/);
      await Promise.all([tab.waitForNavigation(), tab.click(".jobs a")]);
      await tab.waitForFunction(() => document.title.includes("repair.jsonl"), { timeout: 60_000 });
      await tab.close();
    });
  }
}
