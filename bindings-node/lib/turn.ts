/** Turns: a prompt, and all that the agent does about it. */

import "./dispose.js";

import { refuseNew } from "./arguments.js";
import type { Bridge } from "./bridge.js";
import { contentJson, type UserInput } from "./content.js";
import { callSite } from "./call-site.js";
import { OutputInvalid } from "./errors.js";
import { FailedTurn, type TurnHandle } from "./failed-turn.js";
import type { ApprovalAnswer, QuestionAnswer } from "./handler-types.js";
import { givenAnswerJson, servingJob } from "./handlers.js";
import type { OutputCheck } from "./output.js";
import { requestReference, type RequestReference, type Usage, withTotal } from "./messages.js";
import { parseMessages } from "./parse.js";
import { hintAt } from "./hints.js";
import { showAs } from "./inspect.js";
import { EventIterator, Reader, type Step } from "./reader.js";
import { PromptResult, type ResultFields } from "./result.js";
import { whenAborted } from "./signal.js";
import type { Event, TokenUsage } from "./wire.js";

/** Taken when the module is loaded, so that fake timers of a test do not stop a turn. */
const defer = setImmediate;

/** Makes the function for the next piece of the answer's text. A blank line is between two messages of one step. */
function nextText(): (reader: Reader, loop: object) => Promise<IteratorResult<string, undefined>> {
  let last: string | undefined;
  return async (reader, loop) => {
    for (;;) {
      const { done, value: event } = await reader.nextEvent(loop);
      if (done) return { done, value: undefined };
      if (event.type === "StepBegin") last = undefined;
      if (event.type === "ContentPart" && event.payload.type === "text" && event.payload.text !== "") {
        const { text, message_id: message } = event.payload;
        const isNext = message !== undefined && last !== undefined && message !== last;
        last = message ?? last;
        return { done: false, value: isNext ? `\n\n${text}` : text };
      }
    }
  };
}

/** The state that outlives a collected turn or replay. It must not refer to the turn. */
interface Remains {
  bridge: Bridge;
  native: TurnHandle;
  /** Removes the turn's listener from the signal, and its check from the session. */
  forget: () => void;
}

/** A turn that has begun. */
export interface Begun {
  native: TurnHandle;
  /** Lives as long as the turn. */
  keep: readonly object[];
  /** Cancels the turn. */
  signal: AbortSignal | undefined;
  /** The check of its structured output, and what removes it from the session. It must not refer to the turn. */
  output: { check: OutputCheck; remove: () => void } | undefined;
}

const collected = new FinalizationRegistry<Remains>(({ bridge, native, forget }) => {
  forget();
  bridge.removeTurn(native.key);
  bridge.unwatch(native);
  native.abandon();
});

