/** The SDK's own log, which goes nowhere until the program sets a logger. */

import { show, wrongOption } from "./arguments.js";

/** The severity of a log record. */
export type LogLevel = "error" | "warn" | "info" | "debug" | "trace";

/** A record of the SDK's log. */
export interface LogRecord {
  /** The severity. */
  level: LogLevel;
  /** The part of the SDK that wrote the record. */
  target: string;
  /** What happened. */
  message: string;
}

/** Gets the records of the log. */
export type Logger = (record: LogRecord) => void;

/** The severest first. */
const LEVELS: readonly LogLevel[] = ["error", "warn", "info", "debug", "trace"];

function warn(error: unknown): void {
  process.emitWarning(`the logger of kimi-agent failed: ${String(error)}`, "KimiAgentWarning");
}

/** Where records go in this JavaScript environment, and who must know that it changed. */
class Log {
  logger: Logger | null = null;
  level: LogLevel | null = null;
  onLevel: (level: LogLevel | null) => void = () => undefined;

  set(logger: Logger | null, level: LogLevel): void {
    this.logger = logger;
    this.level = logger ? level : null;
    this.onLevel(this.level);
  }

  /** An error of the logger becomes a warning: it must not end the program. */
  write(record: LogRecord): void {
    if (this.level === null || LEVELS.indexOf(record.level) > LEVELS.indexOf(this.level)) return;
    try {
      const result: unknown = this.logger?.(record);
      if (result instanceof Promise) result.catch(warn);
    } catch (error) {
      warn(error);
    }
  }
}

/** The log of this JavaScript environment. */
export const log = new Log();

/**
 * Sends the SDK's log records to a function. There is one logger in each JavaScript environment; the last call counts.
 *
 * @param logger - Gets each record. `null` turns the log off, which is the default.
 * @param level - The least severe level to send: `"error"`, `"warn"`, `"info"`, `"debug"` or `"trace"`. Default: `"info"`.
 * @throws {@link InvalidOption} for a logger that is not a function, or an unknown level; the log then stays as it was.
 *
 * @example
 * ```ts
 * setLogger(({ level, target, message }) => console.error(level, target, message), "warn");
 * ```
 */
export function setLogger(logger: Logger | null, level: LogLevel = "info"): void {
  const given: unknown = logger;
  if (given !== null && given !== undefined && typeof given !== "function") {
    throw wrongOption("logger", `expected a function or null; got ${show(given)}`);
  }
  if (!LEVELS.includes(level)) {
    const known = LEVELS.map((each) => `"${each}"`).join(", ");
    throw wrongOption("level", `expected one of ${known}; got ${show(level)}`);
  }
  log.set(logger ?? null, level);
}
