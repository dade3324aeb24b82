/** Checks what a program passes in, and encodes it as JSON for the addon. */

import { KimiAgentError } from "./error-base.js";
import { InvalidOption } from "./errors.js";
import { nodeUrl } from "./node.js";
import { errorName, errorText, isPlain, isRegExp, isUrl, kindOfInstance, remedyFor, textOf, variablesOf, withArticle } from "./values.js";

/** Returns the error for a wrong value of an option or argument. */
export function wrongOption(option: string, problem: string, cause?: unknown): InvalidOption {
  return new InvalidOption(option, `invalid option \`${option}\`: ${problem}`, cause === undefined ? undefined : { cause });
}

/** Refuses `new` of a class whose objects only a function of the SDK makes. `type` is `new.target`. */
export function refuseNew(given: unknown, type: { readonly name: string }, by: string): void {
  if (given !== undefined) return;
  const error = new TypeError(`${withArticle(type.name)} is not made with \`new\`: call ${by}`);
  Error.captureStackTrace(error, type as never);
  throw error;
}

/**
 * Reads a value that a program passed in. An error of the value itself, for example of a getter or of a proxy, becomes the error
 * of the option.
 */
export function reading<T>(option: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (isOwn(error)) throw error;
    throw wrongOption(option, `it cannot be read: ${errorText(error)}`, error);
  }
}

/** Whether an error is of this package. A proxy can throw when it is asked. */
export function isOwn(error: unknown): boolean {
  try {
    return error instanceof KimiAgentError;
  } catch {
    return false;
  }
}

/** Describes a wrong value in an error: a short text or number as it is, anything else by its kind. */
export function show(value: unknown): string {
  if (typeof value === "string" && value.length <= 80) return JSON.stringify(value);
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return kindOf(value);
}

/** The kind of a value, with an article: `an array`, `a string`, `a Map`; `nothing` for undefined. */
export function kindOf(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (typeof value !== "object") return `a ${typeof value}`;
  try {
    if (Array.isArray(value)) return "an array";
    return isPlain(value) ? "an object" : kindOfInstance(value);
  } catch {
    return "an object that cannot be read";
  }
}

/**
 * Returns a copy of the options of a call if they are a plain object, so that each is read once. Objects of other kinds would lose
 * or hide what they contain.
 */
export function checkedOptions<T extends object>(call: string, options: T): T {
  return reading("options", () => {
    checkPlainOptions(call, options);
    const names = Object.keys(options) as (keyof T & string)[];
    return Object.fromEntries(names.map((name) => [name, reading(name, () => options[name])])) as T;
  });
}

/** Refuses arguments that a function does not take: they would be ignored. */
export function refuseMore(call: string, others: readonly unknown[]): void {
  if (others.length === 0) return;
  throw wrongOption("options", `\`${call}\` takes one object of options, and got another argument, ${show(others[0])}; put all options into one object`);
}

/** Options of functions that take other options than those of sessions. */
const EXAMPLES: Partial<Record<string, string>> = {
  "cassette()": '{ mode: "auto" }',
  "close()": "{ timeout: 1000 }",
  "files()": "{ write: true }",
  "prompt()": "{ timeout: 60_000 }",
  "replayedAgent()": '{ mode: "verify" }',
  "runBatch()": "{ concurrency: 4 }",
  "terminals()": "{ timeout: 60_000 }",
};

function checkPlainOptions(call: string, given: unknown): void {
  if (typeof given === "object" && given !== null && !Array.isArray(given) && isPlain(given)) return;
  const remedy = typeof given === "object" && given !== null && !Array.isArray(given) ? `; ${remedyFor(given)}` : "";
  const example = EXAMPLES[call] ?? '{ workDir: "." }';
  throw wrongOption("options", `\`${call}\` expects an object of options, such as ${example}; got ${show(given)}${remedy}`);
}

/** Returns a copy of the options of a call if they are a plain object with these names only. */
export function knownOptions<T extends object>(call: string, options: T, names: readonly (keyof T & string)[]): T {
  const checked = checkedOptions(call, options);
  refuseOtherOptions(checked, names);
  return checked;
}

