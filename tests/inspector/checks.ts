// Checks of a page that several tests use.

import type { Page } from "playwright-core";

import { axeSource } from "./page";

interface Violation {
  id: string;
  help: string;
  nodes: { html: string }[];
}

/** The violations of the accessibility rules of WCAG 2.2, levels A and AA, in words. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axeSource);
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(root: Document, options: unknown): Promise<{ violations: Violation[] }> };
    };
    const runOnly = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
    return (await axe.run(document, { runOnly, resultTypes: ["violations"] })).violations;
  });
  return found.map(
    ({ id, help, nodes }) =>
      `${id}: ${help}: ${nodes
        .slice(0, 3)
        .map(({ html }) => html.slice(0, 300))
        .join(" | ")}`,
  );
}

export function countNodes(page: Page): Promise<number> {
  return page.evaluate(() => document.querySelectorAll("*").length);
}

/** Scrolls through the conversation, and calls `visit` at each place. Returns the number of rows. */
export async function scrollThrough(page: Page, visit: () => Promise<void>): Promise<number> {
  const seen = new Set<number>();
  for (let places = 0; places < 2000; places++) {
    for (const index of await page.$$eval(".conversation .row", (rows) =>
      rows.map((row) => Number((row as HTMLElement).dataset["index"])),
    ))
      seen.add(index);
    await visit();
    const moved = await page.$eval(".conversation", (list) => {
      const before = list.scrollTop;
      list.scrollTop += list.clientHeight;
      return list.scrollTop > before;
    });
    await settle(page);
    if (!moved) return seen.size;
  }
  throw new Error("the conversation has no end");
}

/** Waits until the page has drawn what was asked for: two frames, and no change of the rows between them. */
export async function settle(page: Page): Promise<void> {
  await page.evaluate(async () => {
    const frame = (): Promise<number> => new Promise(requestAnimationFrame);
    const state = (): string =>
      [...document.querySelectorAll<HTMLElement>(".row")]
        .map((row) => `${row.dataset["index"] ?? ""} ${row.style.top}`)
        .join();
    for (let before = "", now = "-"; before !== now; now = state()) {
      before = now;
      await frame();
      await frame();
      now = state();
      if (before === now) return;
    }
  });
}

/** The invisible characters in the texts and the attributes of a page, with their places. */
export function hiddenCharacters(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const hidden =
      /[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufeff\u{e0000}-\u{e0fff}\u0000-\u0008\u000b-\u001f\u007f-\u009f]/u;
    const found: string[] = [];
    const walker = document.createTreeWalker(document, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node instanceof Text && node.parentElement?.id !== "kimi-agent-recordings" && hidden.test(node.data))
        found.push(JSON.stringify(node.data.slice(0, 80)));
      if (node instanceof Element)
        for (const { name, value } of node.attributes)
          if (hidden.test(value)) found.push(`${name}=${JSON.stringify(value.slice(0, 80))}`);
    }
    return hidden.test(document.title) ? [...found, "the title"] : found;
  });
}

/** Searches, and waits until the page says that it has found this number of items. */
export async function search(page: Page, query: string, found: number): Promise<void> {
  // First something that is not there, so that the number of an earlier search does not count.
  for (const [words, count] of [
    ["no item has this", 0],
    [query, found],
  ] as const) {
    await page.fill("#search", words);
    await page.waitForFunction(
      (expected) => document.querySelector("[role=status]")?.textContent === expected,
      `${String(count)} found`,
    );
  }
  await settle(page);
}
