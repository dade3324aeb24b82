/** Calls the program's handlers for requests, tools, hooks, events and stderr. */

import type { Delivery } from "./addon.js";
import { isOwn, kindOf, show, toJson, wrongOption } from "./arguments.js";
import type { Progress } from "./batch.js";
import { Block, type HandlerContext, Reject, type ToolContext } from "./handler-types.js";
import { log } from "./log.js";
import { revealEvent, revealToolCall } from "./messages.js";
import { asyncHooks } from "./node.js";
import type { HandlerFunctions } from "./options.js";
import { OutputCheck } from "./output.js";
import type { Tracing } from "./telemetry.js";
import type { StandardSchema } from "./tool-schema.js";
import { bytesOf, errorName, errorText, HAVE_NO_JSON, isBoxed, isEmptyInstance, isError, isLossy, isThenable, kindOfInstance, propertyOf, remedyFor } from "./values.js";
import type {
  ApprovalRequest,
  Event,
  HookRequest,
  JsonObject,
  QuestionRequest,
  ReadFileRequest,
  TerminalRequest,
  WriteFileRequest,
} from "./wire.js";

/** A call of a handler. */
export interface HandlerCall {
  id: number;
  kind: (Delivery & { type: "job" })["kind"];
  /** The place of the tool or hook in the options, or the number of the check. */
  index: number | undefined;
  payload: unknown;
  /** The ID of a tool's call. */
  callId: string | undefined;
  /** Whether the session's running turn waits for the handler. */
  inTurn: boolean;
  /** The number of the span that the handler runs in. */
  span: number | undefined;
}

/** The id of the job of a handler that a turn waits for, in the handler and in what it has started. */
const serving = new asyncHooks.AsyncLocalStorage<number>();

/** The job of the handler that calls this, if a turn waits for it. */
export function servingJob(): number | null {
  return serving.getStore() ?? null;
}

/** The second argument of a handler. Its signal is made when it is first used: most handlers do not use it. */
export class JobContext implements HandlerContext {
  #controller: AbortController | undefined;
  #aborted = false;

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#aborted) this.#controller.abort();
    return this.#controller.signal;
  }

  /** Withdraws a request whose answer is not needed any more. */
  abort(): void {
    this.#aborted = true;
    this.#controller?.abort();
  }
}

/** The second argument of a tool's handler. */
export class ToolJobContext extends JobContext implements ToolContext {
  readonly callId: string;
  /** A function of its own, because handlers take it out of the context. */
  readonly progress: ToolContext["progress"];

  constructor(callId: string, report: (fraction: number | undefined, message: string | undefined) => void) {
    super();
    this.callId = callId;
    this.progress = (fraction, message) => {
      if (fraction !== undefined && fraction !== null && typeof fraction !== "number") {
        throw new TypeError(`fraction: expected a number from 0 to 1, got ${kindOf(fraction)}`);
      }
      if (message !== undefined && message !== null && typeof message !== "string") {
        throw new TypeError(`message: expected text, got ${kindOf(message)}`);
      }
      report(fraction ?? undefined, message ?? undefined);
    };
  }
}

/** The checks of the outputs of turns, by their numbers. */
type Checks = Map<number, OutputCheck>;

/** The outcome of a job: an answer, the text of the thrown error and the name of its class, or why the answer cannot be sent. */
export type JobOutcome = { answerJson: string } | { failure: string; kind?: string } | { unsendable: string };

/** Refuses a value whose JSON would lose its content, so that no empty result looks like success. */
function keepsContent(this: unknown, key: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new TypeError(`the handler returned ${String(value)}, which has no JSON form`);
  }
  if (HAVE_NO_JSON.has(typeof value)) throw new TypeError(`the handler returned a ${typeof value}, which has no JSON form`);
  // The `toJSON` of a Buffer was called already.
  const given = propertyOf(this, key);
  if (bytesOf(given) !== undefined) {
    const remedy = "return text, for example `buffer.toString(\"base64\")`";
    throw new TypeError(`the handler returned ${kindOfInstance(given as object)}, whose content JSON would lose; ${remedy}`);
  }
  if (typeof value !== "object" || value === null || !(isLossy(value) || isEmptyInstance(value))) return value;
  const remedy = isError(value) ? "throw an error to report a failure" : remedyFor(value);
  throw new TypeError(`the handler returned ${kindOfInstance(value)}, whose content JSON would lose; ${remedy}`);
}

