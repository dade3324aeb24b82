/** Search and filters. */

import { isFailed, isRejected, type Item, type Kind } from "./items";
import { wordsOf } from "./words";

/** The kinds of items that a reader can hide, by their names. */
export const GROUPS: readonly { name: string; kinds: readonly Kind[] }[] = [
  { name: "Text", kinds: ["text", "media"] },
  { name: "Thoughts", kinds: ["thought"] },
  { name: "Tools", kinds: ["tool", "request"] },
  { name: "Approvals", kinds: ["approval", "question"] },
  { name: "Policy", kinds: ["policy"] },
  { name: "Hooks", kinds: ["hook"] },
  { name: "Errors", kinds: ["error"] },
  { name: "Session", kinds: ["note", "call"] },
];

export interface Query {
  terms: string[];
  tools: string[];
  turns: number[];
  states: string[];
}

const STATES = new Map<string, (item: Item) => boolean>([
  ["error", isFailed],
  ["failed", isFailed],
  ["rejected", isRejected],
]);

/** Reads a search: words and "phrases", `tool:NAME`, `turn:NUMBER`, `is:error`, `is:rejected`. */
export function parseQuery(text: string): Query {
  const query: Query = { terms: [], tools: [], turns: [], states: [] };
  for (const match of text.matchAll(/"([^"]*)"?|(\S+)/g)) {
    const word = match[2];
    const [, name, value] = /^(tool|turn|is):(.+)$/i.exec(word ?? "") ?? [];
    if (word === undefined || name === undefined || value === undefined) {
      const term = word ?? match[1] ?? "";
      if (term !== "") query.terms.push(term);
    } else if (name.toLowerCase() === "tool") query.tools.push(value.toLowerCase());
    else if (name.toLowerCase() === "turn" && /^\d+$/.test(value)) query.turns.push(Number(value));
    else if (name.toLowerCase() === "is" && STATES.has(value.toLowerCase())) query.states.push(value.toLowerCase());
    else query.terms.push(word);
  }
  return query;
}

export function isEmpty(query: Query): boolean {
  return query.terms.length + query.tools.length + query.turns.length + query.states.length === 0;
}

function escape(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, (each) => `\\${each}`);
}

/** Returns an expression that finds the words of a query, to highlight them. */
export function expressionOf(query: Query): RegExp | undefined {
  if (query.terms.length === 0) return undefined;
  return new RegExp(
    [...query.terms]
      .sort((a, b) => b.length - a.length)
      .map(escape)
      .join("|"),
    "giu",
  );
}

/** Returns a function that says whether an item fits a query. */
export function matcherOf(query: Query): (item: Item) => boolean {
  const terms = query.terms.map((term) => new RegExp(escape(term), "iu"));
  return (item) => {
    if (query.turns.length > 0 && !query.turns.includes(item.turn ?? -1)) return false;
    if (
      query.tools.length > 0 &&
      !(item.kind === "tool" && query.tools.some((name) => item.name.toLowerCase().includes(name)))
    )
      return false;
    if (!query.states.every((state) => STATES.get(state)?.(item))) return false;
    if (terms.length === 0) return true;
    const words = wordsOf(item);
    return terms.every((term) => term.test(words));
  };
}

/** Whether a kind is shown. A tool call is also shown for the requests inside of it. */
function hasShownKind(item: Item, hidden: ReadonlySet<Kind>): boolean {
  if (!hidden.has(item.kind)) return true;
  return item.kind === "tool" && item.attached.some((each) => !hidden.has(each.kind));
}

const HEADINGS: ReadonlySet<Kind> = new Set<Kind>(["turn", "step", "subagent"]);

export interface Filtered {
  /** The items to show, with the headings around them. */
  items: Item[];
  /** The number of items that fit, without headings that only surround others. */
  matches: number;
}

/** Returns the items that fit a query and whose kind is not hidden, with the turns, steps and subagents around them. */
export function filterItems(items: readonly Item[], query: Query, hidden: ReadonlySet<Kind>): Filtered {
  if (isEmpty(query) && hidden.size === 0) return { items: [...items], matches: items.length };
  const fits = matcherOf(query);
  const shown = new Set<Item>();
  let matches = 0;
  for (const item of items) {
    const heading = HEADINGS.has(item.kind);
    // Without words, a heading is shown only around something that is shown.
    if (heading ? isEmpty(query) || !fits(item) : !hasShownKind(item, hidden) || !fits(item)) continue;
    matches += 1;
    for (let each: Item | null = item; each && !shown.has(each); each = each.parent) shown.add(each);
  }
  return { items: items.filter((item) => shown.has(item)), matches };
}
