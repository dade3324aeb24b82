/** The place of a call in the program. Errors have the stack of that place, not one of the package. */

import { KimiAgentError } from "./error-base.js";

type AnyFunction = ((...args: never[]) => unknown) | (new (...args: never[]) => unknown);

/** A function or class of the public interface, or an object and the name of its method. Its callers are the program. */
export type Entry = AnyFunction | readonly [object: object, method: string];

function functionOf(entry: Entry): AnyFunction | undefined {
  if (typeof entry === "function") return entry;
  const [object, method] = entry;
  return (object as Partial<Record<string, AnyFunction>>)[method];
}

/** The place of a call in the program, for an error that occurs later: that error, without its class and its text. */
export type CallSite = Error;

/** Whether the text of a stack is written when it is read, as V8 does it. Other engines write it when it is captured. */
const WRITES_LATE = ((): boolean => {
  const error = new Error();
  Error.captureStackTrace(error);
  error.message = "late";
  return error.stack?.startsWith("Error: late") ?? false;
})();

/** The errors that have the stack of the program's call. */
const placed = new WeakSet<Error>();

/** Remembers the caller of a public function. The text of the stack is made only if it is read. */
export function callSite(entry: Entry): CallSite {
  const site = new Error();
  Error.captureStackTrace(site, functionOf(entry));
  return site;
}

/**
 * Returns the error with the stack of a call. The place of the call becomes the error: Node shows the line of the program only
 * for an error that was made there.
 */
export function raisedAt<E>(error: E, site: CallSite | undefined): E {
  if (!(error instanceof KimiAgentError) || site === undefined || placed.has(error) || placed.has(site)) return error;
  const { stack: _, ...properties } = Object.getOwnPropertyDescriptors(error);
  const made = Object.defineProperties(Object.setPrototypeOf(site, Object.getPrototypeOf(error) as object) as typeof error, properties);
  placed.add(made);
  // Not read elsewhere: once the text exists, Node does not find the line of the program any more.
  if (!WRITES_LATE) made.stack = `${made.name}: ${made.message}${/\n {4}at [^]*/.exec(made.stack ?? "")?.[0] ?? ""}`;
  return made;
}

/** Calls the body of a public function. Its errors have the stack of the caller. */
export function atCaller<T>(entry: Entry, body: () => T): T {
  try {
    return body();
  } catch (error) {
    if (error instanceof KimiAgentError && !placed.has(error)) {
      placed.add(error);
      Error.captureStackTrace(error, functionOf(entry));
    }
    throw error;
  }
}

/** Calls the body of a public asynchronous function. Its errors have the stack of the caller. */
export async function laterAtCaller<T>(entry: Entry, body: () => Promise<T>): Promise<T> {
  const site = callSite(entry);
  try {
    return await body();
  } catch (error) {
    throw raisedAt(error, site);
  }
}
