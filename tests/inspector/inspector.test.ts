// The inspector with recordings of ordinary runs: its content, its keys, its lists and its accessibility.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";

import { countNodes, scrollThrough, search, settle, violations } from "./checks";
import { openPage, startBrowser, writePage, type Opened } from "./page";
import { largeRun } from "./samples/large";
import { killedRun, ordinaryRun } from "./samples/run";

const LARGE = 20_000;
/** The most elements that a page has, however long the recording is. */
const MOST_NODES = 2500;

let browser: Browser;
let one: string;
let several: string;
let large: string;

before(async () => {
  one = writePage([ordinaryRun()]);
  several = writePage([
    ordinaryRun({ name: "first.jsonl" }),
    ordinaryRun({ name: "second.jsonl", second: true }),
    killedRun(),
  ]);
  large = writePage([largeRun(LARGE)]);
  browser = await startBrowser();
});

after(() => browser.close());

/** Opens a page, and checks at the end that nothing went wrong in it. */
async function inPage(
  address: string,
  use: (page: Page, opened: Opened) => Promise<void>,
  options: Parameters<typeof openPage>[2] = {},
): Promise<void> {
  const opened = await openPage(browser, address, options);
  await opened.page.waitForSelector(".conversation .row, .messages .row, .index h1, .pairs .row");
  await use(opened.page, opened);
  assert.deepEqual(opened.problems, []);
  await opened.close();
}

const current = (page: Page): Promise<string | null> => page.getAttribute(".body > main .row.current", "aria-label");

/** The text of the whole conversation, as a reader sees it while scrolling. */
async function readAll(page: Page): Promise<string> {
  const texts: string[] = [];
  await scrollThrough(page, async () => {
    texts.push(await page.innerText(".conversation"));
  });
  return texts.join("\n");
}

