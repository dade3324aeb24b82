/**
 * The kinds of values that a program passes in. They may come from another realm: Jest and the `vm` pools of vitest run tests in
 * contexts with classes of their own, so that `instanceof` is false for errors and buffers of Node itself.
 */

/** The tag of a value, such as `Map`. A hostile value, for example a `Proxy`, can throw when it is asked. */
function tagOf(value: unknown): string {
  try {
    return Object.prototype.toString.call(value).slice("[object ".length, -1);
  } catch {
    return "Object";
  }
}

/** Whether a value is an error of any realm. Never throws. */
export function isError(value: unknown): value is Error {
  try {
    if (value instanceof Error) return true;
  } catch {
    return false;
  }
  const tag = tagOf(value);
  return tag === "Error" || tag === "DOMException";
}

/** The longest text of a thrown value, in UTF-16 units. */
const MAX_TEXT = 64 << 10;

/** The longest name of an error. */
const MAX_NAME = 200;

/** Returns a property of a value. Undefined if the value refuses to be read. Never throws. */
export function propertyOf(value: unknown, name: string): unknown {
  try {
    return (value as Partial<Record<string, unknown>>)[name];
  } catch {
    return undefined;
  }
}

/** Returns the text of a value that the program made, at most 64 Ki characters of it. Never throws. */
export function textOf(value: unknown): string {
  try {
    const text = String(value);
    return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}…`;
  } catch {
    return "something that has no text was thrown";
  }
}

/** Returns the text of a thrown value: the message of an error, or its name if the message is empty. Never throws. */
export function errorText(thrown: unknown): string {
  if (!isError(thrown)) return textOf(thrown);
  const said = [propertyOf(thrown, "message"), propertyOf(thrown, "name")];
  return textOf(said.find((each) => each !== undefined && each !== null && each !== "") ?? thrown);
}

/** Returns the name of a thrown error, for example `TypeError`; `Error` if the name is not a text. Never throws. */
export function errorName(thrown: unknown): string {
  const name = isError(thrown) ? propertyOf(thrown, "name") : undefined;
  return typeof name === "string" && name !== "" ? name.slice(0, MAX_NAME) : "Error";
}

/** Whether a value is a URL of any realm. Never throws. */
export function isUrl(value: unknown): value is URL {
  return tagOf(value) === "URL";
}

/** Whether a value is a regular expression of any realm. Never throws. */
export function isRegExp(value: unknown): value is RegExp {
  return tagOf(value) === "RegExp";
}

/** Whether a value is a `Map` of any realm. Never throws. */
export function isMap(value: unknown): boolean {
  return tagOf(value) === "Map";
}

/** Whether a value is a promise, or acts like one. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  if (value === null || (typeof value !== "object" && typeof value !== "function")) return false;
  return typeof (value as { then?: unknown }).then === "function";
}

/** The bytes of an array buffer or of a view of any realm; undefined for another value. */
export function bytesOf(value: unknown): Uint8Array | undefined {
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return /^(Shared)?ArrayBuffer$/.test(tagOf(value)) ? new Uint8Array(value as ArrayBuffer) : undefined;
}

/** Whether an object is a plain one of any realm, or has no prototype. */
export function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || (Object.getPrototypeOf(prototype) === null && tagOf(value) === "Object");
}

/**
 * Whether an object has a primitive in it, such as `new String("a")` of any realm. JSON would have what its own `toString` or
 * `valueOf` returns.
 */
export function isBoxed(value: object): boolean {
  const prototypes: object[] = [String.prototype, Number.prototype, Boolean.prototype, BigInt.prototype];
  return prototypes.some((prototype) => {
    try {
      prototype.valueOf.call(value);
      return true;
    } catch {
      return false;
    }
  });
}

/**
 * Returns a plain copy of an object of variables, such as `process.env`, which is not a plain object. Undefined for another
 * value: its own members are not texts, or it keeps its content elsewhere, as a `Map` does.
 */
export function variablesOf(value: unknown): Record<string, unknown> | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value) || isPlain(value) || isLossy(value)) return undefined;
  const variables = { ...value } as Record<string, unknown>;
  const values = Object.values(variables);
  if (values.length === 0 && nameOfClass(value) !== "Object") return undefined;
  return values.every((each) => each === undefined || each === null || typeof each === "string") ? variables : undefined;
}

/** The name of the class of an object. Undefined if it has none. */
function nameOfClass(value: object): string | undefined {
  const { constructor: made } = value as { constructor?: unknown };
  const given: unknown = typeof made === "function" ? made.name : "";
  return typeof given === "string" && given !== "" ? given : undefined;
}

/** The kind of an object that is neither plain nor an array, with an article: `a Map`, `a promise`. */
export function kindOfInstance(value: object): string {
  if (isThenable(value)) return "a promise";
  if (isError(value)) return `an error (${errorText(value)})`;
  const tag = tagOf(value);
  const name = nameOfClass(value) ?? tag;
  if (tag === "Object") return `an instance of ${name}`;
  return withArticle(name);
}

/** The name of a class with an article. Names with `U`, such as `URL` and `Uint8Array`, have "a". */
export function withArticle(name: string): string {
  return `${/^[AEIO]/.test(name) ? "an" : "a"} ${name}`;
}

/** What a program writes instead of a value that is neither plain nor an array. */
export function remedyFor(value: object): string {
  if (isThenable(value)) return "wait for it with `await`";
  switch (tagOf(value)) {
    case "Map":
      return "convert it with `Object.fromEntries(map)`";
    case "Set":
      return "convert it with `[...set]`";
    case "Error":
      return "pass its message";
    case "Response":
    case "Blob":
    case "File":
      return "read it, for example with `await value.text()`";
    case "Headers":
    case "URLSearchParams":
    case "FormData":
      return "convert it with `Object.fromEntries(value)`";
    default:
      return "pass a plain object";
  }
}

/** The types of values that have no form as JSON. */
export const HAVE_NO_JSON: ReadonlySet<string> = new Set(["function", "symbol", "bigint"]);

/** The tags of objects whose JSON would lose their content. */
const LOSSY = /^(Map|Set|WeakMap|WeakSet|WeakRef|Promise|Error|RegExp|Generator|AsyncGenerator|(Shared)?ArrayBuffer|DataView|.+Array|.+ Iterator)$/;

/** Whether an object is an instance of a class whose JSON is `{}`, such as `Response`. Asked after `toJSON` was called. */
export function isEmptyInstance(value: object): boolean {
  return !Array.isArray(value) && !isPlain(value) && !isBoxed(value) && Object.keys(value).length === 0;
}

/** Whether the JSON of an object loses its content: of a `Map`, for example, it is `{}`. */
export function isLossy(value: object): boolean {
  if (Array.isArray(value) || isPlain(value)) return false;
  return isThenable(value) || isError(value) || LOSSY.test(tagOf(value));
}
