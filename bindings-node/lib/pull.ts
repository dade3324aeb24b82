/** Asynchronous iteration over something that is polled and that tells when to poll again. */

interface Waiter<T> {
  resolve: (result: IteratorResult<T, undefined>) => void;
  reject: (reason: unknown) => void;
}

const DONE: IteratorReturnResult<undefined> = Object.freeze({ done: true, value: undefined });

/**
 * Serves any number of concurrent `next()` calls in their order. The source gives an item, `done`, or `undefined` for
 * "not yet", in which case {@link pump} is called when it may have one.
 */
export class PullQueue<T> {
  readonly #poll: () => IteratorResult<T, undefined> | undefined;
  readonly #onWaiting: () => void;
  readonly #waiters: Waiter<T>[] = [];
  #over = false;

  constructor(poll: () => IteratorResult<T, undefined> | undefined, onWaiting: () => void) {
    this.#poll = poll;
    this.#onWaiting = onWaiting;
  }

  /** Whether it has come to its end, or has been closed. */
  get over(): boolean {
    return this.#over;
  }

  /** Whether somebody waits for an item; `onWaiting` is called when that changes. */
  get waiting(): boolean {
    return this.#waiters.length > 0;
  }

  next(): Promise<IteratorResult<T, undefined>> {
    if (this.#over) return Promise.resolve(DONE);
    if (this.#waiters.length === 0) {
      try {
        const result = this.#step();
        if (result) return Promise.resolve(result);
      } catch (error) {
        return Promise.reject(error);
      }
    }
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject });
      this.#onWaiting();
    });
  }

  /** Serves those who wait, as far as the source goes. */
  pump(): void {
    if (this.#waiters.length === 0) return;
    while (this.#waiters.length > 0) {
      try {
        const result = this.#step();
        if (!result) return;
        this.#waiters.shift()?.resolve(result);
      } catch (error) {
        this.#waiters.shift()?.reject(error);
      }
    }
    this.#onWaiting();
  }

  #step(): IteratorResult<T, undefined> | undefined {
    if (this.#over) return DONE;
    try {
      const result = this.#poll();
      if (result?.done) this.#over = true;
      return result;
    } catch (error) {
      this.#over = true;
      throw error;
    }
  }

  /** Ends it from this side; whoever waits is told that it is over. */
  close(): void {
    this.#over = true;
    this.pump();
  }
}
