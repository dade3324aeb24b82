/** Reads the events of a native turn, by event or by step. */

import type { EventBatch } from "./addon.js";
import type { Bridge } from "./bridge.js";
import { callNative, type CallSite, callSite, publicError, raisedAt } from "./errors.js";
import type { TurnHandle } from "./failed-turn.js";
import { revealEvent, setOrigin } from "./messages.js";
import { PullQueue } from "./pull.js";
import type { Event, RequestType } from "./wire.js";

/** How many events cross the border at once, at most. They are small there: most are the length of a text. */
const BATCH = 256;

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

/** One loop over the events of a turn, or of a replay. Leaving it early leaves the turn. */
export class EventIterator<T = Event> implements AsyncIterableIterator<T> {
  readonly #reader: Reader;
  // eslint-disable-next-line no-unused-private-class-members -- the turn lives as long as a loop over it
  readonly #turn: object;
  readonly #next: (reader: Reader, loop: object) => Promise<IteratorResult<T, undefined>>;

  /** @internal */
  constructor(
    reader: Reader,
    turn: object,
    next: (reader: Reader, loop: object) => Promise<IteratorResult<T, undefined>>,
  ) {
    this.#reader = reader;
    this.#turn = turn;
    this.#next = next;
  }

  next(): Promise<IteratorResult<T, undefined>> {
    return this.#next(this.#reader, this);
  }

  return(): Promise<IteratorReturnResult<undefined>> {
    this.#reader.leave(this);
    return Promise.resolve({ done: true, value: undefined });
  }

