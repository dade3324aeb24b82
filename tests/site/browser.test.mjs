// The site in a browser, from files: each type of page in light and dark, on a phone and on a desktop, with its tabs, its search
// and its accessibility. Screenshots go to .cache/site/screenshots.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { axeSource, startBrowser } from "./browser.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const site = `${root}dist/site/`;
const screenshots = `${root}.cache/site/screenshots/`;

/** A page of each type: its address, and its title. */
const pages = {
  home: ["index.html", "kimi-agent"],
  section: ["reference/index.html", "Reference"],
  tutorial: ["tutorial/python.html", undefined],
  guide: ["guides/stream-a-turn.html", "Stream text and events"],
  cookbook: ["cookbook/index.html", "Cookbook"],
  options: ["reference/options.html", "Options"],
  events: ["reference/events.html", "Events"],
  reference: ["reference/sessions.html", "Sessions and turns"],
  python: ["reference/api/python/sessions.html", "Sessions, turns and agents"],
  node: ["reference/api/node/index.html", "Node API"],
  type: ["reference/api/node/classes/kimi-agent.Turn.html", "Turn<Value>"],
  rust: ["reference/api/rust/index.html", "Rust API"],
  explanation: ["explanation/architecture.html", "Architecture"],
  evidence: ["evidence/performance.html", undefined],
};
const screens = {
  desktop: { width: 1280, height: 900 },
  phone: { width: 390, height: 844, isMobile: true, hasTouch: true, deviceScaleFactor: 2 },
};
const schemes = { light: "default", dark: "slate" };
const patience = { timeout: 60_000 };

let browser;

before(async () => {
  assert.ok(existsSync(`${site}index.html`), "there is no site; make docs builds it");
  rmSync(screenshots, { recursive: true, force: true });
  mkdirSync(screenshots, { recursive: true });
  browser = await startBrowser();
});

after(() => browser?.close());

/** A tab of a browser of its own that records each problem, and each address that is not a file. */
async function openTab({ screen = "desktop", scheme = "light" } = {}) {
  const context = await browser.createBrowserContext();
  const tab = await context.newPage();
  const problems = [];
  tab.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warn") problems.push(message.text());
  });
  tab.on("pageerror", (error) => problems.push(String(error)));
  tab.on("request", (request) => {
    if (!/^(file|data|blob|about):/.test(request.url())) problems.push(`a request to ${request.url()}`);
  });
  tab.on("requestfailed", (request) => problems.push(`${request.url()} failed: ${request.failure()?.errorText}`));
  await tab.setViewport(screens[screen]);
  await tab.emulateMediaFeatures([
    { name: "prefers-color-scheme", value: scheme },
    { name: "prefers-reduced-motion", value: "reduce" },
  ]);
  const open = (address) => tab.goto(`${pathToFileURL(site)}${address}`, { waitUntil: "load", ...patience });
  return { tab, problems, open, close: () => context.close() };
}

const waitForScheme = (tab, name) =>
  tab.waitForFunction((expected) => document.body.dataset.mdColorScheme === expected, patience, name);

const waitForLanguage = (tab, name) =>
  tab.waitForFunction(
    (expected) => {
      const set = document.querySelector(".tabbed-set");
      const chosen = [...set.querySelectorAll(":scope > input")].findIndex((input) => input.checked);
      return set.querySelectorAll(":scope > .tabbed-labels > label")[chosen].textContent.trim() === expected;
    },
    patience,
    name,
  );

/** Waits until the scripts of the page have done their part, and ends transitions of colours. */
async function waitUntilSettled(tab) {
  await tab.addStyleTag({ content: "*, *::before, *::after { transition: none !important; animation: none !important }" });
  await tab.waitForFunction(() => {
    const wide = [...document.querySelectorAll("pre > code, .md-typeset__scrollwrap")];
    return wide.every((element) => element.scrollWidth <= element.clientWidth || element.tabIndex === 0);
  }, patience);
}

