/** A turn that could not begin: it fails where a program reads it or waits for it. */

import { log } from "./log.js";
import type { NativeTurn } from "./native.js";

/** Stands in for the core's turn. */
export class FailedTurn implements NativeTurn {
  readonly key = 0;
  readonly id = "";
  readonly discarded = 0;
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

  /** It has ended, without an outcome in the core. */
  outcome(): string {
    return "{}";
  }

  usage(): string {
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
