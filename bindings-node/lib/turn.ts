/** Turns: a prompt, and all that the agent does about it. */

import "./dispose.js";

import type { Bridge } from "./bridge.js";
import { contentJson, type UserInput } from "./content.js";
import { callSite, MaxStepsReached, TurnCancelled } from "./errors.js";
import { FailedTurn, type TurnHandle } from "./failed-turn.js";
import { decisionJson, servingJob } from "./handlers.js";
import { requestReference, type RequestReference, type Usage, withTotal } from "./messages.js";
import type { ApprovalAnswer, QuestionAnswer } from "./options.js";
import { EventIterator, Reader, type Step } from "./reader.js";
import { whenAborted } from "./signal.js";
import type { Content, Event, HandlerFailed, JsonObject, TokenUsage, ToolCallInfo } from "./wire.js";

/** Taken when the module is loaded, so that fake timers of a test do not stop a turn. */
const defer = setImmediate;

/** The next piece of the answer's text. */
async function nextText(reader: Reader, loop: object): Promise<IteratorResult<string, undefined>> {
  for (;;) {
    const { done, value: event } = await reader.nextEvent(loop);
    if (done) return { done, value: undefined };
    if (event.type === "ContentPart" && event.payload.type === "text" && event.payload.text !== "") {
      return { done: false, value: event.payload.text };
    }
  }
}

/** How a turn ended that did not fail. */
export type TurnStatus = "finished" | "cancelled" | "max_steps_reached";

/** One tool call of a turn, in {@link PromptResult.toolCalls}. */
export interface ToolCallRecord {
  /** The id of the call, as the model made it. */
  id: string;
  /** The name of the tool. */
  name: string;
  /** The arguments, parsed. Absent if they are not a JSON object or did not fit. */
  arguments?: JsonObject;
  /**
   * The tool's output; of a result without output, its message. Absent if the turn ended before the call did. An output
   * above 256 KiB is cut, and ends with a line that says so: `[… 123 more bytes]`.
   */
  output?: Content;
  /** Whether the tool failed; absent if the turn ended before the call did. */
  is_error?: boolean;
  /**
   * Milliseconds from the last piece of the arguments to the result, including the wait for an approval. Absent if the turn
   * ended before the call did.
   */
  duration?: number;
}

/** An approval that was rejected, in {@link PromptResult.rejected}. */
export interface RejectedApproval {
  /** The tool call that needed the approval; absent if the agent never named the call. */
  tool_call?: ToolCallInfo;
  /** What the agent wanted to do, from its request. Above 4 KiB it is cut. */
  description: string;
  /**
   * Who rejected it: `no_handler`, nobody could answer; `handler`, `onApproval` or `respond()`; `handler_failed`,
   * `onApproval` failed; `policy`, a rule; `cancelled`, the turn was cancelled or ended before there was an answer.
   */
  by: "no_handler" | "handler" | "handler_failed" | "policy" | "cancelled";
}

/** A handler that failed, in {@link PromptResult.handlerFailures}. */
export interface HandlerFailure {
  /** The kind of handler. */
  handler: HandlerFailed["handler"];
  /** The tool call that it was called for; absent if there is none, or if the agent never named the call. */
  tool_call?: ToolCallInfo;
  /** What went wrong. Above 4 KiB it is cut. */
  message: string;
}

interface ResultFields {
  status: TurnStatus;
  steps: number;
  text: string;
  usage: TokenUsage;
  tool_calls: ToolCallRecord[];
  rejected: RejectedApproval[];
  handler_failures: HandlerFailure[];
}

/** The outcome of a turn. */
export class PromptResult {
  /** How the turn ended. */
  readonly status: TurnStatus;
  /** How many steps it took. */
  readonly steps: number;
  /** The text of the last step. */
  readonly text: string;
  /** The tokens of this turn; the session's sum is `session.usage`. */
  readonly usage: Usage;
  /**
   * The tool calls of the turn in order, those of subagents included. At most the first 10,000; their arguments and outputs
   * together take at most 4 MiB, and what does not fit is left out of the list's entries.
   */
  readonly toolCalls: readonly ToolCallRecord[];
  /** The approvals that were rejected, in order; at most the first 1,000. */
  readonly rejected: readonly RejectedApproval[];
  /** The handlers that failed while the turn ran, in order; at most the first 1,000. */
  readonly handlerFailures: readonly HandlerFailure[];

  /** For the error of {@link raiseForStatus}: why the turn was cancelled, if a signal says so. */
  readonly #cancelled: ErrorOptions | undefined;

  /** @internal */
  constructor(fields: ResultFields, cancelled?: ErrorOptions) {
    const { status, steps, text, usage, tool_calls, rejected, handler_failures } = fields;
    this.#cancelled = cancelled;
    this.status = status;
    this.steps = steps;
    this.text = text;
    this.usage = withTotal(usage);
    this.toolCalls = tool_calls;
    this.rejected = rejected;
    this.handlerFailures = handler_failures;
  }

