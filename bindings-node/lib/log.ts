/** Where the SDK's own log goes: nowhere, until the program says so. */

import type { LogLevel } from "./native.js";

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

/** Sends the SDK's log, from a level on, to a function of the program's; `null` silences it again. */
export function setLogger(logger: Logger | null, level: LogLevel = "info"): void {
  log.set(logger, level);
}