/**
 * A turn. `Value` is the type of the result's `output`. Iterate over it for its events, over `steps`, or over `textStream`; or only await `result()`. To stop early, leave
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
export class Turn<Value = unknown> implements AsyncIterableIterator<Event>, AsyncDisposable {
  readonly #bridge: Bridge;
  readonly #native: TurnHandle;
  readonly #reader: Reader;
  // eslint-disable-next-line no-unused-private-class-members -- the session and its handlers live as long as this
  readonly #keep: readonly object[];
  readonly #remains: Remains;
  readonly #signal: AbortSignal | undefined;
  readonly #check: OutputCheck | undefined;
  /** Whether the signal has cancelled the turn. */
  #aborted = false;

  private constructor(bridge: Bridge, begun: Begun) {
    refuseNew(begun, new.target, "session.prompt()");
    const { native, keep, signal, output } = begun;
    this.#signal = signal;
    this.#check = output?.check;
    this.#bridge = bridge;
    this.#native = native;
    this.#reader = new Reader(bridge, native, this, () => {
      this.#remains.forget();
    });
    this.#keep = keep;
    if (!(native instanceof FailedTurn)) {
      bridge.addTurn(native.key, { onReadable: weakly(this, Turn.#onReadable), onSettled: weakly(this, Turn.#onSettled) });
    }
    const forget = joined(whenAborted(signal, weakly(this, Turn.#onAbort)), output?.remove);
    this.#remains = { bridge, native, forget };
    bridge.watch(native);
    collected.register(this, this.#remains, this);
  }

  /** The turn's id, unique in its session. Empty if the turn could not begin. */
  get id(): string {
    return this.#native.id;
  }

  /** The tokens that this turn has taken so far. */
  get usage(): Usage {
    return withTotal(parseMessages(this.#native.usageJson()) as TokenUsage);
  }

  /**
   * How many events were dropped because the buffer (`eventBufferBytes`) was full: while `result()` waited without a
   * reader, or after `cancel()`.
   */
  get discarded(): number {
    return this.#native.discarded;
  }

  /**
   * Returns the next event, or `done` after the last one.
   *
   * @returns The next event. `done` is true after the last one.
   * @throws {KimiAgentError} if an error ended the turn, after the last event.
   * @throws {InvalidOption} if a loop reads the turn.
   *
   * @example
   * ```ts
   * const { value: event } = await turn.next();
   * if (event?.type === "TurnBegin") console.log("the agent has begun");
   * ```
   */
  next(): Promise<IteratorResult<Event, undefined>> {
    return this.#reader.nextEvent();
  }

  /**
   * Leaves the turn: it is cancelled in the background, and the next prompt waits for its end. Unread events are dropped.
   *
   * @returns `done`.
   *
   * @example
   * ```ts
   * await turn.return();
   * const { text } = await session.prompt("Do this instead.").result();
   * ```
   */
  return(): Promise<IteratorReturnResult<undefined>> {
    this.#reader.leave();
    return Promise.resolve({ done: true, value: undefined });
  }

  /**
   * Leaves the turn, as {@link Turn.return} does.
   *
   * @param error - The reason.
   * @returns A promise that is rejected with `error`.
   */
  throw(error: unknown): Promise<IteratorResult<Event, undefined>> {
    this.#reader.leave();
    return Promise.reject(error);
  }

  /**
   * Iterates over the events. One loop at a time reads a turn: `next()` of a second one rejects with an `InvalidOption`.
   *
   * @returns An iterator for one loop. If the loop is left early, the turn is cancelled in the background.
   */
  [Symbol.asyncIterator](): AsyncIterableIterator<Event> {
    return new EventIterator(this.#reader, this, (reader, loop) => reader.nextEvent(loop));
  }

  /**
   * Iterates over the pieces of the answer's text: strings that are not empty, without thoughts and without text of subagents. If
   * the agent names its messages, a blank line is between two messages of one step.
   * It reads the turn by event, as a loop over the turn does.
   *
   * @example
   * ```ts
   * for await (const piece of session.prompt("Say hello").textStream) process.stdout.write(piece);
   * ```
   */
  get textStream(): AsyncIterableIterator<string> {
    return new EventIterator(this.#reader, this, nextText());
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
   * full and nothing reads it, further events are dropped and counted in `discarded`, so that the turn always ends. A
   * request that waits for `respond()` and is unread for one second is then rejected (a question: dismissed).
   *
   * @returns The outcome, also of a turn that was cancelled or reached its limit of steps.
   * @throws {KimiAgentError} if an error ended the turn.
   * @throws {TurnInProgress} if called from a handler that the turn waits for, because the two would wait for each other.
   *
   * @example
   * ```ts
   * const { status, text } = await session.prompt("What is in this directory?").result();
   * ```
   */
  async result(): Promise<PromptResult<Value>> {
    const within = servingJob();
    const site = callSite([this, "result"]);
    if (!this.#reader.started && !this.#native.isSettled) {
      // A loop that the program starts right after this call counts as a reader.
      await new Promise((resolve) => defer(resolve));
    }
    const fields = await this.#bridge.run<ResultFields>(site, () => this.#native.result(within), this).catch((error: unknown) => {
      throw this.#explained(error);
    });
    if (this.#check) fields.output = this.#check.converted(fields.output);
    return new PromptResult(fields, this.#aborted ? { cause: this.#signal?.reason } : undefined);
  }

  /** Returns the error with the failure of the check as its cause, if the check failed itself. */
  #explained(error: unknown): unknown {
    const thrown = this.#check?.thrown;
    if (thrown !== undefined && error instanceof OutputInvalid && error.cause === undefined) {
      Object.defineProperty(error, "cause", { value: thrown, enumerable: false, configurable: true, writable: true });
    }
    return error;
  }

  /**
   * Cancels the turn and waits until it has ended. Does nothing if it has ended already.
   *
   * @throws {Timeout} if the agent does not answer within `cancelTimeout`. The session is then closed.
   *
   * @example
   * ```ts
   * const turn = session.prompt("Count to a million.");
   * await turn.cancel();
   * const { status } = await turn.result(); // "cancelled"
   * ```
   */
  async cancel(): Promise<void> {
    // A turn that could not begin has ended.
    if (this.#native instanceof FailedTurn) return;
    // The events that the program has got leave capacity for those that follow.
    this.#reader.report();
    await this.#bridge.run([this, "cancel"], () => this.#native.cancel(), this);
  }

  /**
   * Adds a message of the user's to the running turn.
   *
   * @param content - Text, a content part, or a list of both.
   * @throws {NoActiveTurn} if the turn has ended.
   * @throws {Unsupported} if the agent cannot be steered.
   * @throws {InvalidOption} if the content is wrong.
   * @throws {Timeout} if the agent does not answer within `handshakeTimeout`.
   *
   * @example
   * ```ts
   * if (session.capabilities.steer) await turn.steer("Leave the tests as they are.");
   * ```
   */
  async steer(content: UserInput): Promise<void> {
    await this.#bridge.run([this, "steer"], () => this.#native.steer(contentJson(content)), this);
  }

  /**
   * Stops the work of a subagent, while the turn and its other subagents continue. The open requests of the subagent are
   * answered as cancelled.
   *
   * @param sessionId - The `session_id` of a `SubagentEvent`.
   * @throws {Unsupported} if the agent does not permit it for this subagent, or cannot cancel subagents at all.
   * @throws {InvalidOption} if no subagent has this session.
   *
   * @example
   * ```ts
   * for await (const event of turn) {
   *   if (event.type === "SubagentEvent" && event.payload.session_id) await turn.cancelSubagent(event.payload.session_id);
   * }
   * ```
   */
  async cancelSubagent(sessionId: string): Promise<void> {
    await this.#bridge.run([this, "cancelSubagent"], () => this.#native.cancelSubagent(sessionId), this);
  }

  /**
   * Answers an approval request of this turn, if `onApproval` is `"manual"`. An answer to a request that was resolved
   * meanwhile is ignored.
   *
   * @param request - The event of the request, its payload, or its id.
   * @param answer - The decision.
   * @returns When the answer is on its way to the agent.
   * @throws {InvalidOption} if the answer does not fit the request, or this session has no such request.
   *
   * @example
   * ```ts
   * for await (const event of turn) {
   *   if (event.type === "ApprovalRequest") await turn.respond(event, "approve");
   * }
   * ```
   */
  respond(request: RequestReference<"ApprovalRequest">, answer: ApprovalAnswer): Promise<void>;
  /**
   * Answers questions of this turn, if `onQuestion` is `"manual"`.
   *
   * @param request - The event of the request, its payload, or its id.
   * @param answer - The answers, by the texts of the questions; null dismisses the questions.
   * @returns When the answer is on its way to the agent.
   * @throws {InvalidOption} if the answer does not fit the request, or this session has no such request.
   *
   * @example
   * ```ts
   * for await (const event of turn) {
   *   if (event.type !== "QuestionRequest") continue;
   *   await turn.respond(event, Object.fromEntries(event.payload.questions.map(({ question }) => [question, "yes"])));
   * }
   * ```
   */
  respond(request: RequestReference<"QuestionRequest">, answer: QuestionAnswer): Promise<void>;
  async respond(request: RequestReference, answer: ApprovalAnswer | QuestionAnswer): Promise<void> {
    const begin = (): number => this.#native.respond(...requestReference(request), givenAnswerJson(answer));
    await this.#bridge.run([this, "respond"], begin, this);
  }

  /**
   * Cancels the turn if it is still running, at the end of the block that declares it with `await using`.
   *
   * @returns When the turn has ended.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#native.isSettled) return;
    this.#reader.leave();
    // The turn has ended, also if the cancel failed.
    await this.cancel().catch(() => undefined);
  }

  /** @internal */
  static of<Value>(bridge: Bridge, begun: Begun): Turn<Value> {
    return new Turn(bridge, begun);
  }

  /** @internal */
  static stateOf(turn: Turn): "running" | "ended" | "failed" {
    if (turn.#native instanceof FailedTurn) return "failed";
    return turn.#native.isSettled ? "ended" : "running";
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

/**
 * The messages of a session so far, replayed by the agent. Requests among them are not to be answered.
 *
 * @example
 * ```ts
 * const replay = session.replay();
 * for await (const event of replay) {
 *   if (event.type === "TurnBegin") console.log("user:", event.payload.user_input);
 * }
 * ```
 */
export class Replay implements AsyncIterableIterator<Event>, AsyncDisposable {
  readonly #reader: Reader;
  // eslint-disable-next-line no-unused-private-class-members -- the session lives as long as this
  readonly #session: object;

  /** @internal */
  static of(bridge: Bridge, native: TurnHandle, session: object): Replay {
    return new Replay(bridge, native, session);
  }

  private constructor(bridge: Bridge, native: TurnHandle, session: object) {
    refuseNew(native, new.target, "session.replay()");
    this.#session = session;
    this.#reader = new Reader(bridge, native, this);
    const pump = weakly(this, Replay.#pump);
    bridge.addTurn(native.key, { onReadable: pump, onSettled: pump });
    collected.register(this, { bridge, native, forget: () => undefined });
  }

  /**
   * Returns the next event, or `done` after the last one.
   *
   * @returns The next event. `done` is true after the last one.
   * @throws {Timeout} if the agent sends nothing for longer than `handshakeTimeout`.
   * @throws {KimiAgentError} if another error ended the replay.
   *
   * @example
   * ```ts
   * const { value: first } = await session.replay().next();
   * ```
   */
  next(): Promise<IteratorResult<Event, undefined>> {
    return this.#reader.nextEvent();
  }

  /**
   * Leaves the replay. Unread events are dropped.
   *
   * @returns `done`.
   *
   * @example
   * ```ts
   * const replay = session.replay();
   * const { value: first } = await replay.next();
   * await replay.return();
   * ```
   */
  return(): Promise<IteratorReturnResult<undefined>> {
    this.#reader.leave();
    return Promise.resolve({ done: true, value: undefined });
  }

  /**
   * Leaves the replay, as {@link Replay.return} does.
   *
   * @param error - The reason.
   * @returns A promise that is rejected with `error`.
   */
  throw(error: unknown): Promise<IteratorResult<Event, undefined>> {
    this.#reader.leave();
    return Promise.reject(error);
  }

  /**
   * Iterates over the events.
   *
   * @returns An iterator for one loop.
   */
  [Symbol.asyncIterator](): AsyncIterableIterator<Event> {
    return new EventIterator(this.#reader, this, (reader, loop) => reader.nextEvent(loop));
  }

  /**
   * Leaves the replay at the end of the block that declares it with `await using`.
   *
   * @returns At once.
   */
  [Symbol.asyncDispose](): Promise<void> {
    this.#reader.leave();
    return Promise.resolve();
  }

  static readonly #pump = (replay: Replay): void => {
    replay.#reader.pump();
  };
}

const OF_RESULT = "it is of the turn's result: `const result = await turn.result()`";
const OF_EVENTS = "read it with `for await (const event of session.replay())`";

showAs(Turn, "Turn", (turn) => ({ id: turn.id, state: Turn.stateOf(turn) }));

hintAt(Turn, {
  text: `${OF_RESULT}, then \`result.text\``,
  status: `${OF_RESULT}, then \`result.status\``,
  output: `${OF_RESULT}, then \`result.output\``,
  toolCalls: `${OF_RESULT}, then \`result.toolCalls\``,
  rejected: `${OF_RESULT}, then \`result.rejected\``,
  handlerFailures: `${OF_RESULT}, then \`result.handlerFailures\``,
  plan: `${OF_RESULT}, then \`result.plan\``,
  cost: `${OF_RESULT}, then \`result.cost\``,
  raiseForStatus: `${OF_RESULT}, then \`result.raiseForStatus()\``,
});
hintAt(Replay, { events: OF_EVENTS, messages: OF_EVENTS, result: OF_EVENTS, text: OF_EVENTS });

/** A function that calls both. Not a closure of the constructor, which would refer to the turn. */
function joined(first: () => void, second?: () => void): () => void {
  return () => {
    first();
    second?.();
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