/** The JSON of an answer: {@link Reject} and {@link Block} become objects, undefined becomes null. */
export function answerJson(answer: unknown): string {
  if (answer === Reject || answer === Block) {
    const [name, made] = answer === Reject ? ["Reject", 'reject("feedback")'] : ["Block", 'block("reason")'];
    throw new TypeError(`the handler returned the class ${name}, not an object of it: return \`${made}\``);
  }
  if (answer instanceof Reject) {
    const feedback: unknown = answer.feedback;
    if (typeof feedback === "string") return toJson({ reject: feedback });
    throw new TypeError(`a Reject needs the text that the model reads, got ${show(feedback)}; to reject without a text, answer "reject"`);
  }
  if (answer instanceof Block) return toJson({ block: answer.reason });
  return noCircle(() => toJson(answer ?? null, keepsContent));
}

const TOO_DEEP = "the handler returned a value that contains itself or is nested too deep, which has no JSON form";

/** Makes JSON. The error for a value that contains itself has no stack of `JSON.stringify`. */
function noCircle(make: () => string): string {
  try {
    return make();
  } catch (error) {
    if (error instanceof RangeError || /circular/i.test(errorText(error))) {
      throw new TypeError(TOO_DEEP, { cause: error });
    }
    throw error;
  }
}

/** The JSON of an answer that decides something. Refuses what JSON would change: objects with `toJSON`, objects of primitives. */
export function decisionJson(answer: unknown): string {
  if (!(answer instanceof Reject || answer instanceof Block)) checkPlain(answer);
  return answerJson(answer);
}

/** The JSON of an answer that the program passes to `respond()`. */
export function givenAnswerJson(answer: unknown): string {
  try {
    return decisionJson(answer);
  } catch (thrown) {
    if (isOwn(thrown)) throw thrown;
    throw wrongOption("answer", errorText(thrown).replace(/^the handler returned/, "got"), thrown);
  }
}

/** Answers have a few levels. */
const DEEPEST = 100;

function checkPlain(value: unknown, depth = 0): void {
  if (typeof value !== "object" || value === null) return;
  if (depth > DEEPEST) throw new TypeError(TOO_DEEP);
  if ("toJSON" in value || isBoxed(value)) {
    const got = "toJSON" in value ? "an object with `toJSON`" : "an object of a text or number, such as `new String()`";
    throw wrongOption("answer", `expected text or a plain object, got ${got}`);
  }
  for (const item of Object.values(value)) checkPlain(item, depth + 1);
}

function call({ kind, index, payload }: HandlerCall, functions: HandlerFunctions, checks: Checks, context: HandlerContext): unknown {
  switch (kind) {
    case "approval":
      return functions.approval?.(revealToolCall(payload as ApprovalRequest), context);
    case "question":
      return functions.question?.(payload as QuestionRequest, context);
    case "tool":
      return functions.tools[index ?? -1]?.handler(payload as JsonObject, context as ToolContext);
    case "hook":
      return functions.hooks[index ?? -1]?.handler(payload as HookRequest, context);
    case "event":
      return functions.event?.(revealEvent(payload as Event), context);
    case "stderr":
      return functions.stderr?.(payload as string, context);
    case "read_file":
      return functions.readFile?.(payload as ReadFileRequest, context);
    case "write_file":
      return functions.writeFile?.(payload as WriteFileRequest, context);
    case "terminal":
      return functions.terminal?.(payload as TerminalRequest, context);
    case "next_job":
      return functions.nextJob?.();
    case "progress":
      return functions.progress?.(payload as Progress);
    case "output":
      return checkOutput(checks.get(index ?? -1), payload);
  }
}

function checkOutput(check: OutputCheck | undefined, value: unknown): unknown {
  // Without its check, a value must not count as valid.
  if (check === undefined) throw new Error("the turn of the output is gone");
  return check.check(value);
}

/** The failure of a job. Never throws, whatever the program has thrown. */
function failed(job: HandlerCall, thrown: unknown): JobOutcome {
  // An answer, and no failure: agents look for files that are optional.
  if (job.kind === "read_file" && isNotFound(thrown)) return { answerJson: "null" };
  // The batch throws the error of its source. The core does not wait for lines of stderr, and logs nothing about them.
  if (job.kind !== "next_job" && job.kind !== "stderr") log.handlerThrew(thrown);
  const failure = errorText(thrown);
  const name = errorName(thrown);
  // The name `Error` says nothing.
  return name === "Error" || failure === name ? { failure } : { failure, kind: name };
}