test("page_has_no_outside_parts", () => {
  const page = readFileSync(new URL(one), "utf8");
  assert.match(page, /default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; img-src data:;/);
  assert.doesNotMatch(page.replace(/<!--[\s\S]*?-->/g, ""), /<(?:link|iframe|object|embed)\b|\ssrc=["']|@import/i);
});

test("conversation_has_all_parts", () =>
  inPage(one, async (page) => {
    const text = await readAll(page);
    const expected = [
      "The test test_empty_line fails", // the prompt
      "I should look at the test", // a thought
      "I read the parser first.", // a text
      "src/parser.py", // arguments
      "12 lines read from file.", // a message of a tool
      "Allowed by the rule read(**) (policy.toml:2)",
      "Approved by the handler of the program after 4.2 s",
      "Approved for the session by the handler of the program after 2.8 s",
      "Rejected by the policy after 1 ms · rule execute(rm *)",
      "Rejected by the handler of the program after 6.1 s\nDo not push. Commit only.",
      "Denied by the rule execute(rm *) (policy.toml:11)",
      "the rule `execute(rm *)` denies `rm -rf build`",
      "Subagent coder a34bd503e",
      "I added test_comment.", // a text of the subagent
      "Which name shall the release have?",
      "Answer: Kingfisher",
      "The changelog is missing.", // a hook
      "Call of the model failed: APIStatusError (HTTP 529)",
      "The handler for event failed",
      "The turn failed: LlmServiceError",
      "Session ended: closed",
    ];
    for (const part of expected) assert.ok(text.includes(part), `${part} is missing`);
  }));

test("diff_is_side_by_side", () =>
  inPage(one, async (page) => {
    await page.keyboard.press("/");
    await page.keyboard.type("tool:StrReplaceFile");
    await page.waitForSelector(".diff");
    // The approval and the result have the same diff: it is shown once.
    assert.equal(await page.locator(".diff").count(), 1);
    const rows = await page.$$eval(".diff tbody tr", (all) =>
      all.map((row) => [...row.children].map((cell) => cell.className)),
    );
    assert.ok(rows.some((cells) => cells.join() === "number,removed,number,added"));
    assert.deepEqual(await page.$$eval(".diff ins", (all) => all.map((each) => each.textContent)), [
      " An empty line has none.",
      "not ",
      "or",
      "line.startswith(",
      ")",
    ]);
  }));

test("output_has_colours_of_terminals", () =>
  inPage(one, async (page) => {
    await search(page, "FAILURES", 1);
    assert.ok((await page.innerText(".conversation .fg1.ansi-bold")).includes("test_empty_line"));
    assert.equal(await page.locator(".conversation .mark").count(), 0);
  }));

test("image_of_data_is_shown", () =>
  inPage(one, async (page) => {
    await page.keyboard.press("]");
    await page.keyboard.press("]");
    const image = page.locator(".item.turn img");
    await image.waitFor();
    assert.equal(await image.evaluate((each: HTMLImageElement) => each.naturalWidth), 48);
  }));

test("subagent_is_indented_under_call", () =>
  inPage(one, async (page) => {
    await search(page, "test_comment", 3);
    const order = await page.$$eval(".conversation .item", (items) =>
      items.map((item) => `${item.classList[1] ?? ""} ${(item as HTMLElement).dataset["depth"] ?? ""}`),
    );
    const subagent = order.indexOf("subagent 0");
    assert.equal(order[subagent - 1], "tool 0");
    assert.ok(order[subagent + 1]?.endsWith(" 1"));
  }));

test("every_item_has_raw_messages", () =>
  inPage(one, async (page) => {
    const count = Number((await page.innerText("[role=status]")).split(" ")[0]);
    const without: (string | null)[] = [];
    await page.keyboard.press("Home");
    for (let at = 0; at < count; at++) {
      await page.waitForSelector(`.conversation .row.current[data-index="${String(at)}"]`);
      if (!/"type": "\w+"/.test(await page.innerText(".details"))) without.push(await current(page));
      await page.keyboard.press("j");
    }
    assert.deepEqual(without, []);
  }));

test("timeline_has_turns_with_durations", () =>
  inPage(one, async (page) => {
    const labels = await page.$$eval(".outline button .line", (all) =>
      all.map((each) => [...each.children].map((part) => part.textContent).join(": ")),
    );
    assert.deepEqual(
      labels.filter((each) => each.startsWith("Turn")),
      ["Turn 1: 21 s", "Turn 2: 6.4 s", "Turn 3: failed 3.0 s"],
    );
    assert.equal(labels.length, 11);
    for (const lane of ["turn", "step", "tool", "wait", "trouble", "subagent"])
      assert.match((await page.getAttribute(`.lane.${lane}`, "d")) ?? "", /^M/);
  }));

test("timeline_selects_what_it_shows", () =>
  inPage(one, async (page) => {
    await page.locator(".outline button", { hasText: "Step 3" }).click();
    assert.equal(await current(page), "Step Step 3");
    const box = await page.locator(".overview svg").boundingBox();
    assert.ok(box);
    await page.mouse.click(box.x + box.width - 6, box.y + 30);
    await page.waitForSelector(".conversation .row.current[aria-label^='Error The turn failed']");
  }));

test("tokens_are_plotted", () =>
  inPage(one, async (page) => {
    assert.ok(((await page.getAttribute(".context-line", "d")) ?? "").split("V").length > 5);
    assert.match((await page.getAttribute(".tokens-in", "d")) ?? "", /^M/);
    await page.click("text=Tokens as a table");
    await page.waitForSelector(".tokens td");
    assert.deepEqual(
      await page.$$eval(".tokens tbody tr", (rows) =>
        rows.map((row) => [...row.children].map((cell) => cell.textContent)),
      ),
      [
        ["1", "15,740", "62,850", "0", "1,290", "79,880"],
        ["2", "2,200", "16,020", "0", "240", "18,460"],
        ["3", "900", "0", "0", "80", "980"],
      ],
    );
  }));

test("search_narrows_the_conversation", () =>
  inPage(one, async (page) => {
    await page.keyboard.press("/");
    await page.keyboard.type('pytest "empty line"');
    await page.waitForSelector("text=0 found");
    assert.equal(await page.innerText(".nothing"), "No item fits the search and the filters.");
    await page.keyboard.press("Escape");
    await page.keyboard.type("kingfisher");
    // A part of the word can have as many results, so the marks tell that all of it was typed.
    await page.waitForFunction(() => {
      const marks = Array.from(document.querySelectorAll(".conversation mark"), (mark) => mark.textContent);
      const isFound = document.querySelector("[role=status]")?.textContent === "3 found";
      return isFound && marks.length > 0 && marks.every((mark) => mark.toLowerCase() === "kingfisher");
    });
    await page.keyboard.press("Escape");
    await page.waitForSelector("text=47 items");
  }));

test("filters_hide_kinds_of_items", () =>
  inPage(one, async (page) => {
    for (const name of ["Thoughts", "Tools", "Session", "Errors", "Hooks"])
      await page.click(`.filters button:text-is("${name}")`);
    await settle(page);
    const shown = new Set<string>();
    await scrollThrough(page, async () => {
      for (const kind of await page.$$eval(".conversation .item", (items) =>
        items.map((item) => item.classList[1] ?? ""),
      ))
        shown.add(kind);
    });
    // Tool calls with approvals or policy decisions stay.
    assert.deepEqual([...shown].sort(), ["step", "subagent", "text", "tool", "turn"]);
    assert.equal(await page.getAttribute('.filters button:text-is("Tools")', "aria-pressed"), "false");
  }));

const KEYS: [string[], (page: Page) => Promise<string | null | boolean>, string | boolean][] = [
  [["j"], current, "Session Session opened"],
  [["ArrowDown", "ArrowDown", "k"], current, "Session Session opened"],
  [["End"], current, "Session Session ended: closed"],
  [["End", "Home"], current, "Session Session opened"],
  [["]", "]", "["], current, "Turn The test `test_empty_line` fails. Find the cause, fix it, and run the tests."],
  [["e"], current, "Tool call Shell pytest -q tests/test_parser.py"],
  [["End", "E"], current, "Error The turn failed: LlmServiceError"],
  [["a"], current, "Tool call ReadFile {{work_dir}}/src/parser.py"],
  [["End", "A"], current, "Tool call AskUserQuestion"],
  [["r"], (page) => page.locator(".details").isVisible(), false],
  [["m"], (page) => page.locator(".messages").isVisible(), true],
  [["m", "m"], (page) => page.locator(".conversation").isVisible(), true],
  [["t"], (page) => page.evaluate(() => document.activeElement?.closest(".outline") !== null), true],
  [["/"], (page) => page.evaluate(() => document.activeElement?.id === "search"), true],
  [["l"], (page) => page.getAttribute("html", "data-theme"), "dark"],
  [["l", "l"], (page) => page.getAttribute("html", "data-theme"), "light"],
  [["?"], (page) => page.locator("dialog").isVisible(), true],
  [["?", "Escape"], (page) => page.locator("dialog").isVisible(), false],
];

for (const [keys, find, expected] of KEYS) {
  test(`keys_${keys.join("_")}_work`, () =>
    inPage(one, async (page) => {
      for (const key of keys) {
        await page.keyboard.press(key);
        await settle(page);
      }
      assert.equal(await find(page), expected);
    }));
}

test("enter_shows_more_of_item", () =>
  inPage(one, async (page) => {
    await search(page, "tool:Shell FAILURES is:error turn:1", 1);
    const more = (): Promise<boolean> => page.locator(".item.tool .more", { hasText: "Show more" }).isVisible();
    await page.keyboard.press("Enter");
    await page.keyboard.press("End");
    await settle(page);
    const before = await more();
    await page.keyboard.press("o");
    await settle(page);
    assert.deepEqual([before, await more()], [true, false]);
    await page.keyboard.press("Enter");
    await settle(page);
    assert.equal(await more(), true);
  }));

test("keys_of_letters_can_be_off", () =>
  inPage(one, async (page) => {
    await page.keyboard.press("?");
    await page.click("dialog input[type=checkbox]");
    await page.keyboard.press("Escape");
    await page.keyboard.press("m");
    await page.keyboard.press("j");
    await settle(page);
    assert.equal(await page.locator(".messages").isVisible(), false);
    assert.equal(await page.locator(".conversation .row.current").count(), 0);
    await page.keyboard.press("ArrowDown");
    await settle(page);
    assert.equal(await current(page), "Session Session opened");
  }));

test("focus_follows_the_reading_order", () =>
  inPage(one, async (page) => {
    const names: string[] = [];
    for (let stops = 0; stops < 7; stops++) {
      await page.keyboard.press("Tab");
      names.push(
        await page.evaluate(() =>
          (document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? "").slice(
            0,
            16,
          ),
        ),
      );
    }
    assert.deepEqual(names, [
      "Search",
      "Colours: Auto",
      "Help",
      "Tokens as a tabl",
      "Turn 121 sThe te",
      "Step 1640 ms",
      "Step 22.0 s",
    ]);
  }));

test("focus_stays_on_hidden_row", () =>
  inPage(large, async (page) => {
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await settle(page);
    await page.$eval(".conversation", (list) => (list.scrollTop = 500_000));
    await settle(page);
    assert.equal(await page.evaluate(() => (document.activeElement as HTMLElement | null)?.dataset["index"]), "1");
    await page.keyboard.press("j");
    await settle(page);
    assert.equal(await page.evaluate(() => (document.activeElement as HTMLElement | null)?.dataset["index"]), "2");
  }));

test("rows_have_place_for_readers", () =>
  inPage(one, async (page) => {
    const row = page.locator('.conversation [role=article][data-index="2"]');
    assert.deepEqual(
      await Promise.all(["aria-posinset", "aria-setsize", "aria-label"].map((name) => row.getAttribute(name))),
      ["3", "47", "Step Step 1"],
    );
    assert.equal(await page.locator(".conversation [role=feed]").getAttribute("aria-label"), "Conversation");
  }));

test("long_session_has_few_nodes", () =>
  inPage(large, async (page) => {
    const counts = [await countNodes(page)];
    for (const part of [0.25, 0.5, 0.75, 1]) {
      await page.$eval(".conversation", (list, at) => (list.scrollTop = at * list.scrollHeight), part);
      await settle(page);
      counts.push(await countNodes(page));
    }
    await page.keyboard.press("m");
    await page.waitForSelector(".messages .row");
    counts.push(await countNodes(page));
    assert.ok(Math.max(...counts) < MOST_NODES, `the page has ${counts.join(", ")} nodes`);
  }));

test("long_session_scrolls_without_gaps", () =>
  inPage(large, async (page) => {
    for (let place = 0; place < 40; place++) {
      await page.$eval(".conversation", (list, at) => (list.scrollTop = (at * 7919 * 97) % list.scrollHeight), place);
      await settle(page);
      const uncovered = await page.$eval(".conversation", (list) => {
        const { top, bottom } = list.getBoundingClientRect();
        const rows = [...list.querySelectorAll(".row")]
          .map((row) => row.getBoundingClientRect())
          .sort((a, b) => a.top - b.top);
        let covered = top;
        for (const row of rows) if (row.top <= covered + 1) covered = Math.max(covered, row.bottom);
        return bottom - covered;
      });
      assert.ok(uncovered <= 1, `${String(uncovered)} pixels are empty at place ${String(place)}`);
    }
  }));

test("rows_stay_in_place_when_measured", () =>
  inPage(large, async (page) => {
    await page.$eval(".conversation", (list) => (list.scrollTop = 700_000));
    await settle(page);
    const place = (): Promise<{ index: string; top: number }> =>
      page.$eval(".conversation", (list) => {
        const { top } = list.getBoundingClientRect();
        const row = [...list.querySelectorAll<HTMLElement>(".row")].find(
          (each) => each.getBoundingClientRect().bottom > top + 200,
        );
        return { index: row?.dataset["index"] ?? "", top: (row?.getBoundingClientRect().top ?? 0) - top };
      });
    const before = await place();
    for (let turns = 0; turns < 6; turns++) {
      await page.$eval(".conversation", (list, by) => (list.scrollTop += by), turns < 3 ? -150 : 150);
      await settle(page);
    }
    const moved = await place();
    assert.equal(moved.index, before.index);
    assert.ok(Math.abs(moved.top - before.top) < 2);
  }));

test("end_of_long_session_is_reached", () =>
  inPage(large, async (page) => {
    await page.keyboard.press("End");
    await settle(page);
    assert.equal(await current(page), "Session Session ended: closed");
    assert.ok(await page.locator(".row.current").isVisible());
    await page.keyboard.press("[");
    await settle(page);
    assert.match((await current(page)) ?? "", /^Turn Prompt 236/);
  }));

test("messages_are_shown_as_recorded", () =>
  inPage(
    one,
    async (page) => {
      await page.fill("#search", "ApprovalRequest");
      await page.waitForSelector("text=4 lines");
      await page.click(".messages .row");
      await page.waitForSelector(".details .entry pre");
      if (await page.locator(".details .more").isVisible()) await page.click(".details .more");
      const shown = JSON.parse(await page.innerText(".details .entry pre")) as Record<string, unknown>;
      const recorded = ordinaryRun().entries.find((entry) =>
        JSON.stringify(entry.message ?? "").includes("ApprovalRequest"),
      );
      assert.deepEqual(shown, Object.fromEntries(Object.entries(recorded ?? {}).filter(([name]) => name !== "events")));
    },
    { hash: "#run=0&messages" },
  ));

test("words_for_items_find_messages", () =>
  inPage(
    one,
    async (page) => {
      for (const [query, found] of [
        ["tool:StrReplaceFile", "7 lines"],
        ["is:rejected tool:shell", "11 lines"],
        ["is:error tool:StrReplaceFile", "0 lines"],
      ] as const) {
        await page.fill("#search", query);
        await page.waitForSelector(`[role=status]:text-is("${found}")`);
      }
    },
    { hash: "#run=0&messages" },
  ));

test("cut_recording_says_so", () =>
  inPage(writePage([{ ...ordinaryRun(), is_cut: true }]), async (page) => {
    assert.match(await page.innerText(".top"), /Cut[^]*The recording ends in the middle of a line/);
    assert.deepEqual(await violations(page), []);
  }));

test("index_lists_the_recordings", () =>
  inPage(several, async (page) => {
    const rows = await page.$$eval(".index tbody tr", (all) =>
      all.map((row) => [...row.children].slice(1).map((cell) => cell.textContent)),
    );
    assert.deepEqual(rows, [
      [
        "first.jsonl",
        "Closed",
        "kimi-cli 1.49.0",
        "2026-11-20 09:14:03 UTC",
        "35 s",
        "3",
        "8",
        "12",
        "2",
        "2",
        "99,320",
      ],
      [
        "second.jsonl",
        "Closed",
        "kimi-cli 1.51.0",
        "2026-11-20 09:14:03 UTC",
        "39 s",
        "2",
        "7",
        "12",
        "1",
        "0",
        "98,340",
      ],
      ["killed.jsonl", "No end", "kimi-cli 1.49.0", "2026-11-20 09:14:03 UTC", "580 ms", "1", "1", "1", "0", "0", "0"],
    ]);
    await page.click("th a:text-is('killed.jsonl')");
    await page.waitForSelector("text=No result");
    assert.equal(await page.title(), "killed.jsonl – kimi-agent inspector");
    await page.keyboard.press("i");
    await page.waitForSelector("text=3 recordings");
  }));

test("runs_are_compared_side_by_side", () =>
  inPage(several, async (page) => {
    await page.click("text=Compare the two chosen runs");
    await page.waitForSelector(".pairs .row");
    assert.equal(await page.innerText(".controls [role=status]"), "12 of 37 items differ");
    assert.ok((await page.innerText(".totals")).includes("Duration\t35 s\t39 s\t+3.7 s"));
    await page.check("text=Only differences");
    await settle(page);
    const texts: string[] = [];
    for (let differences = 0; differences < 12; differences++) {
      await page.keyboard.press("d");
      await settle(page);
      texts.push(await page.innerText(".row.current"));
    }
    const text = texts.join("\n");
    for (const part of [
      "rejected by handler: Do not push. Commit only.",
      "43 passed in 0.91s",
      "not in the second run",
    ])
      assert.ok(text.includes(part), `${part} is missing`);
  }));

test("compared_item_opens_its_run", () =>
  inPage(
    several,
    async (page) => {
      await page.locator(".side .title", { hasText: "git push" }).nth(1).click();
      await page.waitForSelector(".conversation .row.current");
      assert.equal(await current(page), "Tool call Shell git push --force origin main");
      assert.equal(await page.innerText("h1"), "second.jsonl");
    },
    { hash: "#compare=0,1" },
  ));

test("equal_runs_have_no_differences", () =>
  inPage(
    several,
    async (page) => {
      assert.equal(await page.innerText(".controls [role=status]"), "0 of 37 items differ");
    },
    { hash: "#compare=0,0" },
  ));

test("print_has_all_rows", () =>
  inPage(
    one,
    async (page) => {
      const rows = await page.evaluate(() => {
        const count = (): number => document.querySelectorAll(".conversation .row").length;
        dispatchEvent(new Event("beforeprint"));
        const during = { rows: count(), text: document.querySelector(".conversation")?.textContent ?? "" };
        dispatchEvent(new Event("afterprint"));
        return { ...during, after: count() };
      });
      assert.equal(rows.rows, 47);
      assert.ok(rows.after < 47);
      // The end of an output, which is hidden on the screen.
      assert.ok(rows.text.includes("1 failed, 41 passed in 0.84s"));
      const printed = await page.pdf();
      assert.ok(printed.length > 20_000);
      assert.ok((printed.toString("latin1").match(/\/Type\s*\/Page\b/g) ?? []).length > 2);
    },
    { height: 500 },
  ));

test("colours_follow_the_system", async () => {
  const colours: string[] = [];
  for (const scheme of ["light", "dark"] as const) {
    await inPage(
      one,
      async (page) => {
        colours.push(await page.$eval("body", (body) => getComputedStyle(body).backgroundColor));
      },
      { scheme },
    );
  }
  assert.deepEqual(colours, ["rgb(246, 247, 249)", "rgb(21, 23, 28)"]);
});

for (const [name, text, expected] of [
  ["empty", "", "This page contains no recording."],
  ["truncated", '{"inspector": 1', "The recordings in this page are not valid JSON."],
  ["newer", '{"inspector": 9, "recordings": []}', "have a format that this version"],
] as const) {
  test(`page_with_${name}_input_says_so`, () =>
    inPage(writePage([], text), async (page) => {
      assert.ok((await page.innerText("main")).includes(expected));
    }));
}

test("keys_of_help_are_in_guide", () =>
  inPage(one, async (page) => {
    await page.keyboard.press("?");
    const keys = await page.$$eval("dialog kbd", (all) => all.map((each) => each.textContent));
    const guide = readFileSync(
      fileURLToPath(new URL("../../../docs/guides/inspect-a-run.md", import.meta.url)),
      "utf8",
    );
    assert.deepEqual(
      keys.filter((key) => !guide.includes(`\`${key}\``)),
      [],
    );
  }));

const VIEWS: Record<string, [() => string, string, string[]]> = {
  conversation: [() => one, "", []],
  tool_call: [() => one, "", ["a", "a", "a"]],
  error: [() => one, "", ["End", "E"]],
  messages: [() => one, "#run=0&messages", ["j", "j"]],
  index: [() => several, "", []],
  comparison: [() => several, "#compare=0,1", ["d", "d"]],
  help: [() => one, "", ["?"]],
  problem: [() => writePage([], ""), "", []],
};

for (const [name, [address, hash, keys]] of Object.entries(VIEWS)) {
  for (const scheme of ["light", "dark"] as const) {
    for (const width of scheme === "light" ? [1400, 390] : [1400]) {
      test(`${name}_is_accessible_${scheme}_${String(width)}`, () =>
        inPage(
          address(),
          async (page) => {
            for (const key of keys) await page.keyboard.press(key);
            await settle(page);
            assert.deepEqual(await violations(page), []);
            const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
            assert.ok(overflow <= 0, `the page is ${String(overflow)} pixels wider than the screen`);
          },
          { scheme, width, hash },
        ));
    }
  }
}
