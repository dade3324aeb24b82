/** Shows the beginning of long texts, so that the page has few nodes. */

export interface Clipped {
  text: string;
  /** The number of lines that are not shown, also in part. */
  lines: number;
  /** The number of characters that are not shown. */
  characters: number;
}

const SLACK_LINES = 3;
const SLACK_CHARACTERS = 200;

function countLines(text: string, from: number): number {
  let count = 1;
  for (let at = text.indexOf("\n", from); at !== -1; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

/** Returns the first `lines` lines of a text, and not more than `characters` of it. */
export function clip(text: string, lines: number, characters: number): Clipped {
  let end = -1;
  for (let line = 0; line < lines; line++) {
    const next = text.indexOf("\n", end + 1);
    if (next === -1 || next >= characters) {
      end = next === -1 ? text.length : next;
      break;
    }
    end = next;
  }
  end = Math.min(end, characters, text.length);
  // The two parts of a character outside the basic plane stay together.
  if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1] ?? "")) end -= 1;
  const rest = text.length - end;
  const more = rest === 0 ? 0 : countLines(text, end + 1);
  // A button for a short rest would take as much space as the rest.
  if (rest <= SLACK_CHARACTERS && more <= SLACK_LINES) return { text, lines: 0, characters: 0 };
  return { text: text.slice(0, end), lines: more, characters: rest };
}
