/** Ready handlers for files and terminals below one directory. The core runs them. */

import { resolve } from "node:path";

import { knownOptions, show, wrongOption } from "./arguments.js";
import { atCaller } from "./call-site.js";
import type { ReadFileHandler, TerminalHandler, WriteFileHandler } from "./handler-types.js";
import type { JsonObject } from "./wire.js";

/** The options of `files()`. */
export interface FilesOptions {
  /** Whether the agent may write files; missing folders are made. Otherwise each write is an error. Default: false. */
  write?: boolean | undefined;
  /** The limit of a file, in bytes. Default: 16 MiB. */
  maxBytes?: number | undefined;
}

/** The options of `terminals()`. */
export interface TerminalsOptions {
  /** How long a command may take before it is killed, in milliseconds. Default: 10 minutes. */
  timeout?: number | undefined;
}

/** The files below a directory, from `files()`. */
export interface Files {
  /** The handler for `onReadFile`. */
  readonly read: ReadFileHandler;
  /** The handler for `onWriteFile`. */
  readonly write: WriteFileHandler;
}

/** The settings of ready handlers, with the option that each is for. */
const READY = new WeakMap<object, { option: string; settings: JsonObject }>();

function folder(given: unknown): string {
  if (typeof given !== "string") throw wrongOption("root", `expected the path of a directory, got ${show(given)}`);
  return resolve(given);
}

function ready(option: string, settings: JsonObject): () => never {
  const handler = (): never => {
    throw new TypeError(`it cannot be called; pass it as the option \`${option}\``);
  };
  READY.set(handler, { option, settings });
  return handler;
}

/** Returns the settings of a ready handler for the core; nothing for another value, or for another option than its own. */
export function settingsOf(option: string, value: unknown): JsonObject | undefined {
  if (typeof value !== "function") return undefined;
  const found = READY.get(value);
  return found?.option === option ? found.settings : undefined;
}

/**
 * Makes handlers of files below a directory, for `onReadFile` and `onWriteFile`. Only regular files are read and written. A path
 * outside of the directory, a link, a device, a pipe or a longer file is an error, which the agent gets.
 *
 * @param root - The directory.
 * @param options - Whether files may be written, and the limit of a file.
 * @returns The handlers, as `read` and `write`.
 * @example
 * ```ts
 * const project = files("/srv/project", { write: true });
 * const options = { onReadFile: project.read, onWriteFile: project.write };
 * ```
 */
export function files(root: string, options: FilesOptions = {}): Files {
  return atCaller(files, () => {
    const { write, maxBytes } = knownOptions("files()", options, ["write", "maxBytes"]);
    const settings = { root: folder(root), write: write === true, max_bytes: maxBytes ?? null };
    return { read: ready("onReadFile", settings), write: ready("onWriteFile", settings) };
  });
}

/**
 * Makes a handler that runs commands in a directory and its folders, for `onTerminal`. A command has the rights of the program,
 * and can leave the directory: this is not a sandbox.
 *
 * @param root - The directory.
 * @param options - The limit of a command's duration.
 * @returns The handler.
 * @example
 * ```ts
 * const options = { onTerminal: terminals("/srv/project", { timeout: 60_000 }) };
 * ```
 */
export function terminals(root: string, options: TerminalsOptions = {}): TerminalHandler {
  return atCaller(terminals, () => {
    const { timeout } = knownOptions("terminals()", options, ["timeout"]);
    return ready("onTerminal", { root: folder(root), timeout: timeout ?? null });
  });
}
