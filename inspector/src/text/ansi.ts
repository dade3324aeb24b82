/**
 * Reads the colours and styles of output for terminals.
 *
 * Only these take effect. All other sequences, such as those that move the cursor, clear the screen or set a link, become
 * visible marks: in a terminal they can hide or replace text that has been written.
 */

import { visible } from "./marks";

/** A style. Colours are one of the 16 of a terminal, from 0 to 15. */
export interface Style {
  foreground?: number;
  background?: number;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
  strike?: boolean;
  inverse?: boolean;
  /** The output asks terminals to hide this text. It is shown. */
  concealed?: boolean;
}

export type Span = { type: "text"; text: string; style: Style } | { type: "mark"; label: string; name: string };

/**
 * A CSI sequence; an OSC, DCS, APC, PM or SOS sequence with its end, or up to the end of its line; another sequence; or the
 * escape alone.
 */
const SEQUENCE =
  /(?:\x1b\[|\x9b)([0-?]*)([ -/]*)([@-~])|\x1b[\]PX^_](?:[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)|[^\x07\x1b\x9c\n]*(?=\n|$))|\x1b[ -/]*([0-~])?/g;

const PALETTE: readonly (readonly [number, number, number])[] = [
  [0, 0, 0],
  [205, 0, 0],
  [0, 205, 0],
  [205, 205, 0],
  [0, 0, 238],
  [205, 0, 205],
  [0, 205, 205],
  [229, 229, 229],
  [127, 127, 127],
  [255, 0, 0],
  [0, 255, 0],
  [255, 255, 0],
  [92, 92, 255],
  [255, 0, 255],
  [0, 255, 255],
  [255, 255, 255],
];

/** Returns the closest of the 16 colours: only these have enough contrast in light and dark. */
export function nearestColour(red: number, green: number, blue: number): number {
  let best = 0;
  let least = Infinity;
  for (const [index, [r, g, b]] of PALETTE.entries()) {
    const distance = (red - r) ** 2 + (green - g) ** 2 + (blue - b) ** 2;
    if (distance < least) [best, least] = [index, distance];
  }
  return best;
}

function indexedColour(index: number): number | undefined {
  if (index < 0 || index > 255) return undefined;
  if (index < 16) return index;
  if (index >= 232) return nearestColour(...([0, 0, 0].map(() => 8 + (index - 232) * 10) as [number, number, number]));
  const level = (value: number): number => (value === 0 ? 0 : 55 + value * 40);
  const cube = index - 16;
  return nearestColour(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

/** Reads the colour after 38 or 48. Returns the number of parameters that it takes, and the colour if it is valid. */
function extendedColour(numbers: number[]): [number, number | undefined] {
  if (numbers[0] === 5) return [2, indexedColour(numbers[1] ?? -1)];
  if (numbers[0] !== 2) return [1, undefined];
  const [red, green, blue] = [numbers[1] ?? 0, numbers[2] ?? 0, numbers[3] ?? 0];
  return [4, nearestColour(red, green, blue)];
}

const FLAGS = new Map<number, Partial<Style>>([
  [1, { bold: true }],
  [2, { dim: true }],
  [3, { italic: true }],
  [4, { underline: true }],
  [7, { inverse: true }],
  [8, { concealed: true }],
  [9, { strike: true }],
  [21, { underline: true }],
]);

const RESETS = new Map<number, (keyof Style)[]>([
  [22, ["bold", "dim"]],
  [23, ["italic"]],
  [24, ["underline"]],
  [27, ["inverse"]],
  [28, ["concealed"]],
  [29, ["strike"]],
  [39, ["foreground"]],
  [49, ["background"]],
]);

function applyStyle(style: Style, parameters: string): Style {
  const numbers = parameters.split(/[;:]/).map((each) => (each === "" ? 0 : Number(each)));
  let next: Style = { ...style };
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at] ?? 0;
    if (code === 0) next = {};
    else if (code === 38 || code === 48) {
      const [taken, colour] = extendedColour(numbers.slice(at + 1, at + 5));
      at += taken;
      if (colour !== undefined) next[code === 38 ? "foreground" : "background"] = colour;
    } else if (code >= 30 && code <= 37) next.foreground = code - 30;
    else if (code >= 40 && code <= 47) next.background = code - 40;
    else if (code >= 90 && code <= 97) next.foreground = code - 82;
    else if (code >= 100 && code <= 107) next.background = code - 92;
    else {
      Object.assign(next, FLAGS.get(code));
      for (const name of RESETS.get(code) ?? []) Reflect.deleteProperty(next, name);
    }
  }
  return next;
}

/** Returns the whole sequence: it can contain text that a reader has to see. */
function printable(sequence: string): string {
  const text = sequence
    .replace(/[\x07\x9c]$/, "")
    .replace(/\x1b/g, "ESC ")
    .replace(/\x9b/g, "CSI ")
    .replace(/\r?\n/g, " LF ");
  return visible(text);
}

/** Splits output into texts with a style and marks. Texts can still have hidden characters. */
export function parseAnsi(text: string): Span[] {
  const spans: Span[] = [];
  let style: Style = {};
  let shown = 0;
  for (const match of text.matchAll(SEQUENCE)) {
    const [sequence, parameters, intermediates, final] = match;
    if (match.index > shown) spans.push({ type: "text", text: text.slice(shown, match.index), style });
    shown = match.index + sequence.length;
    if (final === "m" && intermediates === "" && /^[\d;:]*$/.test(parameters ?? ""))
      style = applyStyle(style, parameters ?? "");
    else
      spans.push({ type: "mark", label: printable(sequence), name: "control sequence for terminals, not carried out" });
  }
  if (shown < text.length) spans.push({ type: "text", text: text.slice(shown), style });
  return spans;
}

/** Returns output without the sequences of colours and styles, for search and comparison. */
export function stripStyles(text: string): string {
  return text.includes("\x1b") ? text.replace(/\x1b\[[\d;:]*m/g, "") : text;
}
