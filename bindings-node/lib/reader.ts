/** Reads the events of a turn or of a replay, by event or by step. The core decides what belongs to a step. */

import type { EventBatch } from "./addon.js";
import type { Bridge } from "./bridge.js";
import { type CallSite, callSite, type Entry } from "./call-site.js";
import { callNative } from "./native-errors.js";
import type { TurnHandle } from "./failed-turn.js";
import { servingJob } from "./handlers.js";
import { revealEvent, setOrigin } from "./messages.js";
import { parseMessages } from "./parse.js";
import type { Event } from "./wire.js";

/** The most events of one batch. They are small: most are the length of a text. */
const BATCH = 256;

type Result<T> = IteratorResult<T, undefined>;

const DONE: IteratorReturnResult<undefined> = Object.freeze({ done: true, value: undefined });

/**
 * One step of a turn: a call of the model, and the tools that the model called. Iterates over the step's events.
 *
 * @example
 * ```ts
 * for await (const step of turn.steps) {
 *   for await (const event of step) console.log(step.n, event.type);
 * }
 * ```
 */
export class Step implements AsyncIterableIterator<Event> {
  /** The agent's number of the step, from 1. It can start again within a turn, after a `Stop` hook. */
  readonly n: number;
  readonly #reader: Reader;
  readonly #index: number;

  /** @internal */
  constructor(reader: Reader, index: number, n: number) {
    this.n = n;
    this.#reader = reader;
    this.#index = index;
  }

  /**
   * Returns the next event of the step, or `done` after the last one.
   *
   * @returns The next event. `done` is true after the last one, and when a later step is read.
   * @throws {KimiAgentError} if an error ended the turn.
   *
   * @example
   * ```ts
   * for await (const step of turn.steps) {
   *   const { value: first } = await step.next();
   *   console.log(step.n, first?.type);
   * }
   * ```
   */
  next(): Promise<Result<Event>> {
    return this.#reader.nextEventOf(this.#index, [this, "next"]);
  }

  /**
   * Leaves the step. Its other events are skipped, and the turn continues.
   *
   * @returns `done`.
   *
   * @example
   * ```ts
   * for await (const step of turn.steps) await step.return(); // counts the steps only
   * ```
   */
  return(): Promise<IteratorReturnResult<undefined>> {
    this.#reader.leaveStep(this.#index);
    return Promise.resolve(DONE);
  }

  /**
   * Leaves the step, as {@link Step.return} does.
   *
   * @param error - The reason.
   * @returns A promise that is rejected with `error`.
   */
  throw(error: unknown): Promise<Result<Event>> {
    this.#reader.leaveStep(this.#index);
    return Promise.reject(error);
  }

  /**
   * Iterates over the events of the step.
   *
   * @returns The step itself.
   */
  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** One loop over a turn or a replay. Leaving the loop early leaves the turn. */
export class EventIterator<T = Event> implements AsyncIterableIterator<T> {
  readonly #reader: Reader;
  // eslint-disable-next-line no-unused-private-class-members -- keeps the turn from being collected
  readonly #turn: object;
  readonly #next: (reader: Reader, loop: object) => Promise<Result<T>>;

  /** @internal */
  constructor(reader: Reader, turn: object, next: (reader: Reader, loop: object) => Promise<Result<T>>) {
    this.#reader = reader;
    this.#turn = turn;
    this.#next = next;
  }

  next(): Promise<Result<T>> {
    return this.#next(this.#reader, this);
  }

  return(): Promise<IteratorReturnResult<undefined>> {
    this.#reader.leave(this);
    return Promise.resolve(DONE);
  }