  /**
   * Returns the result itself if the turn finished.
   *
   * @throws {@link TurnCancelled} if the turn was cancelled. If the signal of `prompt()` cancelled it, `cause` is the signal's
   * reason: for `AbortSignal.timeout()` a `DOMException` named `TimeoutError`, for `abort()` one named `AbortError`.
   * @throws {@link MaxStepsReached} if the turn ended at its limit of steps.
   */
  raiseForStatus(): this {
    if (this.status === "cancelled") {
      const message = "the turn was cancelled before it was finished; the session can still be used";
      throw new TurnCancelled(message, this.#cancelled);
    }
    if (this.status === "max_steps_reached") {
      const limit = `the turn reached its limit of ${String(this.steps)} steps`;
      const message = `${limit}; prompt again to continue, or raise \`maxStepsPerTurn\``;
      throw new MaxStepsReached(message, this.steps);
    }
    return this;
  }
}

/** What a collected turn or replay leaves behind. It must not refer to the turn. */
interface Remains {
  bridge: Bridge;
  native: TurnHandle;
  /** Removes the turn's listener from the signal. */
  forget: () => void;
}

const collected = new FinalizationRegistry<Remains>(({ bridge, native, forget }) => {
  forget();
  bridge.removeTurn(native.key);
  native.abandon();
});

/**
 * A turn. Iterate over it for its events, over `steps`, or over `textStream`; or only await `result()`. To stop early, leave
 * the loop: the turn is then cancelled in the background. A turn that is garbage collected is cancelled as well.
 *
 * @example
 * ```ts
 * const turn = session.prompt("What is in this directory?");
 * for await (const event of turn) {
 *   if (event.type === "ContentPart" && event.payload.type === "text") process.stdout.write(event.payload.text);
 * }
 * const { status } = await turn.result();
 * ```
 */
export class Turn implements AsyncIterableIterator<Event>, AsyncDisposable {
  readonly #bridge: Bridge;
  readonly #native: TurnHandle;
  readonly #reader: Reader;
  // eslint-disable-next-line no-unused-private-class-members -- the session and its handlers live as long as this
  readonly #keep: readonly object[];
  readonly #remains: Remains;
  readonly #signal: AbortSignal | undefined;
  /** Whether the signal has cancelled the turn. */
  #aborted = false;

