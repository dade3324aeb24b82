/** A turn that could not begin: it fails where a program reads it or waits for it. */

import type { NativeTurn } from "./addon.js";
import { log } from "./log.js";

/** A turn as this package uses it: the addon's, or one that failed. */
export type TurnHandle = Pick<NativeTurn, keyof NativeTurn>;

/** Stands in for the addon's turn. */
export class FailedTurn implements TurnHandle {
  readonly key = 0;
  readonly id = "";
  readonly discarded = 0;
  readonly isSettled = true;
  readonly #error: unknown;
  #used = false;

  constructor(error: unknown) {
    this.#error = error;
  }

  drain(): never {
    return this.#fail();
  }

  result(): never {
    return this.#fail();
  }

  steer(): never {
    return this.#fail();
  }

  respond(): never {
    return this.#fail();
  }

  error(): null {
    return null;
  }

  usageJson(): string {
    return JSON.stringify({ input_other: 0, output: 0, input_cache_read: 0, input_cache_creation: 0 });
  }

  acknowledge(): void {
    // Nothing was read.
  }

  readerStarted(): void {
    this.#used = true;
  }

  /** Nothing runs: there is no ticket to wait for, and nobody asks for one of a turn that has ended. */
  cancel(): never {
    return this.#fail();
  }

  /** The program has lost the turn. */
  abandon(): void {
    if (this.#used) return;
    this.#used = true;
    const message = `failed turn dropped unread; iterate over it or wait for result() error=${String(this.#error)}`;
    if (log.level !== null && log.level !== "error") log.write({ level: "warn", target: "kimi_agent::session", message });
  }

  #fail(): never {
    this.#used = true;
    throw this.#error;
  }
}