function isNotFound(thrown: unknown): boolean {
  return isError(thrown) && propertyOf(thrown, "code") === "ENOENT";
}

function answered(job: HandlerCall, answer: unknown): JobOutcome {
  const ignored = job.kind === "event" || job.kind === "stderr" || job.kind === "write_file" || job.kind === "progress";
  try {
    if (ignored) return { answerJson: "null" };
    const isData = job.kind === "tool" || job.kind === "output" || job.kind === "next_job";
    return { answerJson: isData ? answerJson(answer) : decisionJson(answer) };
  } catch (thrown) {
    const outcome = failed(job, thrown);
    if (job.kind !== "tool" || !("failure" in outcome)) return outcome;
    // The model does not read the text, which is advice for programmers.
    return { unsendable: outcome.kind === undefined ? outcome.failure : `${outcome.kind}: ${outcome.failure}` };
  }
}

function callServing(job: HandlerCall, functions: HandlerFunctions, checks: Checks, context: HandlerContext): unknown {
  return serving.run(job.id, call, job, functions, checks, context);
}

/**
 * The handlers of a session. They run in the asynchronous context of the call that opened it, or that began the turn, and with
 * telemetry in a span.
 */
export class Handlers {
  readonly #functions: HandlerFunctions;
  readonly #session = new asyncHooks.AsyncResource("KimiAgentSession");
  #turn = this.#session;
  readonly #checks: Checks = new Map();
  #lastCheck = 0;
  #hasStderrFailed = false;

  constructor(
    functions: HandlerFunctions,
    /** The spans of the session, if it has the option `telemetry`. */
    readonly tracing?: Tracing,
  ) {
    this.#functions = functions;
  }

  /** A turn begins here: its handlers run in this asynchronous context. */
  enterTurn(): void {
    this.#turn = new asyncHooks.AsyncResource("KimiAgentTurn");
  }

  /** Makes the check of a turn's output, and returns it with its number and a function that removes it. */
  addCheck(schema: StandardSchema, keepsValues = true): { check: OutputCheck; number: number; remove: () => void } {
    const [check, number] = [new OutputCheck(schema, keepsValues), (this.#lastCheck += 1)];
    this.#checks.set(number, check);
    // The function outlives a collected turn, which the functions of the session may refer to.
    const reference = new WeakRef(this.#checks);
    return { check, number, remove: () => void reference.deref()?.delete(number) };
  }

  #call(job: HandlerCall, context: JobContext): unknown {
    const { tracing } = this;
    const run = job.inTurn ? callServing : call;
    if (!tracing || job.span === undefined) return run(job, this.#functions, this.#checks, context);
    return tracing.within(job.span, () => run(job, this.#functions, this.#checks, context));
  }

  #failed(job: HandlerCall, thrown: unknown): JobOutcome {
    if (job.kind === "stderr") {
      log.observerFailed("stderr", thrown, this.#hasStderrFailed);
      this.#hasStderrFailed = true;
    }
    return failed(job, thrown);
  }

  /**
   * Runs one handler, and calls `done` with its answer or failure; at once if the handler returns no promise. Not an
   * asynchronous function, because promises are slow while an `AsyncLocalStorage` is in use.
   */
  run(job: HandlerCall, context: JobContext, done: (outcome: JobOutcome) => void): void {
    const scope = job.inTurn ? this.#turn : this.#session;
    let answer: unknown;
    let pending: Promise<unknown> | undefined;
    try {
      answer = scope.runInAsyncScope(this.#call, this, job, context);
      if (isThenable(answer)) pending = Promise.resolve(answer);
    } catch (thrown) {
      done(this.#failed(job, thrown));
      return;
    }
    if (pending === undefined) {
      done(answered(job, answer));
      return;
    }
    const onAnswer = (value: unknown): void => {
      done(answered(job, value));
    };
    const onFailure = (thrown: unknown): void => {
      done(this.#failed(job, thrown));
    };
    // A promise of the program can have a `then` of its own.
    try {
      void Promise.prototype.then.call(pending, onAnswer, onFailure);
    } catch (thrown) {
      onFailure(thrown);
    }
  }
}
