/** Short descriptions of wrong values, for error messages. */

/** A value as it is shown in an error: a short text or number as it is, anything else by its kind. */
export function show(value: unknown): string {
  if (typeof value === "string" && value.length <= 80) return JSON.stringify(value);
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return kindOf(value);
}

/** The kind of a value, with an article: `an array`, `a string`; `nothing` for undefined. */
export function kindOf(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
