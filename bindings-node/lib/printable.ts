/** Makes text of unknown origin safe to show in a terminal. */

import { kindOf, wrongOption } from "./arguments.js";
import { atCaller } from "./call-site.js";
import { loadNative } from "./native.js";

/**
 * Returns the text with control and bidirectional characters written as escapes, such as `\x1b` and `\u202e`.
 *
 * Text from an agent (descriptions of approvals, outputs of tools, text) can contain what a model, a web page or a file made up.
 * Printed as it is, it can move the cursor, change the clipboard or show words in another order. Call this before such text is
 * shown in a terminal. The SDK does so for its own errors and log records.
 *
 * Line breaks and tabs stay; `\r\n` becomes `\n`. Backslashes are not escaped, so the text cannot be recovered from the
 * result. A lone surrogate becomes U+FFFD.
 *
 * @param text - The text, for example the description of an approval request.
 * @returns The text that is safe to show.
 * @throws {InvalidOption} if `text` is not a string.
 *
 * @example
 * ```js
 * import { printable } from "kimi-agent";
 *
 * console.log(printable("ls\x1b[2J")); // ls\x1b[2J, and the screen is not cleared
 * ```
 */
export function printable(text: string): string {
  return atCaller(printable, () => {
    if (typeof (text as unknown) === "string") return loadNative().printable(text);
    throw wrongOption("text", `expected a string, got ${kindOf(text)}`);
  });
}
