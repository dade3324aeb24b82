/** A turn that could not begin. It fails when the program reads it or waits for it. */

import type { NativeTurn } from "./addon.js";
import { log } from "./log.js";
import { textOf } from "./values.js";

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

  get isUnread(): boolean {
    return !this.#used;
  }

  fetch(): never {
    return this.#fail();
  }

  nextStep(): never {
    return this.#fail();
  }

  result(): never {
    return this.#fail();
  }

  steer(): never {
    return this.#fail();
  }

  cancelSubagent(): never {
    return this.#fail();
  }

  respond(): never {
    return this.#fail();
  }

  usageJson(): string {
    return JSON.stringify({ input_other: 0, output: 0, input_cache_read: 0, input_cache_creation: 0 });
  }

  took(): void {
    // A failed turn has no batch.
  }

  startLoop(): void {
    this.#used = true;
  }

  checkWait(): void {
    // A failed turn waits for nothing.
  }

  noteUsed(): void {
    this.#used = true;
  }

  cancel(): never {
    return this.#fail();
  }

  /** The turn has been left or collected. */
  abandon(): void {
    if (this.#used) return;
    this.#used = true;
    const message = `failed turn dropped unread; iterate over it or wait for result() error=${textOf(this.#error)}`;
    log.write({ level: "warn", target: "kimi_agent::session", message });
  }

  #fail(): never {
    this.#used = true;
    throw this.#error;
  }
}
