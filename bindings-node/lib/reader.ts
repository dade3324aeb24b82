/** Reads the events of a native turn, by event or by step. */

import type { Bridge } from "./bridge.js";
import { fromNative, translated } from "./errors.js";
import type { Batch, ErrorFields, NativeTurn } from "./native.js";
import { PullQueue } from "./pull.js";
import type { Event } from "./wire.js";

/** How many events cross the border at once. */
const BATCH = 64;

/** One step of a turn: a call of the model and the tools that it asked for. Iterates over the step's events. */
export class Step implements AsyncIterableIterator<Event> {
  /** Its number in the turn, from 1; 0 is what comes before the first step. */
  readonly n: number;
  readonly #events: PullQueue<Event>;

  /** @internal */
  constructor(n: number, events: PullQueue<Event>) {
    this.n = n;
    this.#events = events;
  }

  next(): Promise<IteratorResult<Event, undefined>> {
    return this.#events.next();
  }

  /** Leaves the step early; its other events are passed over, and the turn goes on. */
  return(): Promise<IteratorReturnResult<undefined>> {
    this.#events.close();
    return Promise.resolve({ done: true, value: undefined });
  }

  throw(error: unknown): Promise<IteratorResult<Event, undefined>> {
    this.#events.close();
    return Promise.reject(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** The one reader of a turn, or of a replay. */
export class Reader {
  readonly #bridge: Bridge;
  readonly #native: NativeTurn;
  readonly #owner: object;
  readonly #onEnd: () => void;
  #mode: "events" | "steps" | undefined;
  #left = false;
  #ended = false;

  #batch: (Event | string)[] = [];
  #next = 0;
  /** How many of the batch's events the core knows that the program has got: a call across the border is dear. */
  #acknowledged = 0;
  /** The step that is being read, by its place in the turn. */
  #step: number | null = null;
  #stepQueue: PullQueue<Event> | undefined;

  readonly #events: PullQueue<Event>;
  readonly #steps: PullQueue<Step>;

  /** `owner` is kept from being collected while somebody waits for an event; `onEnd` is told that all has been read. */
  constructor(bridge: Bridge, native: NativeTurn, owner: object, onEnd: () => void = () => undefined) {
    this.#bridge = bridge;
    this.#native = native;
    this.#owner = owner;
    this.#onEnd = onEnd;
    this.#events = new PullQueue(() => this.#pollEvent(null), this.#onWaiting);
    this.#steps = new PullQueue(() => this.#pollStep(), this.#onWaiting);
  }

  nextEvent(): Promise<IteratorResult<Event, undefined>> {
    try {
      this.#start("events");
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#events.next();
  }

  nextStep(): Promise<IteratorResult<Step, undefined>> {
    try {
      this.#start("steps");
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#steps.next();
  }

  /** The reader goes, and what it has not read is discarded: a running turn is cancelled. */
  leave(): void {
    if (this.#left || this.#ended) return;
    this.#left = true;
    this.#acknowledge();
    this.#batch = [];
    this.#next = this.#acknowledged = 0;
    translated(() => {
      this.#native.abandon();
    });
    this.#stepQueue?.close();
    this.#events.close();
    this.#steps.close();
  }

  /** There may be something to read. */
  pump(): void {
    this.#stepQueue?.pump();
    this.#events.pump();
    this.#steps.pump();
  }

  #start(mode: "events" | "steps"): void {
    if (this.#mode === mode) return;
    if (!this.#left) {
      translated(() => {
        this.#native.readerStarted(mode === "steps");
      });
    }
    this.#mode = mode;
  }

  readonly #onWaiting = (): void => {
    const waiting = this.#events.waiting || this.#steps.waiting || this.#stepQueue?.waiting;
    if (waiting) this.#bridge.hold(this.#owner);
    else this.#bridge.release(this.#owner);
  };

  #drain(max: number, step: number | null): Batch {
    return JSON.parse(translated(() => this.#native.drain(max, step))) as Batch;
  }

  /** Tells the core how far the program has come; a batch that is used up goes. */
  #acknowledge(): void {
    if (this.#next > this.#acknowledged) this.#native.acknowledge(this.#next - this.#acknowledged);
    this.#acknowledged = this.#next;
    if (this.#next < this.#batch.length) return;
    this.#batch = [];
    this.#next = this.#acknowledged = 0;
  }

  #pollEvent(step: number | null): IteratorResult<Event, undefined> | undefined {
    for (;;) {
      const event = this.#batch[this.#next];
      if (event !== undefined) {
        this.#next += 1;
        // A piece of text comes as its text alone.
        const value: Event =
          typeof event === "string" ? { type: "ContentPart", payload: { type: "text", text: event } } : event;
        return { done: false, value };
      }
      this.#acknowledge();
      const batch = this.#drain(BATCH, step);
      this.#batch = batch.events;
      if (this.#batch.length > 0) continue;
      if (batch.ended) {
        if (step === null) this.#finish();
        return { done: true, value: undefined };
      }
      if (!this.#native.wait()) return undefined;
    }
  }

  #pollStep(): IteratorResult<Step, undefined> | undefined {
    if (this.#step !== null && !this.#skipStep(this.#step)) return undefined;
    for (;;) {
      const { next, ended } = this.#drain(0, null);
      if (next !== null) {
        const [index, n] = next;
        this.#step = index;
        const queue = new PullQueue(() => this.#pollEvent(index), this.#onWaiting);
        this.#stepQueue = queue;
        return { done: false, value: new Step(n, queue) };
      }
      if (ended) {
        this.#finish();
        return { done: true, value: undefined };
      }
      if (!this.#native.wait()) return undefined;
    }
  }

  /** Passes over what is left of a step; false when there is more to come. */
  #skipStep(step: number): boolean {
    this.#stepQueue?.close();
    this.#next = this.#batch.length;
    this.#acknowledge();
    for (;;) {
      const { events, ended } = this.#drain(BATCH, step);
      if (events.length > 0) this.#native.acknowledge(events.length);
      else if (ended) break;
      else if (!this.#native.wait()) return false;
    }
    this.#step = null;
    return true;
  }

  /** At the end of the events a turn that failed throws, so that it does not look like one that went well. */
  #finish(): void {
    this.#ended = true;
    this.#bridge.removeTurn(this.#native.key);
    this.#onEnd();
    const outcome = this.#native.outcome();
    if (outcome === null) return;
    const { error } = JSON.parse(outcome) as { error?: { code: string; message: string; fields?: ErrorFields } };
    if (error) throw fromNative(error.code, error.message, error.fields);
  }
}