  throw(error: unknown): Promise<IteratorResult<T, undefined>> {
    this.#reader.leave(this);
    return Promise.reject(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** An event of a batch, or of a text part only the length of its text: null for a long text. */
type Packed = Event | number | null;

const REQUESTS: ReadonlySet<string> = new Set<RequestType>([
  "ApprovalRequest",
  "QuestionRequest",
  "ToolCallRequest",
  "HookRequest",
]);

function isRequest(event: Packed | undefined): boolean {
  return typeof event === "object" && event !== null && REQUESTS.has(event.type);
}

/** The one reader of a turn, or of a replay. */
export class Reader {
  readonly #bridge: Bridge;
  readonly #native: TurnHandle;
  readonly #owner: object;
  readonly #onEnd: () => void;
  #mode: "events" | "steps" | undefined;
  /** The loop that reads. Undefined if there is none; then `next()` of the turn itself may read. */
  #loop: object | undefined;
  #left = false;
  #ended = false;
  /** Where the program began to read. */
  #site: CallSite = {};

  #batch: Packed[] = [];
  /** So many of it the program has got; the core is told with the next call: one across the border is dear. */
  #next = 0;
  /** So many of those the core has been told of already. */
  #acknowledged = 0;
  /** The short texts of the batch, and how far they have been read; the long ones, the next one last. */
  #texts = "";
  #at = 0;
  #long: string[] = [];
  /** The step that is being read, by its place in the turn. */
  #step: number | null = null;
  #stepQueue: PullQueue<Event> | undefined;

  readonly #events: PullQueue<Event>;
  readonly #steps: PullQueue<Step>;

  /** `owner` is kept from being collected while somebody waits for an event; `onEnd` is told that all has been read. */
  constructor(bridge: Bridge, native: TurnHandle, owner: object, onEnd: () => void = () => undefined) {
    this.#bridge = bridge;
    this.#native = native;
    this.#owner = owner;
    this.#onEnd = onEnd;
    this.#events = new PullQueue(() => this.#pollEvent(null), this.#onWaiting);
    this.#steps = new PullQueue(() => this.#pollStep(), this.#onWaiting);
  }

  /** Whether the program has begun to read. */
  get started(): boolean {
    return this.#mode !== undefined;
  }

  /** The next event, for a loop or, without one, for a call of `next()` by hand. */
  nextEvent(loop?: object): Promise<IteratorResult<Event, undefined>> {
    // Most are there already, and nobody waits then: this is all that such an event takes.
    if (this.#mode === "events" && this.#loop === loop && this.#next < this.#batch.length) {
      return Promise.resolve(this.#take());
    }
    try {
      this.#start("events", loop);
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#events.next();
  }

  nextStep(loop: object): Promise<IteratorResult<Step, undefined>> {
    try {
      this.#start("steps", loop);
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#steps.next();
  }

  /**
   * The reader goes, and what it has not read is discarded: a running turn is cancelled. A loop that does not read,
   * because another one does, changes nothing.
   */
  leave(loop?: object): void {
    if (this.#left || this.#ended) return;
    if (loop !== undefined && this.#loop !== undefined && this.#loop !== loop) return;
    this.#left = true;
    this.#acknowledge();
    this.#batch = [];
    this.#next = this.#acknowledged = 0;
    this.#texts = "";
    this.#long = [];
    callNative(() => {
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

  #start(mode: "events" | "steps", loop: object | undefined): void {
    // A turn that has been read to its end stays one that is read by event or by step.
    if (this.#left || (this.#ended && this.#mode === mode)) {
      this.#mode ??= mode;
      return;
    }
    // A call of `next()` by hand that is pending reads as well.
    const taken = this.#loop === undefined ? loop !== undefined && this.#events.waiting : this.#loop !== loop;
    if (this.#mode !== mode || taken) {
      // Refused by the core if the turn is read in the other mode, or by another loop.
      callNative(() => {
        this.#native.readerStarted(mode === "steps");
      });
    }
    if (this.#mode === undefined) this.#site = callSite();
    this.#mode = mode;
    this.#loop ??= loop;
  }

  readonly #onWaiting = (): void => {
    const waiting = this.#events.waiting || this.#steps.waiting || this.#stepQueue?.waiting;
    if (waiting) this.#bridge.hold(this.#owner);
    else this.#bridge.release(this.#owner);
  };

  /** Fetches the next batch, after the last one has been used up. Returns null if there is nothing yet. */
  #drain(max: number, step: number | null): EventBatch | null {
    const got = this.#next - this.#acknowledged;
    this.#batch = [];
    this.#next = this.#at = this.#acknowledged = 0;
    this.#texts = "";
    this.#long = [];
    const batch = callNative(() => this.#native.drain(max, step, got));
    if (batch === null) return null;
    this.#batch = JSON.parse(batch.eventsJson) as Packed[];
    this.#texts = batch.texts;
    this.#long = batch.longTexts?.reverse() ?? [];
    for (const { place, origin } of batch.requests ?? []) setOrigin(this.#batch[place], origin);
    return batch;
  }

  /** The next text part of the batch, whose length is given if it is short. */
  #textPart(length: number | null): Event {
    let text: string;
    if (length === null) {
      text = this.#long.pop() ?? "";
    } else {
      const begin = this.#at;
      this.#at += length;
      text = this.#texts.slice(begin, this.#at);
    }
    return { type: "ContentPart", payload: { type: "text", text } };
  }

  /** Tells the core what the program has got of the batch. */
  #acknowledge(): void {
    const count = this.#next - this.#acknowledged;
    if (count > 0) this.#native.acknowledge(count);
    this.#acknowledged = this.#next;
  }

  /** The next event of the batch, which has one. */
  #take(): IteratorYieldResult<Event> {
    const event = this.#batch[this.#next] as Packed;
    this.#next += 1;
    // A handler starts once the program has got what came before its request.
    if (isRequest(event) || isRequest(this.#batch[this.#next])) this.#acknowledge();
    return { done: false, value: typeof event === "object" && event !== null ? revealEvent(event) : this.#textPart(event) };
  }

  #pollEvent(step: number | null): IteratorResult<Event, undefined> | undefined {
    for (;;) {
      if (this.#next < this.#batch.length) return this.#take();
      const batch = this.#drain(BATCH, step);
      if (batch === null) return undefined;
      if (this.#batch.length > 0) continue;
      if (batch.ended) {
        if (step === null) this.#finish();
        return { done: true, value: undefined };
      }
    }
  }

  #pollStep(): IteratorResult<Step, undefined> | undefined {
    if (this.#step !== null && !this.#skipStep(this.#step)) return undefined;
    for (;;) {
      const batch = this.#drain(0, null);
      if (batch === null) return undefined;
      const { next, ended } = batch;
      if (next) {
        const { index, n } = next;
        this.#step = index;
        const queue = new PullQueue(() => this.#pollEvent(index), this.#onWaiting);
        this.#stepQueue = queue;
        return { done: false, value: new Step(n, queue) };
      }
      if (ended) {
        this.#finish();
        return { done: true, value: undefined };
      }
    }
  }

  /** Passes over what is left of a step; false when there is more to come. */
  #skipStep(step: number): boolean {
    this.#stepQueue?.close();
    this.#next = this.#batch.length;
    for (;;) {
      const batch = this.#drain(BATCH, step);
      if (batch === null) return false;
      if (this.#batch.length === 0) break;
      this.#next = this.#batch.length;
    }
    this.#step = null;
    return true;
  }

  /** At the end of the events a turn that failed throws, so that it does not look like one that went well. */
  #finish(): void {
    this.#ended = true;
    this.#bridge.removeTurn(this.#native.key);
    this.#onEnd();
    const error = this.#native.error();
    if (error) throw raisedAt(publicError(error), this.#site);
  }
}