  throw(error: unknown): Promise<Result<T>> {
    this.#reader.leave(this);
    return Promise.reject(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** An event of a batch, or of a text part only the length of its text: null for a long text. */
type Packed = Event | number | null;

/** A `next()` that waits: `poll` looks again, and returns null if there is nothing yet. */
interface Waiter {
  poll: () => Result<unknown> | null;
  resolve: (result: Result<never>) => void;
  reject: (error: unknown) => void;
}

/** The one reader of a turn or of a replay. Calls of `next()` are served in their order. */
export class Reader {
  readonly #bridge: Bridge;
  readonly #native: TurnHandle;
  readonly #owner: object;
  readonly #onEnd: () => void;
  #mode: "events" | "steps" | undefined;
  /** The loop that reads. Undefined without a loop; then `next()` of the turn itself may read. */
  #loop: object | undefined;
  /** No event follows: the turn was left, read to its end, or failed. */
  #over = false;
  #left = false;
  /** The place where the program began to read, for the stack of an error that ends the turn. */
  #site: CallSite | undefined;
  #waiters: Waiter[] = [];
  /** The step that is being read, by its place in the turn. */
  #step: number | undefined;

  #batch: Packed[] = [];
  /** How many events of the batch the program has got. */
  #next = 0;
  /** The short texts of the batch, how far they have been read, and the long texts, the next one last. */
  #texts = "";
  #at = 0;
  #longTexts: string[] = [];

  /**
   * Reads a turn.
   *
   * @param bridge - The connection to the core.
   * @param native - The turn in the core.
   * @param owner - Kept from being collected while a call of `next()` waits.
   * @param onEnd - Called when all events have been read.
   */
  constructor(bridge: Bridge, native: TurnHandle, owner: object, onEnd: () => void = () => undefined) {
    this.#bridge = bridge;
    this.#native = native;
    this.#owner = owner;
    this.#onEnd = onEnd;
  }

  /** Whether the program has begun to read. */
  get started(): boolean {
    return this.#mode !== undefined;
  }

  /** The next event, for a loop, or without one for a direct call of `next()`. */
  nextEvent(loop?: object): Promise<Result<Event>> {
    // Most events are there already, and most programs have one call at a time. This path is all that they take.
    if (this.#next < this.#batch.length && this.#mode === "events" && this.#loop === loop && this.#waiters.length === 0) {
      return Promise.resolve(this.#take());
    }
    try {
      this.#start("events", loop);
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#when([loop ?? this.#owner, "next"], () => this.#pollEvent(undefined));
  }

  /** The next step, for a loop. The rest of the step before it is skipped. */
  nextStep(loop: object): Promise<Result<Step>> {
    try {
      this.#start("steps", loop);
    } catch (error) {
      return Promise.reject(error);
    }
    this.leaveStep(this.#step);
    return this.#when([loop, "next"], () => this.#pollStep());
  }

  /** The next event of a step. */
  nextEventOf(step: number, entry: Entry): Promise<Result<Event>> {
    return this.#when(entry, () => (this.#step === step ? this.#pollEvent(step) : DONE));
  }

  /** No more events of the step are wanted. */
  leaveStep(step: number | undefined): void {
    if (step === undefined || step !== this.#step) return;
    this.report();
    this.#clear();
    this.#step = undefined;
    this.pump();
  }

  /**
   * The program reads no more. Unread events are dropped, and a running turn is cancelled. Does nothing for a loop that does
   * not read because another loop does.
   */
  leave(loop?: object): void {
    this.#native.noteUsed();
    if (this.#over || (loop !== undefined && this.#loop !== undefined && this.#loop !== loop)) return;
    this.report();
    this.#clear();
    this.#over = this.#left = true;
    this.#native.abandon();
    this.pump();
  }

  /** Reports how many events of the batch the program has got. Fetching the next batch reports the rest. */
  report(): void {
    if (this.#next > 0) this.#native.took(this.#next);
  }

  /** There may be something to read. */
  pump(): void {
    // `at` looks at the length: a program may have put a property `0` on all objects.
    for (let waiter = this.#waiters.at(0); waiter; waiter = this.#waiters.at(0)) {
      try {
        const result = waiter.poll();
        if (result === null) return;
        waiter.resolve(result as Result<never>);
      } catch (error) {
        waiter.reject(error);
      }
      this.#waiters.shift();
      if (this.#waiters.length === 0) this.#bridge.release(this.#owner);
    }
  }

  /** Calls `poll` until it returns something. A handler that the turn waits for may not wait for the turn. */
  #when<T>(entry: Entry, poll: () => Result<T> | null): Promise<Result<T>> {
    if (this.#waiters.length === 0) {
      try {
        const result = poll();
        if (result) return Promise.resolve(result);
      } catch (error) {
        return Promise.reject(error);
      }
    }
    const within = servingJob();
    if (within !== null) {
      try {
        callNative(() => {
          this.#native.checkWait(within);
        }, callSite(entry));
      } catch (error) {
        return Promise.reject(error);
      }
    }
    return new Promise((resolve, reject) => {
      this.#waiters.push({ poll, resolve, reject });
      this.#bridge.hold(this.#owner);
    });
  }

  #start(mode: "events" | "steps", loop: object | undefined): void {
    // After its end, a turn that was read by event still can't be read by step, and the other way round.
    if (this.#left || (this.#over && this.#mode === mode)) {
      this.#mode ??= mode;
      return;
    }
    const entry: Entry = [loop ?? this.#owner, "next"];
    // A direct call of `next()` that waits reads as well.
    const isTaken = this.#loop === undefined ? loop !== undefined && this.#waiters.length > 0 : this.#loop !== loop;
    if (this.#mode !== mode || isTaken) {
      // The core refuses a second loop, and a loop in the other mode.
      callNative(() => {
        this.#native.startLoop(mode === "steps");
      }, callSite(entry));
    }
    if (this.#mode === undefined) this.#site = callSite(entry);
    this.#mode = mode;
    this.#loop ??= loop;
  }

  #pollEvent(step: number | undefined): Result<Event> | null {
    if (this.#next < this.#batch.length) return this.#take();
    if (this.#over) return DONE;
    const batch = this.#call(() => this.#native.fetch(BATCH, step));
    if (batch === null) return null;
    this.#clear();
    if (batch.ended) {
      if (step === undefined) this.#end();
      return DONE;
    }
    this.#unpack(batch);
    return this.#take();
  }

  #pollStep(): Result<Step> | null {
    if (this.#over) return DONE;
    const next = this.#call(() => this.#native.nextStep());
    if (next === null) return null;
    if (!next.step) {
      this.#end();
      return DONE;
    }
    this.#step = next.step.index;
    return { done: false, value: new Step(this, next.step.index, next.step.n) };
  }

  /** Calls the addon. An error is the failure of the turn, after its last event. */
  #call<T>(call: () => T): T {
    try {
      return callNative(call, this.#site);
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  #end(): void {
    this.#over = true;
    this.#bridge.removeTurn(this.#native.key);
    this.#onEnd();
  }

  #unpack(batch: EventBatch): void {
    this.#batch = parseMessages(batch.eventsJson) as Packed[];
    this.#texts = batch.texts;
    if (batch.longTexts) this.#longTexts = batch.longTexts.reverse();
    if (batch.request) setOrigin(this.#batch[0], batch.request);
  }

  #clear(): void {
    this.#batch = [];
    this.#next = this.#at = 0;
    this.#texts = "";
    this.#longTexts = [];
  }

  /** The next event of the batch, which has one. */
  #take(): IteratorYieldResult<Event> {
    const packed = this.#batch[this.#next] as Packed;
    this.#next += 1;
    // A handler may wait until the program has got the events before its request.
    if (this.#next === this.#batch.length) this.report();
    return { done: false, value: typeof packed === "object" && packed !== null ? revealEvent(packed) : this.#textPart(packed) };
  }

  /** A text part. Null stands for the length of a long text. */
  #textPart(length: number | null): Event {
    const begin = this.#at;
    this.#at += length ?? 0;
    const text = length === null ? (this.#longTexts.pop() ?? "") : this.#texts.slice(begin, this.#at);
    return { type: "ContentPart", payload: { type: "text", text } };
  }
}