/** Throws if an object has other options than these. */
function refuseOtherOptions(options: object, names: readonly string[]): void {
  const other = Object.keys(options).find((name) => !names.includes(name));
  if (other === undefined) return;
  throw wrongOption(other, `unknown option; the options are ${names.map((name) => `\`${name}\``).join(", ")}`);
}

/** Half of a surrogate pair, as `JSON.stringify` writes it; before it any number of escaped backslashes. */
const LONE_SURROGATE = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g;

/** The JSON of a value. A lone surrogate becomes U+FFFD. Throws a `TypeError` if the value has no JSON form. */
export function toJson(value: unknown, replacer?: (key: string, value: unknown) => unknown): string {
  const text = JSON.stringify(value, replacer) as string | undefined;
  if (text === undefined) throw new TypeError(`${value === undefined ? "undefined" : `a ${typeof value}`} has no JSON form`);
  return text.includes("\\ud") ? text.replace(LONE_SURROGATE, "$1\\ufffd") : text;
}

/** The JSON of an option's value. A file URL becomes its path, a regular expression its text. */
export function optionJson(option: string, value: unknown): string {
  try {
    const given: unknown = Array.isArray(value) ? value.map((item) => plainForm(option, item)) : plainForm(option, value);
    return toJson(option === "env" ? withNulls(variablesOf(given) ?? given) : given, onlyPlain);
  } catch (error) {
    if (isOwn(error)) throw error;
    throw wrongOption(option, errorName(error) === "TypeError" ? errorText(error) : textOf(error), error);
  }
}

/** Replaces undefined, which JSON leaves out: a variable without a value is removed from the environment. */
function withNulls(value: unknown): unknown {
  if (typeof value !== "object" || value === null || !Object.values(value).includes(undefined)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]: [string, unknown]) => [name, each ?? null]));
}

/**
 * Refuses what JSON would change or leave out: numbers of which it would make null, which means that the option is not set,
 * functions, and objects that are not plain, such as a `Map`.
 */
function onlyPlain(key: string, value: unknown): unknown {
  // Also the variables of a server in `mcpConfigs`.
  const variables = key === "env" ? variablesOf(value) : undefined;
  if (variables !== undefined) return withNulls(variables);
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${String(value)} is not a finite number`);
  if (typeof value === "function" || typeof value === "symbol") throw new TypeError(`it contains a ${typeof value}, which has no JSON form`);
  if (typeof value === "object" && value !== null && !Array.isArray(value) && !isPlain(value)) {
    throw new TypeError(`expected plain objects, got ${kindOfInstance(value)}; ${remedyFor(value)}`);
  }
  return value;
}

/** The property with the settings of an object that does not show them. Two copies of the package have it in common. */
const HIDDEN_FORM = Symbol.for("kimi-agent.hidden-form");

/** Makes an option send `form` for this object, which shows less, because settings may be secrets. */
export function withHiddenForm<T extends object>(shown: T, form: object): T {
  return Object.defineProperty(shown, HIDDEN_FORM, { value: () => form });
}

function plainForm(option: string, value: unknown): unknown {
  const form = typeof value === "object" && value !== null ? (value as { [HIDDEN_FORM]?: unknown })[HIDDEN_FORM] : undefined;
  if (typeof form === "function") return (form as () => unknown)();
  if (isUrl(value) && option !== "mcpConfigs") {
    const expected = "a path or a file URL";
    if (value.protocol !== "file:") throw wrongOption(option, `expected ${expected}; got ${show(String(value))}`);
    return givenPath(option, value, expected);
  }
  return option === "redact" && isRegExp(value) ? patternText(option, value) : value;
}

/** The text of a regular expression, with its flags as `(?i)`. */
export function patternText(option: string, { source, flags }: RegExp): string {
  const unknown = /[vy]/.exec(flags);
  if (unknown) throw wrongOption(option, `the flag \`${unknown[0]}\` of /${source}/${flags} is not supported; expected only \`i\`, \`m\`, \`s\`, \`u\` and \`g\``);
  // The others do not change what matches, or hold already.
  const inline = flags.replace(/[^ims]/g, "");
  return inline === "" ? source : `(?${inline})${source}`;
}

/** The JSON of an object without functions. Errors name `option`, which by default is the name of the wrong property. */
export function objectJson(object: object, option?: string): string {
  const set = (Object.entries(object) as [string, unknown][]).filter(([, value]) => value !== undefined);
  return `{${set.map(([name, value]) => `${JSON.stringify(name)}:${optionJson(option ?? name, value)}`).join(",")}}`;
}

/** The path of a text, which can be a file URL, or of a `URL`. Undefined for another value. */
export function givenPath(option: string, given: unknown, expected: string): string | undefined {
  if (typeof given === "string" && !given.startsWith("file:")) return given;
  if (typeof given !== "string" && !isUrl(given)) return undefined;
  try {
    return nodeUrl.fileURLToPath(given);
  } catch (error) {
    throw wrongOption(option, `expected ${expected}; got ${show(String(given))}`, error);
  }
}
