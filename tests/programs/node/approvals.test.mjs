// The approval page in a headless browser, and requests that have to be refused.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { startBrowser } from "../../site/browser.mjs";
import { agent, startProgram } from "./helpers.mjs";

const ATTACK = "<img src=x onerror=\"document.title='attacked'\">";

function write(file, description) {
  return { tool_call: { name: "WriteFile", arguments: { path: file }, approve: { description }, effect: { write_file: file, content: "" } } };
}
const SCRIPT = [
  [write("a.txt", `Write ${ATTACK}\u202e`), { text: "You said {{last.response}}." }],
  [write("b.txt", "Write b.txt")],
  [write("c.txt", "Write c.txt"), { text: "You said {{last.response}}." }],
  [write("e.txt", "Write e.txt")],
  [write("d.txt", "Write d.txt")],
];

describe("the approval page", { timeout: 120_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "kimi-agent-programs-"));
  let server, browser, page, url;
  before(async () => {
    server = await startProgram([join(import.meta.dirname, "approvals/server.mjs")], { KIMI_AGENT_EXECUTABLE: agent(SCRIPT) }, { cwd: folder });
    url = new URL(server.address);
    browser = await startBrowser();
    page = await browser.newPage();
  });
  after(async () => {
    await browser?.close();
    server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const shows = (selector, text) =>
    page.waitForFunction((at, wanted) => document.querySelector(at)?.textContent.includes(wanted), {}, selector, text);
  const prompt = async (text) => {
    await page.type("#prompt", text);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".approval");
  };
  const press = async (label) => {
    const button = await page.waitForFunction(
      (wanted) => [...document.querySelectorAll("button:enabled")].find((each) => each.textContent === wanted),
      {},
      label,
    );
    await button.click();
  };
  const isWritten = (file) => existsSync(join(folder, file));

  test("a person approves, and the agent acts; text of the agent is only text", async () => {
    await page.goto(server.address);
    assert.equal(await page.evaluate(() => location.href), `${url.origin}/`);
    await shows("#state", "ready");
    await prompt("Write");
    assert.equal(await page.$eval(".approval h2", ({ textContent }) => textContent), `WriteFile asks: Write ${ATTACK}\\u202e`);
    assert.equal(await page.$eval(".approval pre", ({ textContent }) => textContent), '{"path":"a.txt"}');
    assert.equal(isWritten("a.txt"), false);
    await press("Approve");
    await shows("#answer", "You said approve.");
    await shows("#state", "finished");
    assert.equal(isWritten("a.txt"), true);
    assert.equal(await page.title(), "Agent");
  });

  test("a person rejects, and the agent does not act", async () => {
    await prompt("Write");
    await press("Reject");
    await shows("#answer", "[reject]");
    await shows("#state", "finished");
    assert.equal(isWritten("b.txt"), false);
  });

  test("a page that is loaded again shows the approval that waits", async () => {
    await prompt("Write");
    await page.reload();
    await page.waitForSelector(".approval");
    await press("Approve");
    await shows("#answer", "You said approve.");
    await shows("#state", "finished");
    assert.equal(isWritten("c.txt"), true);
  });

  test("an approval cannot be answered before it can be read", async () => {
    await page.evaluate(() => {
      const later = window.setTimeout;
      window.setTimeout = (enable) => {
        window.setTimeout = later;
        window.enable = enable;
      };
    });
    await prompt("Write");
    const clicked = () =>
      page.$$eval(".approval button", (buttons) => buttons.map((button) => (button.click(), button.disabled)));
    assert.deepEqual(await clicked(), [true, true, true]);
    await page.evaluate(() => window.enable());
    await press("Reject");
    await shows("#state", "finished");
    assert.equal(isWritten("e.txt"), false);
  });

  test("a cancelled turn withdraws its approval", async () => {
    await prompt("Write");
    await press("Stop");
    await shows("#state", "cancelled");
    assert.equal(await page.$(".approval"), null);
    await shows("#answer", "[withdrawn]");
    assert.equal(isWritten("d.txt"), false);
  });

  test("requests without the token, or with another host name, are refused", async () => {
    const status = (method, path, headers) =>
      new Promise((resolve, reject) => {
        const sent = request({ port: url.port, host: url.hostname, method, path, headers, agent: false }, (response) => {
          response.resume();
          resolve(response.statusCode);
        });
        sent.on("error", reject).end(method === "POST" ? "{}" : undefined);
      });
    const authorization = `Bearer ${url.hash.slice(1)}`;
    for (const [method, path] of [["GET", "/events"], ["POST", "/prompt"], ["POST", "/answer"], ["POST", "/cancel"]]) {
      assert.equal(await status(method, path, {}), 401);
      assert.equal(await status(method, path, { authorization: `${authorization}x` }), 401);
      assert.equal(await status(method, path, { authorization, host: `rebound.example:${url.port}` }), 403);
    }
    assert.equal(await status("POST", "/answer", { authorization }), 404);
    const other = await browser.newPage();
    await other.goto(`${url.origin}/#guessed`);
    await other.waitForFunction(() => document.querySelector("#state").textContent.includes("token"));
  });
});
