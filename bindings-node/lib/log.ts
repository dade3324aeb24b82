/** Where the SDK's own log goes: nowhere, until the program says so. */

import { InvalidOption } from "./errors.js";
import { show } from "./show.js";

/** How grave a log record is. */
export type LogLevel = "error" | "warn" | "info" | "debug" | "trace";

/** A record of the SDK's log. */
export interface LogRecord {
  /** How grave it is. */
  level: LogLevel;
  /** The part of the SDK that it comes from. */
  target: string;
  /** What happened. */
  message: string;
}

/** Gets the records of the log. */
export type Logger = (record: LogRecord) => void;

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

  /** A logger that throws must not take the program down: it is told as a warning. */
  write(record: LogRecord): void {
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

const LEVELS: readonly LogLevel[] = ["error", "warn", "info", "debug", "trace"];

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
    throw new InvalidOption("logger", `invalid option \`logger\`: expected a function or null; got ${show(given)}`);
  }
  if (!LEVELS.includes(level)) {
    const known = LEVELS.map((each) => `"${each}"`).join(", ");
    throw new InvalidOption("level", `invalid option \`level\`: expected one of ${known}; got ${show(level)}`);
  }
  log.set(logger ?? null, level);
}
