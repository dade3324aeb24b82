/** JSON text for the addon. */

/** Half of a surrogate pair, as `JSON.stringify` writes it; before it any number of escaped backslashes. */
const LONE_SURROGATE = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g;

/**
 * The JSON of a value. What is no Unicode becomes U+FFFD, as everywhere else where text is encoded; what has no JSON
 * throws a `TypeError`.
 */
export function toJson(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError(`a ${typeof value} is no JSON`);
  return text.includes("\\ud") ? text.replace(LONE_SURROGATE, "$1\\ufffd") : text;
}
