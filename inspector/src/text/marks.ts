/**
 * Makes characters visible that would not be seen, or that would change how other characters are shown.
 *
 * Controls of writing direction can show a command in another order than it has. Characters without a glyph can hide text
 * from a reader that a model or a shell reads. Each becomes a mark with its number.
 */

export type Piece = { type: "text"; text: string } | { type: "mark"; label: string; name: string };

const NAMES = new Map<number, string>([
  [0x00, "null"],
  [0x07, "bell"],
  [0x08, "backspace"],
  [0x0b, "vertical tab"],
  [0x0c, "form feed"],
  [0x0d, "carriage return"],
  [0x1b, "escape"],
  [0x7f, "delete"],
  [0xad, "soft hyphen"],
  [0x061c, "Arabic letter mark"],
  [0x200b, "zero width space"],
  [0x200c, "zero width non-joiner"],
  [0x200d, "zero width joiner"],
  [0x200e, "left-to-right mark"],
  [0x200f, "right-to-left mark"],
  [0x2028, "line separator"],
  [0x2029, "paragraph separator"],
  [0x202a, "left-to-right embedding"],
  [0x202b, "right-to-left embedding"],
  [0x202c, "pop directional formatting"],
  [0x202d, "left-to-right override"],
  [0x202e, "right-to-left override"],
  [0x2060, "word joiner"],
  [0x2066, "left-to-right isolate"],
  [0x2067, "right-to-left isolate"],
  [0x2068, "first strong isolate"],
  [0x2069, "pop directional isolate"],
  [0x2800, "blank Braille pattern"],
  [0xfeff, "byte order mark"],
]);

const SHORT = new Map<number, string>([
  [0x00, "NUL"],
  [0x07, "BEL"],
  [0x08, "BS"],
  [0x0d, "CR"],
  [0x1b, "ESC"],
  [0x7f, "DEL"],
]);

/**
 * Controls, format characters, lone surrogates, separators, characters without a glyph, many combining characters, and blanks
 * and line ends that move what follows out of sight.
 */
const HIDDEN =
  /[\p{Zs}\t]{60,}|\n(?:[\p{Zs}\t]*\n){29,}|[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|\p{M}{9,}/gu;

/** Format characters that have a glyph, such as the sign of the end of a verse. */
const VISIBLE = /^[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u{110bd}\u{110cd}\u{13430}-\u{1343f}]$/u;

const PICTOGRAPH_BEFORE = /(?:\p{Extended_Pictographic}|\p{Emoji_Modifier}|[#*0-9])\ufe0f?$/u;
const PICTOGRAPH_AFTER = /^\p{Extended_Pictographic}/u;

/** Whether the character at `at` is part of an emoji: the selector of its coloured form, or the joiner of two emoji. */
function belongsToEmoji(text: string, at: number, code: number): boolean {
  if (code !== 0xfe0f && code !== 0xfe0e && code !== 0x200d) return false;
  if (!PICTOGRAPH_BEFORE.test(text.slice(Math.max(0, at - 3), at))) return false;
  return code !== 0x200d || PICTOGRAPH_AFTER.test(text.slice(at + 1, at + 3));
}

function markOf(found: string): { label: string; name: string } {
  const code = found.codePointAt(0) ?? 0;
  if (found.length > 8 && found.startsWith("\n")) {
    return { label: `${String(found.split("\n").length - 1)} line ends`, name: "empty lines" };
  }
  if (found.length > 8 && /^[\p{Zs}\t]/u.test(found)) {
    return { label: `${String(found.length)} blanks`, name: "a long run of blanks" };
  }
  if (found.length > 8 && /^\p{M}/u.test(found)) {
    return { label: `+${String(Array.from(found).length)} combining`, name: "combining characters" };
  }
  const number = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  return { label: SHORT.get(code) ?? number, name: NAMES.get(code) ?? `invisible character ${number}` };
}

/** Splits a text into parts that can be shown as they are, and marks. `\r\n` becomes a line feed. */
export function splitHidden(text: string): Piece[] {
  const source = text.includes("\r\n") ? text.replaceAll("\r\n", "\n") : text;
  const pieces: Piece[] = [];
  let shown = 0;
  for (const match of source.matchAll(HIDDEN)) {
    const found = match[0];
    const code = found.codePointAt(0) ?? 0;
    const isShort = found.length < 30;
    if ((isShort && (code === 0x0a || code === 0x09)) || VISIBLE.test(found) || belongsToEmoji(source, match.index, code)) continue;
    if (match.index > shown) pieces.push({ type: "text", text: source.slice(shown, match.index) });
    pieces.push({ type: "mark", ...markOf(found) });
    // Text after a lone carriage return would overwrite the line. It gets a line of its own, as text after empty lines does.
    if (code === 0x0d || code === 0x0a) pieces.push({ type: "text", text: "\n" });
    shown = match.index + found.length;
  }
  if (shown < source.length) pieces.push({ type: "text", text: source.slice(shown) });
  return pieces;
}

/** Returns a text for places that hold no elements, such as the title of the page, with marks in brackets. */
export function visible(text: string): string {
  return splitHidden(text)
    .map((piece) => (piece.type === "text" ? piece.text : `[${piece.label}]`))
    .join("");
}
