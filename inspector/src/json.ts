/** JSON values of unknown shape, and functions that read them without trusting the shape. */

export type Json = null | boolean | number | string | Json[] | JsonObject;

export interface JsonObject {
  [name: string]: Json;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns an own member of an object. Names such as `__proto__` and `toString` are never found on the prototype. */
export function member(value: Json | undefined, name: string): Json | undefined {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

export function textOf(value: Json | undefined, name: string): string | undefined {
  const found = member(value, name);
  return typeof found === "string" ? found : undefined;
}

/** Returns a member as text: numbers too, which some agents use as ids. */
export function idOf(value: Json | undefined, name: string): string | undefined {
  const found = member(value, name);
  return typeof found === "string" || typeof found === "number" ? String(found) : undefined;
}

export function numberOf(value: Json | undefined, name: string): number | undefined {
  const found = member(value, name);
  return typeof found === "number" && Number.isFinite(found) ? found : undefined;
}

export function listOf(value: Json | undefined, name: string): Json[] {
  const found = member(value, name);
  return Array.isArray(found) ? found : [];
}

export function objectOf(value: Json | undefined, name: string): JsonObject | undefined {
  const found = member(value, name);
  return isObject(found) ? found : undefined;
}

export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Deeper levels are printed without more indentation, so that the text of deep nesting stays small. */
const DEEPEST_INDENTATION = 24;

interface Level {
  list: boolean;
  names: string[];
  values: Json[];
  next: number;
}

function openLevel(value: Json[] | JsonObject): Level {
  if (Array.isArray(value)) return { list: true, names: [], values: value, next: 0 };
  const names = Object.keys(value);
  return { list: false, names, values: names.map((name) => value[name] ?? null), next: 0 };
}

/**
 * Prints a value with indentation. It uses no recursion: an agent can nest values more deeply than the stack allows.
 *
 * @param value - The value.
 * @param limit - The number of characters after which the text is cut.
 * @returns The text. A cut text ends with `…`.
 */
export function printJson(value: Json, limit = 20_000_000): string {
  const parts: string[] = [];
  let size = 0;
  const write = (text: string): void => {
    parts.push(text);
    size += text.length;
  };
  const levels: Level[] = [];
  const writeValue = (each: Json): void => {
    // A number beyond all bounds, such as 1e999, has no JSON in JavaScript.
    if (each === Infinity || each === -Infinity) write(each > 0 ? "1e999" : "-1e999");
    else if (typeof each !== "object" || each === null) write(JSON.stringify(each));
    else if (Array.isArray(each) ? each.length === 0 : Object.keys(each).length === 0)
      write(Array.isArray(each) ? "[]" : "{}");
    else {
      levels.push(openLevel(each));
      write(Array.isArray(each) ? "[" : "{");
    }
  };
  const indent = (): string => "  ".repeat(Math.min(levels.length, DEEPEST_INDENTATION));
  writeValue(value);
  for (let level = levels.at(-1); level; level = levels.at(-1)) {
    if (size > limit) return `${parts.join("").slice(0, limit)}…`;
    if (level.next === level.values.length) {
      levels.pop();
      write(`\n${indent()}${level.list ? "]" : "}"}`);
      continue;
    }
    write(`${level.next > 0 ? "," : ""}\n${indent()}`);
    if (!level.list) write(`${JSON.stringify(level.names[level.next])}: `);
    const each = level.values[level.next] ?? null;
    level.next += 1;
    writeValue(each);
  }
  return parts.join("");
}
