/** Rows of two texts side by side. */

import { diffArrays, diffWordsWithSpace } from "diff";

/** A part of a line. `changed` parts are in one of the two texts only. */
export interface Part {
  text: string;
  changed: boolean;
}

export interface Side {
  line: number;
  parts: Part[];
}

export type Row =
  | { type: "same" | "changed" | "removed" | "added"; left: Side | null; right: Side | null }
  | { type: "fold"; count: number };

/** Longer differences are not searched for: everything counts as replaced. */
const EFFORT = { maxEditLength: 2000, timeout: 1000 };

/** Unchanged lines around a change. */
const CONTEXT = 3;

export interface Chunk<T> {
  type: "same" | "removed" | "added";
  left: T[];
  right: T[];
}

/** Compares two lists. If they differ too much, everything is replaced. */
export function diffLists<T>(left: T[], right: T[], keyOf: (value: T) => string): Chunk<T>[] {
  const found = diffArrays(left.map(keyOf), right.map(keyOf), EFFORT) as ReturnType<typeof diffArrays> | undefined;
  if (!found) {
    const all: Chunk<T>[] = [
      { type: "removed", left, right: [] },
      { type: "added", left: [], right },
    ];
    return all.filter((chunk) => chunk.left.length + chunk.right.length > 0);
  }
  let [at, to] = [0, 0];
  return found.map(({ count, added, removed }) => {
    const taken: Chunk<T> = { type: added ? "added" : removed ? "removed" : "same", left: [], right: [] };
    if (!added) taken.left = left.slice(at, (at += count));
    if (!removed) taken.right = right.slice(to, (to += count));
    return taken;
  });
}

function linesOf(text: string): string[] {
  if (text === "") return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}

function wholeLine(line: number, text: string, changed = false): Side {
  return { line, parts: [{ text, changed }] };
}

/** Marks the words that differ. Lines that have almost nothing in common are marked as a whole. */
function compareLines(left: string, right: string): [Part[], Part[]] {
  const whole: [Part[], Part[]] = [[{ text: left, changed: true }], [{ text: right, changed: true }]];
  if (left.length + right.length > 4000) return whole;
  const found = diffWordsWithSpace(left, right, { maxEditLength: 200 });
  if (!found) return whole;
  const common = found.reduce((sum, part) => sum + (part.added || part.removed ? 0 : part.value.trim().length), 0);
  if (common * 4 < Math.min(left.trim().length, right.trim().length)) return whole;
  return [
    found.filter((part) => !part.added).map((part) => ({ text: part.value, changed: part.removed })),
    found.filter((part) => !part.removed).map((part) => ({ text: part.value, changed: part.added })),
  ];
}

/** Pairs the lines of a removed part with those of the added part after it. */
function replacedRows(left: string[], right: string[], leftLine: number, rightLine: number): Row[] {
  return Array.from({ length: Math.max(left.length, right.length) }, (_, at): Row => {
    const [before, after] = [left[at], right[at]];
    if (before !== undefined && after !== undefined) {
      const [leftParts, rightParts] = compareLines(before, after);
      return {
        type: "changed",
        left: { line: leftLine + at, parts: leftParts },
        right: { line: rightLine + at, parts: rightParts },
      };
    }
    if (before !== undefined) return { type: "removed", left: wholeLine(leftLine + at, before), right: null };
    return { type: "added", left: null, right: wholeLine(rightLine + at, after ?? "") };
  });
}

/**
 * Compares two texts line by line.
 *
 * @param left - The text before the change.
 * @param right - The text after it.
 * @param starts - The numbers of the first lines.
 */
export function sideBySide(
  left: string,
  right: string,
  starts: { left: number; right: number } = { left: 1, right: 1 },
): Row[] {
  const rows: Row[] = [];
  let [leftLine, rightLine] = [starts.left, starts.right];
  const chunks = diffLists(linesOf(left), linesOf(right), (line) => line);
  for (let at = 0; at < chunks.length; at++) {
    const chunk = chunks[at];
    if (!chunk) break;
    if (chunk.type === "same") {
      chunk.left.forEach((text, line) =>
        rows.push({ type: "same", left: wholeLine(leftLine + line, text), right: wholeLine(rightLine + line, text) }),
      );
      leftLine += chunk.left.length;
      rightLine += chunk.right.length;
      continue;
    }
    const next = chunk.type === "removed" && chunks[at + 1]?.type === "added" ? chunks[++at] : undefined;
    const added = next?.right ?? chunk.right;
    rows.push(...replacedRows(chunk.left, added, leftLine, rightLine));
    leftLine += chunk.left.length;
    rightLine += added.length;
  }
  return rows;
}

/** Replaces long runs of unchanged lines by a row with their number. */
export function foldRows(rows: readonly Row[]): Row[] {
  const near = new Array<boolean>(rows.length).fill(false);
  rows.forEach((row, at) => {
    if (row.type === "same") return;
    for (let each = Math.max(0, at - CONTEXT); each <= Math.min(rows.length - 1, at + CONTEXT); each++)
      near[each] = true;
  });
  const folded: Row[] = [];
  for (let at = 0; at < rows.length; at++) {
    let end = at;
    while (end < rows.length && !near[end]) end += 1;
    if (end - at > 1) {
      folded.push({ type: "fold", count: end - at });
      at = end - 1;
    } else folded.push(...rows.slice(at, at + 1));
  }
  return folded;
}

export function countChanges(rows: readonly Row[]): { added: number; removed: number } {
  let [added, removed] = [0, 0];
  for (const row of rows) {
    if (row.type === "added" || row.type === "changed") added += 1;
    if (row.type === "removed" || row.type === "changed") removed += 1;
  }
  return { added, removed };
}
