/** The SDK's own log. Until the program sets a logger, its warnings and errors are warnings of the process. */

import { show, wrongOption } from "./arguments.js";
import { atCaller } from "./call-site.js";
import { errorText, isError, isThenable, propertyOf, textOf } from "./values.js";

/** The severity of a log record. */
export type LogLevel = "error" | "warn" | "info" | "debug" | "trace";

/** A record of the SDK's log: an event of the SDK, with its severity and its source. */
export interface LogRecord {
  /** The severity. */
  level: LogLevel;
  /** The part of the SDK that wrote the record. */
  target: string;
  /** The event and its fields, for example `invalid JSON-RPC message dropped`. */
  message: string;
}

/** Gets the records of the log, one call for each. If it throws, the process emits a `KimiAgentWarning`. */
export type Logger = (record: LogRecord) => void;

/** The severest first. */
const LEVELS: readonly LogLevel[] = ["error", "warn", "info", "debug", "trace"];

/** The type of all warnings of this package. */
const WARNING = "KimiAgentWarning";

/** The records about handlers that fail, are missing or take long. */
const HANDLERS = "kimi_agent.handlers";

/** Of so many causes at most there is a warning: a program may run for months. */
const MAX_WARNINGS = 100;

/** So many thrown errors are kept until the core reports them. */
const MAX_THROWN = 16;

/** The failures of loggers that were reported. A logger that always fails would fail for each record. */
const reported = new Set<string>();

function warn(error: unknown): void {
  const message = `the logger of kimi-agent failed: ${textOf(error)}`;
  if (reported.has(message) || reported.size >= MAX_WARNINGS) return;
  reported.add(message);
  process.emitWarning(message, { type: WARNING, code: "KIMI_AGENT_LOGGER" });
}

/** Without a logger: one warning of the process for each cause. */
class ProcessWarnings {
  readonly #emitted = new Set<string>();
  #isExiting = false;
  /** The errors that handlers threw, by their texts. */
  readonly #thrown = new Map<string, Error>();

  /** The process exits. */
  exit(): void {
    this.#isExiting = true;
  }

  /** A handler has thrown this. The core's record has only its text; the warning gets the stack. */
  thrown(error: Error): void {
    const [text = ""] = errorText(error).split("\n", 1);
    if (this.#thrown.size >= MAX_THROWN) this.#thrown.clear();
    this.#thrown.set(text, error);
  }

  write({ level, target, message }: LogRecord): void {
    if (LEVELS.indexOf(level) > LEVELS.indexOf("warn")) return;
    if (this.#emitted.has(message) || this.#emitted.size >= MAX_WARNINGS) return;
    this.#emitted.add(message);
    const code = target === HANDLERS ? "KIMI_AGENT_HANDLER" : "KIMI_AGENT_WARNING";
    const detail = this.#stackOf(message);
    // `emitWarning` emits in the next tick, which an exiting process does not have.
    if (this.#isExiting) process.emit("warning", Object.assign(new Error(message), { name: WARNING, code, detail }));
    else process.emitWarning(message, { type: WARNING, code, ...(detail === undefined ? {} : { detail }) });
  }

  #stackOf(message: string): string | undefined {
    if (!message.startsWith("a handler failed;")) return undefined;
    const plain = message.replaceAll('\\"', '"');
    for (const [text, error] of this.#thrown) {
      if (!plain.includes(`error="${text}`)) continue;
      this.#thrown.delete(text);
      const stack = propertyOf(error, "stack");
      return typeof stack === "string" ? textOf(stack) : undefined;
    }
    return undefined;
  }
}

/** The recipient of log records in this JavaScript environment, and the listeners to its change. */
class Log {
  /** Undefined until the program sets it; null if the program has turned the log off. */
  logger: Logger | null | undefined;
  level: LogLevel | null = "warn";
  onLevel: (level: LogLevel | null) => void = () => undefined;
  readonly #warnings = new ProcessWarnings();

  set(logger: Logger | null, level: LogLevel): void {
    this.logger = logger;
    this.level = logger ? level : null;
    reported.clear();
    this.onLevel(this.level);
  }

  /** The process exits: warnings are emitted at once. */
  exit(): void {
    this.#warnings.exit();
  }

  /** A handler has thrown this. */
  handlerThrew(thrown: unknown): void {
    if (this.logger === undefined && isError(thrown)) this.#warnings.thrown(thrown);
  }

  /** A handler for which the core does not wait has thrown this: the core has no record of it. */
  observerFailed(handler: "progress" | "stderr", thrown: unknown, again: boolean): void {
    const fields = `handler="${handler}" error=${JSON.stringify(errorText(thrown))}`;
    if (again) {
      this.write({ level: "debug", target: HANDLERS, message: `a handler failed again ${fields}` });
      return;
    }
    this.handlerThrew(thrown);
    const next = handler === "progress" ? "the batch continues" : "it gets the next line";
    const message = `a handler failed; ${next}. Further failures are records of the level debug ${fields}`;
    this.write({ level: "warn", target: HANDLERS, message });
  }

  /** An error of the logger becomes a warning: it must not end the program. */
  write(record: LogRecord): void {
    if (this.logger === undefined) {
      this.#warnings.write(record);
      return;
    }
    if (this.level === null || LEVELS.indexOf(record.level) > LEVELS.indexOf(this.level)) return;
    try {
      const result: unknown = this.logger?.(record);
      if (isThenable(result)) Promise.resolve(result).catch(warn);
    } catch (error) {
      warn(error);
    }
  }
}

/** The log of this JavaScript environment. */
export const log = new Log();

/**
 * Sends the SDK's log records to a function. There is one logger in each JavaScript environment; the last call counts.
 * Until the first call, warnings and errors are emitted by `process.emitWarning()` as `KimiAgentWarning`, each cause once.
 *
 * @param logger - Gets each record. `null` turns the log off, with its warnings.
 * @param level - The least severe level to send: `"error"`, `"warn"`, `"info"`, `"debug"` or `"trace"`. Default: `"info"`.
 * @throws {InvalidOption} if the logger is not a function, or the level is unknown; the log then stays as it was.
 *
 * @example
 * ```ts
 * setLogger(({ level, target, message }) => console.error(level, target, message), "warn");
 * ```
 */
export function setLogger(logger: Logger | null, level: LogLevel = "info"): void {
  atCaller(setLogger, () => {
    const given: unknown = logger;
    if (given !== null && given !== undefined && typeof given !== "function") {
      throw wrongOption("logger", `expected a function or null; got ${show(given)}`);
    }
    if (!LEVELS.includes(level)) {
      const known = LEVELS.map((each) => `"${each}"`).join(", ");
      throw wrongOption("level", `expected one of ${known}; got ${show(level)}`);
    }
    log.set(logger ?? null, level);
  });
}