/** The violations of the accessibility rules of WCAG 2.1, levels A and AA, in words. */
async function violations(tab) {
  await tab.evaluate(readFileSync(axeSource, "utf8"));
  const { violations: found } = await tab.evaluate(() =>
    // eslint-disable-next-line no-undef
    axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], resultTypes: ["violations"] }),
  );
  return found.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`);
}

/** Each type of page in turn on one of the screens in one of the schemes, and the first in all of them; with `$FULL`, every type. */
const isPlayed = (page, way) => Boolean(process.env.FULL) || page === 0 || page % 4 === way;

for (const [page, [type, [address, title]]] of Object.entries(pages).entries()) {
  for (const [number, screen] of Object.keys(screens).entries()) {
    for (const [at, [scheme, name]] of Object.entries(schemes).entries()) {
      if (!isPlayed(page, 2 * number + at)) continue;
      test(`${type}_page_is_shown_and_accessible_${screen}_${scheme}`, async () => {
        const { tab, problems, open, close } = await openTab({ screen, scheme });
        await open(address);
        await waitForScheme(tab, name);
        await waitUntilSettled(tab);
        const heading = await tab.$eval("article h1", (element) => element.firstChild.textContent.trim());
        if (title) assert.equal(heading, title);
        else assert.ok(heading);
        assert.deepEqual(await violations(tab), []);
        // Nothing but tables and code is wider than the screen, and these scroll by themselves.
        const overflow = await tab.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        assert.ok(overflow <= 0, `the page is ${overflow} pixels wider than the screen`);
        await tab.screenshot({ path: `${screenshots}${type}-${screen}-${scheme}.png` });
        assert.deepEqual(problems, []);
        await close();
      });
    }
  }
}

/** What a reader would see as broken: words in two lines, empty pictures, tables outside of the screen, groups of tabs that ran into each other. */
const flaws = (tab, isWide) =>
  tab.evaluate((mayNotScroll) => {
    const found = [];
    const article = document.querySelector("article");
    for (const picture of article.querySelectorAll("img")) if (picture.naturalWidth === 0) found.push(`empty: ${picture.src}`);
    const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (!node.parentElement.checkVisibility() || node.parentElement.closest("pre")) continue;
      for (const { index, 0: word } of node.data.matchAll(/[A-Za-z]{4,}/g)) {
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        const lines = new Set([...range.getClientRects()].filter((box) => box.width > 0).map((box) => Math.round(box.top)));
        if (lines.size > 1) found.push(`broken: ${word}`);
      }
    }
    for (const table of mayNotScroll ? article.querySelectorAll("table") : []) {
      if (table.scrollWidth > article.clientWidth) found.push(`wide: ${table.rows[0].innerText}`);
    }
    for (const table of article.querySelectorAll("table")) {
      const frame = table.closest(".md-typeset__scrollwrap") ?? table;
      if (frame.getBoundingClientRect().right > innerWidth) found.push(`outside: ${table.rows[0].innerText}`);
      const second = table.rows[0].cells[1]?.getBoundingClientRect().left ?? 0;
      if (second > innerWidth * 0.85) found.push(`hidden second column: ${table.rows[0].innerText}`);
    }
    for (const group of article.querySelectorAll(".tabbed-set")) {
      const labels = [...group.querySelectorAll(":scope > .tabbed-labels > label")].map((label) => label.textContent.trim());
      if (new Set(labels).size !== labels.length) found.push(`tabs: ${labels}`);
    }
    return found;
  }, isWide);

for (const width of [400, 800, 1300]) {
  test(`pages_have_no_broken_words_tables_or_tabs_${width}`, async () => {
    const { tab, open, close } = await openTab();
    await tab.setViewport({ width, height: 900 });
    const all = ["index", "SKILL", "guides/run-many-prompts", "guides/structured-output", "guides/coming-from/codex-sdk", "reference/cassettes", "reference/options", "reference/errors", "evidence/real-servers"];
    for (const page of all) {
      await open(`${page}.html`);
      assert.deepEqual(await flaws(tab, width === 1300), [], page);
      if (page === "index") assert.ok(await tab.$(".tabbed-set"), "the home page has its example");
    }
    await close();
  });
}

test("chosen_language_is_remembered_on_other_pages", async () => {
  const { tab, problems, open, close } = await openTab();
  await open("index.html");
  const labels = await tab.$$eval(".tabbed-set .tabbed-labels:first-of-type label", (all) => all.map((label) => label.textContent.trim()));
  assert.deepEqual(labels.slice(0, 3), ["Python", "Node", "Rust"]);
  await waitForLanguage(tab, "Python");
  await tab.evaluate(() => [...document.querySelectorAll(".tabbed-labels label")].find((label) => label.textContent.trim() === "Rust").click());
  await waitForLanguage(tab, "Rust");
  await open("guides/stream-a-turn.html");
  await waitForLanguage(tab, "Rust");
  assert.deepEqual(problems, []);
  await close();
});

for (const [word, expected] of [
  ["max_line_bytes", /options\.html/],
  ["StepRetry", /(events|messages|StepRetry)\.html/],
  ["JobResult", /(batches|JobResult)\.html/],
  ["scripted agent", /(scripted-agent|test-without-a-model)\.html/],
]) {
  test(`search_finds_${word.replace(" ", "_")}_without_a_server`, async () => {
    const { tab, problems, open, close } = await openTab();
    await open("index.html");
    await tab.focus("input.md-search__input");
    await tab.type("input.md-search__input", word);
    await tab.waitForFunction(
      (pattern) => [...document.querySelectorAll(".md-search-result__item a")].some((link) => new RegExp(pattern).test(link.href)),
      patience,
      expected.source,
    );
    assert.deepEqual(problems, []);
    await close();
  });
}

test("switch_of_colours_is_remembered_on_other_pages", async () => {
  const { tab, problems, open, close } = await openTab();
  await open("index.html");
  await waitForScheme(tab, "default");
  await tab.evaluate(() => document.querySelector("label[for='__palette_1']").click());
  await waitForScheme(tab, "slate");
  await open("reference/options.html");
  await waitForScheme(tab, "slate");
  assert.deepEqual(problems, []);
  await close();
});

test("rust_page_leads_to_the_documentation_of_the_crate", async () => {
  const { tab, open, close } = await openTab();
  await open("reference/api/rust/index.html");
  await Promise.all([tab.waitForNavigation(patience), tab.click("article a.md-button")]);
  assert.match(await tab.title(), /kimi_agent/);
  await close();
});

test("guide_leads_to_a_recorded_run", async () => {
  const { tab, problems, open, close } = await openTab();
  await open("guides/inspect-a-run.html");
  await Promise.all([tab.waitForNavigation(patience), tab.click("article a[href$='repair.html']")]);
  await tab.waitForFunction(() => document.querySelector("h1, h2")?.textContent.includes("repair"), patience);
  const shown = await tab.evaluate(() => document.body.innerText);
  for (const part of ["Kimi Code 2.1.0", "Subagents", "The tests fail. Find the cause and repair it.", "total.py"]) {
    assert.ok(shown.includes(part), `${part} in ${shown}`);
  }
  assert.deepEqual(problems, []);
  await close();
});