  /** @internal */
  constructor(bridge: Bridge, native: TurnHandle, keep: readonly object[], signal?: AbortSignal) {
    this.#signal = signal;
    this.#bridge = bridge;
    this.#native = native;
    this.#reader = new Reader(bridge, native, this, () => {
      this.#remains.forget();
    });
    this.#keep = keep;
    if (!(native instanceof FailedTurn)) {
      bridge.addTurn(native.key, { onReadable: weakly(this, Turn.#onReadable), onSettled: weakly(this, Turn.#onSettled) });
    }
    this.#remains = { bridge, native, forget: whenAborted(signal, weakly(this, Turn.#onAbort)) };
    collected.register(this, this.#remains, this);
  }

  /** The turn's id, unique in its session. Empty if the turn could not begin. */
  get id(): string {
    return this.#native.id;
  }

  /** The tokens that this turn has taken so far. */
  get usage(): Usage {
    return withTotal(JSON.parse(this.#native.usageJson()) as TokenUsage);
  }

  /**
   * How many events were dropped because the buffer (`eventBufferBytes`) was full: while `result()` waited and nobody
   * read, or after `cancel()`.
   */
  get discarded(): number {
    return this.#native.discarded;
  }

  /** Returns the next event, or `done` after the last one. Rejects with the error that ended the turn, if there is one. */
  next(): Promise<IteratorResult<Event, undefined>> {
    return this.#reader.nextEvent();
  }

  /** Leaves the turn: it is cancelled in the background, and the next prompt waits for its end. */
  return(): Promise<IteratorReturnResult<undefined>> {
    this.#reader.leave();
    return Promise.resolve({ done: true, value: undefined });
  }

  throw(error: unknown): Promise<IteratorResult<Event, undefined>> {
    this.#reader.leave();
    return Promise.reject(error);
  }

  /** Iterates over the events. One loop at a time reads a turn: `next()` of a second one rejects with an `InvalidOption`. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Event> {
    return new EventIterator(this.#reader, this, (reader, loop) => reader.nextEvent(loop));
  }

  /**
   * Iterates over the pieces of the answer's text: strings that are not empty, without thoughts and without text of subagents.
   * It reads the turn by event, as a loop over the turn does.
   *
   * @example
   * ```ts
   * for await (const piece of session.prompt("Say hello").textStream) process.stdout.write(piece);
   * ```
   */
  get textStream(): AsyncIterableIterator<string> {
    return new EventIterator(this.#reader, this, nextText);
  }

  /**
   * Iterates over the turn's steps, each of which iterates over its events. A turn is read by event or by step, once.
   *
   * @example
   * ```ts
   * for await (const step of turn.steps) {
   *   for await (const event of step) console.log(step.n, event.type);
   * }
   * ```
   */
  get steps(): AsyncIterableIterator<Step> {
    return new EventIterator(this.#reader, this, (reader, loop) => reader.nextStep(loop));
  }

  /**
   * Waits for the end of the turn and returns its outcome.
   *
   * Takes no events away from a reader: events wait in the buffer, also for a loop that starts later. If the buffer is
   * full and nobody reads, further events are dropped and counted in `discarded`, so that the turn always ends. A request
   * that waits for `respond()` and is unread for one second is then rejected (a question: dismissed).
   *
   * @throws The error that ended the turn, if it failed.
   * @throws {@link TurnInProgress} in a handler that the turn waits for, because the two would wait for each other.
   */
  async result(): Promise<PromptResult> {
    const within = servingJob();
    const site = callSite();
    if (!this.#reader.started && !this.#native.isSettled) {
      // A loop that the program starts right after this call counts as a reader.
      await new Promise((resolve) => defer(resolve));
    }
    const fields = await this.#bridge.run<ResultFields>(() => this.#native.result(within), this, site);
    return new PromptResult(fields, this.#aborted ? { cause: this.#signal?.reason } : undefined);
  }

  /**
   * Cancels the turn and waits until it has ended. Does nothing if it has ended already.
   *
   * @throws {@link Timeout} if the agent does not answer within `cancelTimeout`. The session is then closed.
   */
  async cancel(): Promise<void> {
    // A turn that could not begin has ended.
    if (this.#native instanceof FailedTurn) return;
    await this.#bridge.run(() => this.#native.cancel(), this);
  }

  /**
   * Adds a message of the user's to the running turn.
   *
   * @param content - Text, a content part, or a list of both.
   * @throws {@link NoActiveTurn} if the turn has ended, {@link Unsupported} if the agent cannot be steered.
   */
  async steer(content: UserInput): Promise<void> {
    await this.#bridge.run(() => this.#native.steer(contentJson(content)), this);
  }

  /**
   * Answers a request of this turn, if `onApproval` or `onQuestion` is `"manual"`.
   *
   * @param request - The event of the request, its payload, or its id.
   * @param answer - The decision, or the answers to the questions.
   * @throws {@link InvalidOption} if the answer does not fit the request.
   *
   * @example
   * ```ts
   * for await (const event of turn) {
   *   if (event.type === "ApprovalRequest") await turn.respond(event, "approve");
   * }
   * ```
   */
  async respond(request: RequestReference, answer: ApprovalAnswer | QuestionAnswer): Promise<void> {
    await this.#bridge.run(() => this.#native.respond(...requestReference(request), decisionJson(answer)), this);
  }

  /** Cancels the turn if it is still running. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#native.isSettled) return;
    this.#reader.leave();
    // Whatever the outcome is, the turn has ended.
    await this.cancel().catch(() => undefined);
  }

  // Not closures of the constructor, which would keep the turn from being collected.
  static readonly #onReadable = (turn: Turn): void => {
    turn.#reader.pump();
  };

  static readonly #onSettled = (turn: Turn): void => {
    turn.#remains.forget();
    turn.#reader.pump();
  };

  static readonly #onAbort = (turn: Turn): void => {
    turn.#aborted = true;
    turn.cancel().catch(() => undefined);
  };
}

/** The messages of a session so far, replayed by the agent. Requests among them are not to be answered. */
export class Replay implements AsyncIterableIterator<Event>, AsyncDisposable {
  readonly #reader: Reader;
  // eslint-disable-next-line no-unused-private-class-members -- the session lives as long as this
  readonly #session: object;

  /** @internal */
  constructor(bridge: Bridge, native: TurnHandle, session: object) {
    this.#session = session;
    this.#reader = new Reader(bridge, native, this);
    const pump = weakly(this, Replay.#pump);
    bridge.addTurn(native.key, { onReadable: pump, onSettled: pump });
    collected.register(this, { bridge, native, forget: () => undefined });
  }

  next(): Promise<IteratorResult<Event, undefined>> {
    return this.#reader.nextEvent();
  }

  return(): Promise<IteratorReturnResult<undefined>> {
    this.#reader.leave();
    return Promise.resolve({ done: true, value: undefined });
  }

  throw(error: unknown): Promise<IteratorResult<Event, undefined>> {
    this.#reader.leave();
    return Promise.reject(error);
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<Event> {
    return new EventIterator(this.#reader, this, (reader, loop) => reader.nextEvent(loop));
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#reader.leave();
    return Promise.resolve();
  }

  static readonly #pump = (replay: Replay): void => {
    replay.#reader.pump();
  };
}

/** A function that does nothing once its object has been collected. */
function weakly<T extends object>(object: T, action: (object: T) => void): () => void {
  const reference = new WeakRef(object);
  return () => {
    const target = reference.deref();
    if (target) action(target);
  };
}
