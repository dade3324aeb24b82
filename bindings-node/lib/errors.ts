/** The classes of errors. Each has a stable `code`, the same in every language of the SDK. */

import type { NativeError } from "./addon.js";
import type { BudgetCounter } from "./budget.js";
import { ERRORS_PAGE } from "./errors-page.js";
import type { OutputError } from "./output.js";
import { parseMessages } from "./parse.js";
import { PromptResult, type ResultFields } from "./result.js";

/** The stable name of an error. */
export type ErrorCode =
  | "internal_error"
  | "invalid_option"
  | "spawn_error"
  | "handshake_error"
  | "agent_exited"
  | "protocol_error"
  | "unsupported"
  | "session_closed"
  | "timeout"
  | "event_buffer_full"
  | "rpc_error"
  | "turn_in_progress"
  | "no_active_turn"
  | "llm_not_set"
  | "llm_not_supported"
  | "llm_service_error"
  | "auth_expired"
  | "context_too_long"
  | "turn_cancelled"
  | "max_steps_reached"
  | "answer_truncated"
  | "answer_refused"
  | "budget_exceeded"
  | "output_invalid";

/** The codes of errors that come as an agent's answer to a call. */
export type RpcErrorCode =
  | "rpc_error"
  | "turn_in_progress"
  | "no_active_turn"
  | "llm_not_set"
  | "llm_not_supported"
  | "llm_service_error"
  | "auth_expired"
  | "context_too_long";

/**
 * The base of all errors of this package.
 *
 * @example
 * ```ts
 * try {
 *   await session.prompt("Fix the failing test.").result();
 * } catch (error) {
 *   if (!(error instanceof KimiAgentError)) throw error;
 *   console.error(error.code, error.message, error.retryable ? "Try again later." : "");
 * }
 * ```
 */
export class KimiAgentError extends Error {
  /** The stable name of the error: unlike the message, it does not change between releases or languages. */
  readonly code: ErrorCode = "internal_error";
  /**
   * Whether the same call can succeed later without a change: the model is overloaded or limits the rate, the agent
   * exited, a deadline was exceeded, or another turn was running.
   */
  readonly retryable: boolean = false;
  /** What the turn had produced, if the error ended a turn: its text, its tool calls and its tokens. */
  declare readonly result?: PromptResult;
  /** The address of the documentation of this kind of error: its causes, what to check, and remedies. */
  declare readonly help: string;

  /**
   * Makes the error, for tests of a program.
   *
   * @param message - The problem. Default: empty.
   * @param options - `cause`: the error behind this one. Default: none.
   */
  constructor(message?: string, options?: { cause?: unknown }) {
    super(message, options);
    // An own property, which Node prints behind the stack.
    Object.assign(this, { help: this.help });
  }
}

/**
 * An option is wrong or unknown; nothing was started.
 *
 * @example
 * ```ts
 * try {
 *   await createSession({ workDir: process.argv[2] });
 * } catch (error) {
 *   if (!(error instanceof InvalidOption)) throw error;
 *   console.error(`wrong option ${error.option}: ${error.message}`);
 * }
 * ```
 */
export class InvalidOption extends KimiAgentError {
  override readonly code = "invalid_option";
  /** The option's name, as it is written in Node. */
  readonly option: string;

  /**
   * Makes the error, for tests of a program.
   *
   * @param option - The name of the option.
   * @param message - The problem, and what was expected.
   * @param options - `cause`: the error behind this one. Default: none.
   */
  constructor(option: string, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.option = option;
  }
}

/**
 * The agent could not be started.
 *
 * @example
 * ```ts
 * try {
 *   await createSession({ executable: "kimi" });
 * } catch (error) {
 *   if (!(error instanceof SpawnError)) throw error;
 *   console.error("Install the agent, or set KIMI_AGENT_EXECUTABLE:", error.message);
 * }
 * ```
 */
export class SpawnError extends KimiAgentError {
  override readonly code = "spawn_error";
}

/**
 * The agent did not open the session, or speaks no protocol that this SDK knows.
 *
 * @example
 * ```ts
 * try {
 *   await createSession();
 * } catch (error) {
 *   if (!(error instanceof HandshakeError)) throw error;
 *   console.error("This agent cannot be used:", error.message);
 * }
 * ```
 */
export class HandshakeError extends KimiAgentError {
  override readonly code = "handshake_error";
}

/**
 * The agent's process ended while the session was open or opening.
 *
 * @example
 * ```ts
 * try {
 *   await session.prompt("Fix the failing test.").result();
 * } catch (error) {
 *   if (!(error instanceof AgentExited)) throw error;
 *   console.error(error.exitCode ?? error.signal, error.stderr);
 * }
 * ```
 */
export class AgentExited extends KimiAgentError {
  override readonly code = "agent_exited";
  override readonly retryable: boolean = true;
  /** The exit code; null if a signal ended the process, or if the system does not report it. */
  readonly exitCode: number | null;
  /** The signal that ended the process, such as `"SIGKILL"`. */
  readonly signal: string | null;
  /** The end of what the agent wrote to stderr. */
  readonly stderr: string;

  /**
   * Makes the error, for tests of a program.
   *
   * @param message - The description of the end.
   * @param exitCode - The exit code. Default: null.
   * @param signal - The name of the signal. Default: null.
   * @param stderr - The end of what the agent wrote to stderr. Default: empty.
   */
  constructor(message: string, exitCode: number | null = null, signal: string | null = null, stderr = "") {
    super(message);
    this.exitCode = exitCode;
    this.signal = signal;
    this.stderr = stderr;
  }
}

/**
 * The agent violated the protocol, for example with an oversized line. The session is closed.
 *
 * @example
 * ```ts
 * try {
 *   await session.prompt("Fix the failing test.").result();
 * } catch (error) {
 *   if (!(error instanceof ProtocolError)) throw error;
 *   console.error("A new session is needed:", error.message);
 * }
 * ```
 */
export class ProtocolError extends KimiAgentError {
  override readonly code = "protocol_error";
}

/**
 * The agent cannot do this.
 *
 * @example
 * ```ts
 * try {
 *   await session.undo();
 * } catch (error) {
 *   if (!(error instanceof Unsupported)) throw error;
 *   console.error("This agent cannot undo turns.");
 * }
 * ```
 */
export class Unsupported extends KimiAgentError {
  override readonly code = "unsupported";
}

/**
 * The session is closed.
 *
 * @example
 * ```ts
 * let open = session;
 * try {
 *   await open.prompt("Go on.").result();
 * } catch (error) {
 *   if (!(error instanceof SessionClosed)) throw error;
 *   open = await createSession({ sessionId: session.id, workDir: session.workDir });
 * }
 * ```
 */
export class SessionClosed extends KimiAgentError {
  override readonly code = "session_closed";
}

/**
 * A deadline was exceeded.
 *
 * @example
 * ```ts
 * try {
 *   await session.prompt("Fix the failing test.", { timeout: 60_000 }).result();
 * } catch (error) {
 *   if (!(error instanceof Timeout)) throw error;
 *   console.error("It took longer than a minute.");
 * }
 * ```
 */
export class Timeout extends KimiAgentError {
  override readonly code = "timeout";
  override readonly retryable: boolean = true;
}

/**
 * The buffer of unread events is full. A call inside the loop over a turn waits for an answer behind too many unread events, or
 * a session that shares its process leaves too many events unread. The shared session is then closed.
 *
 * @example
 * ```ts
 * try {
 *   await session.prompt("Fix the failing test.").result();
 * } catch (error) {
 *   if (!(error instanceof EventBufferFull)) throw error;
 *   console.error("Read the events faster, or raise eventBufferBytes:", error.message);
 * }
 * ```
 */
export class EventBufferFull extends KimiAgentError {
  override readonly code = "event_buffer_full";
}

/**
 * The agent answered a call with an error.
 *
 * @example
 * ```ts
 * try {
 *   await session.prompt("Fix the failing test.").result();
 * } catch (error) {
 *   if (!(error instanceof RpcError)) throw error;
 *   console.error(error.code, error.rpcCode, error.data);
 * }
 * ```
 */
export class RpcError extends KimiAgentError {
  override readonly code: RpcErrorCode = "rpc_error";
  /**
   * The number in the agent's answer, which differs between dialects; `code` does not. Null if the SDK raises the error
   * itself, without asking the agent.
   */
  readonly rpcCode: number | null;
  /** The data that the agent attached to its error. */
  readonly data: unknown;
  /** A hint for the solution, if the SDK has one; `message` ends with it. */
  readonly hint: string | null;

  /**
   * Makes the error, for tests of a program.
   *
   * @param message - The message, without the hint.
   * @param rpcCode - The number in the agent's answer. Default: null.
   * @param data - The data that the agent attached. Default: null.
   * @param hint - The hint, which is appended to the message. Default: null.
   */
  constructor(message: string, rpcCode: number | null = null, data: unknown = null, hint: string | null = null) {
    super(hint === null ? message : `${message}; ${hint}`);
    this.rpcCode = rpcCode;
    this.data = data;
    this.hint = hint;
  }
}

/**
 * Another turn of this session runs, or a handler waits for the turn that waits for this handler.
 *
 * @example
 * ```ts
 * const first = session.prompt("Fix the failing test.");
 * try {
 *   await session.prompt("Update the changelog.").result();
 * } catch (error) {
 *   if (!(error instanceof TurnInProgress)) throw error;
 *   await first.result();
 * }
 * ```
 */
export class TurnInProgress extends RpcError {
  override readonly code = "turn_in_progress";
  override readonly retryable: boolean = true;
}

/**
 * No turn is running in this session.
 *
 * @example
 * ```ts
 * try {
 *   await turn.steer("Leave the tests as they are.");
 * } catch (error) {
 *   if (!(error instanceof NoActiveTurn)) throw error;
 *   await session.prompt("Leave the tests as they are.").result();
 * }
 * ```
 */
export class NoActiveTurn extends RpcError {
  override readonly code = "no_active_turn";
}

/**
 * The agent has no login and no model, or kimi-cli does not know the name in `model`.
 *
 * @example
 * ```ts
 * try {
 *   await session.prompt("Fix the failing test.").result();
 * } catch (error) {
 *   if (!(error instanceof LlmNotSet)) throw error;
 *   console.error("Log in, or choose a model in the configuration:", error.hint);
 * }
 * ```
 */
export class LlmNotSet extends RpcError {
  override readonly code = "llm_not_set";
}

/**
 * The model lacks an ability that the prompt needs, for example to read images.
 *
 * @example
 * ```ts
 * try {
 *   await session.prompt("Fix the failing test.").result();
 * } catch (error) {
 *   if (!(error instanceof LlmNotSupported)) throw error;
 *   console.error("Choose another model:", error.message);
 * }
 * ```
 */
export class LlmNotSupported extends RpcError {
  override readonly code = "llm_not_supported";
}

/** An error of the model's service. */
abstract class ServiceError extends RpcError {
  /** The HTTP status of the service, if the agent reports it. */
  readonly status: number | null = null;
  /** The milliseconds that the service asks to wait before the next attempt, if the agent reports it. */
  readonly retryAfter: number | null = null;
}

/**
 * The model's service failed or refused the request. `retryable` after the HTTP status 408, 409, 429 or any from 500 on, after
 * a lost connection, and if the service is overloaded.
 *
 * @example
 * ```ts
 * try {
 *   await session.prompt("Fix the failing test.").result();
 * } catch (error) {
 *   if (!(error instanceof LlmServiceError)) throw error;
 *   if (error.retryable) await session.prompt("Go on.").result();
 * }
 * ```
 */
export class LlmServiceError extends ServiceError {
  /** The stable name of the error. */
  override readonly code = "llm_service_error";
  override readonly retryable: boolean = true;
}

/**
 * The prompt and the conversation exceed the context window of the model.
 *
 * @example
 * ```ts
 * try {
 *   await session.prompt("Fix the failing test.").result();
 * } catch (error) {
 *   if (!(error instanceof ContextTooLong)) throw error;
 *   console.error("Continue in a new session:", error.message);
 * }
 * ```
 */
export class ContextTooLong extends ServiceError {
  /** The stable name of the error. */
  override readonly code = "context_too_long";
}

/** A way to log in that an agent of ACP offers. */
export interface AuthMethod {
  /** The id. The option `auth` takes it. */
  readonly id: string;
  /** The name, for people. */
  readonly name: string;
  /** The description, if the agent sends one. */
  readonly description: string | null;
  /** `agent` if the agent logs in itself, `terminal` if a person logs in at a terminal, `env_var` if the agent needs variables. */
  readonly kind: string;
}

/**
 * The agent's login has expired or is missing, or the model's service refuses its key.
 *
 * @example
 * ```ts
 * try {
 *   await session.prompt("Fix the failing test.").result();
 * } catch (error) {
 *   if (!(error instanceof AuthExpired)) throw error;
 *   console.error("Log in again:", error.hint);
 * }
 * ```
 */
export class AuthExpired extends ServiceError {
  /** The stable name of the error. */
  override readonly code = "auth_expired";
  /** The ways to log in that the agent offers. Empty if it lists none, as agents of Wire do. */
  readonly methods: readonly AuthMethod[] = [];
}

/**
 * From `result.raiseForStatus()`: the turn was cancelled.
 *
 * @example
 * ```ts
 * const result = await turn.result();
 * try {
 *   console.log(result.raiseForStatus().text);
 * } catch (error) {
 *   if (!(error instanceof TurnCancelled)) throw error;
 *   console.log("cancelled:", error.cause);
 * }
 * ```
 */
export class TurnCancelled extends KimiAgentError {
  override readonly code = "turn_cancelled";
}

/**
 * From `result.raiseForStatus()`: the turn was ended by its limit of steps.
 *
 * @example
 * ```ts
 * const result = await turn.result();
 * try {
 *   console.log(result.raiseForStatus().text);
 * } catch (error) {
 *   if (!(error instanceof MaxStepsReached)) throw error;
 *   await session.prompt("Go on.").result();
 * }
 * ```
 */
export class MaxStepsReached extends KimiAgentError {
  override readonly code = "max_steps_reached";
  /** How many steps there were, if the agent said so. */
  readonly steps: number | null;

  /**
   * Makes the error, for tests of a program.
   *
   * @param message - The message.
   * @param steps - The number of steps. Default: null.
   */
  constructor(message: string, steps: number | null = null) {
    super(message);
    this.steps = steps;
  }
}

/**
 * From `result.raiseForStatus()`: the answer ends at the model's limit of tokens.
 *
 * @example
 * ```ts
 * const result = await turn.result();
 * try {
 *   console.log(result.raiseForStatus().text);
 * } catch (error) {
 *   if (!(error instanceof AnswerTruncated)) throw error;
 *   console.log("cut:", error.result?.text);
 * }
 * ```
 */
export class AnswerTruncated extends KimiAgentError {
  override readonly code = "answer_truncated";
}

/**
 * From `result.raiseForStatus()`: the model, its provider or a hook of the agent refused to answer.
 *
 * @example
 * ```ts
 * const result = await turn.result();
 * try {
 *   console.log(result.raiseForStatus().text);
 * } catch (error) {
 *   if (!(error instanceof AnswerRefused)) throw error;
 *   console.log("refused");
 * }
 * ```
 */
export class AnswerRefused extends KimiAgentError {
  override readonly code = "answer_refused";
}

/** The result of a turn in which nothing happened. */
const NOTHING: ResultFields = {
  status: "cancelled",
  steps: 0,
  text: "",
  usage: { input_other: 0, output: 0, input_cache_read: 0, input_cache_creation: 0 },
  tool_calls: [],
  rejected: [],
  handler_failures: [],
};

/**
 * The turn, or all turns of its session, used more than a budget allows. The turn is cancelled.
 *
 * @example
 * ```ts
 * try {
 *   await session.prompt("Fix the failing test.", { budget: { tokens: 200_000, steps: 30 } }).result();
 * } catch (error) {
 *   if (!(error instanceof BudgetExceeded)) throw error;
 *   console.error(`${error.used} of ${error.limit} ${error.counter}:`, error.result.text);
 * }
 * ```
 */
export class BudgetExceeded extends KimiAgentError {
  override readonly code = "budget_exceeded";
  /** The option with the limit. After `"sessionBudget"` every further prompt of the session fails, too. */
  readonly option: "budget" | "sessionBudget";
  /** The name of the limit. */
  readonly counter: BudgetCounter;
  /** The limit. */
  readonly limit: number;
  /** The amount that was used. */
  readonly used: number;
  /** The result of the turn up to its end: its tool calls, its tokens, and the last text that it said. */
  override readonly result: PromptResult;

  /**
   * Makes the error, for tests of a program.
   *
   * @param message - The message.
   * @param fields - The properties. Default: a budget of no tokens, and an empty result.
   */
  constructor(message: string, fields: Partial<Pick<BudgetExceeded, "option" | "counter" | "limit" | "used" | "result">> = {}) {
    super(message);
    this.option = fields.option ?? "budget";
    this.counter = fields.counter ?? "tokens";
    this.limit = fields.limit ?? 0;
    this.used = fields.used ?? 0;
    this.result = fields.result ?? new PromptResult(NOTHING);
  }
}

/**
 * The turn has no valid value for its `output`, after all attempts. If the check of the schema threw an error, that is the
 * `cause` of the error from `result()`.
 *
 * @example
 * ```ts
 * const review = z.object({ approved: z.boolean() });
 * try {
 *   await session.prompt("Review the last commit", { output: review }).result();
 * } catch (error) {
 *   if (!(error instanceof OutputInvalid)) throw error;
 *   for (const { pointer, message } of error.errors) console.error(pointer, message);
 *   console.error(`${error.attempts} attempts; the last one was: ${error.text}`);
 * }
 * ```
 */
export class OutputInvalid extends KimiAgentError {
  override readonly code = "output_invalid";
  /** How many values were invalid or missing. */
  readonly attempts: number;
  /** The last attempt: the text of the answer, or the arguments of the call. Above 64 KiB it is cut. */
  readonly text: string;
  /** The violations of the last attempt, at most 20. */
  readonly errors: readonly OutputError[];
  /** The result of the turn up to its end: its tool calls, its tokens, and the last text that it said. */
  override readonly result: PromptResult;

  /**
   * Makes the error, for tests of a program.
   *
   * @param message - The message.
   * @param fields - The properties. Default: no attempt, and an empty result.
   */
  constructor(message: string, fields: Partial<Pick<OutputInvalid, "attempts" | "text" | "errors" | "result">> = {}) {
    super(message);
    this.attempts = fields.attempts ?? 0;
    this.text = fields.text ?? "";
    this.errors = fields.errors ?? [];
    this.result = fields.result ?? new PromptResult(NOTHING);
  }
}

// Not `constructor.name`, which minifiers change.
const CLASSES: Readonly<Record<ErrorCode, readonly [name: string, { readonly prototype: KimiAgentError }]>> = {
  internal_error: ["KimiAgentError", KimiAgentError],
  invalid_option: ["InvalidOption", InvalidOption],
  spawn_error: ["SpawnError", SpawnError],
  handshake_error: ["HandshakeError", HandshakeError],
  agent_exited: ["AgentExited", AgentExited],
  protocol_error: ["ProtocolError", ProtocolError],
  unsupported: ["Unsupported", Unsupported],
  session_closed: ["SessionClosed", SessionClosed],
  timeout: ["Timeout", Timeout],
  event_buffer_full: ["EventBufferFull", EventBufferFull],
  rpc_error: ["RpcError", RpcError],
  turn_in_progress: ["TurnInProgress", TurnInProgress],
  no_active_turn: ["NoActiveTurn", NoActiveTurn],
  llm_not_set: ["LlmNotSet", LlmNotSet],
  llm_not_supported: ["LlmNotSupported", LlmNotSupported],
  llm_service_error: ["LlmServiceError", LlmServiceError],
  auth_expired: ["AuthExpired", AuthExpired],
  context_too_long: ["ContextTooLong", ContextTooLong],
  turn_cancelled: ["TurnCancelled", TurnCancelled],
  max_steps_reached: ["MaxStepsReached", MaxStepsReached],
  answer_truncated: ["AnswerTruncated", AnswerTruncated],
  answer_refused: ["AnswerRefused", AnswerRefused],
  budget_exceeded: ["BudgetExceeded", BudgetExceeded],
  output_invalid: ["OutputInvalid", OutputInvalid],
};
for (const [code, [name, { prototype }]] of Object.entries(CLASSES)) {
  Object.assign(prototype, { name, help: `${ERRORS_PAGE}#${code}` });
}

/**
 * All classes of errors that this package raises. Their `code` tells them apart: after
 * {@link isKimiAgentError}, `switch (error.code)` narrows to the class.
 */
export type AnyKimiAgentError =
  | (KimiAgentError & {
      /** The stable name of an error of the SDK itself. */
      readonly code: "internal_error";
    })
  | InvalidOption
  | SpawnError
  | HandshakeError
  | AgentExited
  | ProtocolError
  | Unsupported
  | SessionClosed
  | Timeout
  | EventBufferFull
  | (RpcError & {
      /** The stable name of an answer that has no class of its own. */
      readonly code: "rpc_error";
    })
  | TurnInProgress
  | NoActiveTurn
  | LlmNotSet
  | LlmNotSupported
  | LlmServiceError
  | AuthExpired
  | ContextTooLong
  | TurnCancelled
  | MaxStepsReached
  | AnswerTruncated
  | AnswerRefused
  | BudgetExceeded
  | OutputInvalid;

/**
 * Returns whether a value is an error of this package. TypeScript then narrows it by its `code`.
 *
 * @param error - The value that a call threw.
 * @returns Whether the value is an error of this package.
 *
 * @example
 * ```ts
 * try {
 *   await session.prompt("Hello").result();
 * } catch (error) {
 *   if (isKimiAgentError(error) && error.code === "agent_exited") console.error(error.exitCode, error.stderr);
 *   else throw error;
 * }
 * ```
 */
export function isKimiAgentError(error: unknown): error is AnyKimiAgentError {
  return error instanceof KimiAgentError;
}

const WITH_MESSAGE = {
  spawn_error: SpawnError,
  handshake_error: HandshakeError,
  protocol_error: ProtocolError,
  unsupported: Unsupported,
  session_closed: SessionClosed,
  timeout: Timeout,
  event_buffer_full: EventBufferFull,
} as const;

const ANSWERS = {
  rpc_error: RpcError,
  turn_in_progress: TurnInProgress,
  no_active_turn: NoActiveTurn,
  llm_not_set: LlmNotSet,
  llm_not_supported: LlmNotSupported,
  llm_service_error: LlmServiceError,
  auth_expired: AuthExpired,
  context_too_long: ContextTooLong,
} as const;

function has<T extends object>(table: T, key: string): key is keyof T & string {
  return Object.hasOwn(table, key);
}

/** Makes the public error of an error of the addon. */
export function publicError(native: NativeError): KimiAgentError {
  const error = withoutRetryable(native);
  const { retryable, status, retryAfter, methodsJson, resultJson } = native;
  const more: Record<string, unknown> = {};
  if (retryable !== error.retryable) more["retryable"] = retryable;
  if (status !== undefined) more["status"] = status;
  if (retryAfter !== undefined) more["retryAfter"] = retryAfter * 1000;
  if (methodsJson !== undefined) more["methods"] = JSON.parse(methodsJson);
  if (resultJson !== undefined) more["result"] = new PromptResult(parseMessages(resultJson) as ResultFields);
  return Object.assign(error, more);
}

function withoutRetryable(native: NativeError): KimiAgentError {
  const { code, message, data } = native;
  if (has(WITH_MESSAGE, code)) return new WITH_MESSAGE[code](message);
  if (has(ANSWERS, code)) {
    const attached: unknown = data === undefined ? null : JSON.parse(data);
    return new ANSWERS[code](message, native.rpcCode, attached, native.hint);
  }
  if (code === "invalid_option") return new InvalidOption(native.option ?? "", message);
  if (code === "agent_exited") return new AgentExited(message, native.exitCode, native.signal, native.stderr);
  if (code === "answer_truncated") return new AnswerTruncated(message);
  if (code === "answer_refused") return new AnswerRefused(message);
  if (code === "budget_exceeded") return budgetExceeded(native);
  if (code === "output_invalid") return outputInvalid(native);
  return new KimiAgentError(code === "internal_error" ? message : `${code}: ${message}`);
}

function budgetExceeded({ message, option, budget }: NativeError): BudgetExceeded {
  if (budget === undefined) return new BudgetExceeded(message);
  const { counter, limit, used, resultJson } = budget;
  const result = new PromptResult(parseMessages(resultJson) as ResultFields);
  const properties = { option, counter, limit, used, result } as Partial<BudgetExceeded>;
  return new BudgetExceeded(message, properties);
}

function outputInvalid({ message, output }: NativeError): OutputInvalid {
  if (output === undefined) return new OutputInvalid(message);
  const { attempts, text, errors, resultJson } = output;
  const result = new PromptResult(parseMessages(resultJson) as ResultFields);
  return new OutputInvalid(message, { attempts, text, errors, result });
}

/** A call of the addon that panicked: napi-rs makes a plain error of it. */
function panicOf(thrown: unknown): NativeError | undefined {
  if (typeof thrown !== "object" || thrown === null) return undefined;
  const { code, message } = thrown as { code?: unknown; message?: unknown };
  if (code !== "GenericFailure") return undefined;
  const text = `internal error: a call panicked: ${String(message)}; this is a defect of kimi-agent, please report it`;
  return { code: "internal_error", message: text, retryable: false };
}

/** Calls the addon. Throws its error as the public error, with the stack of `site` if that is given. */
export function callNative<T>(call: () => T, site?: CallSite): T {
  try {
    return call();
  } catch (thrown) {
    // Not `instanceof`: the addon's errors are of the main realm, and tests may run in another one.
    const native = typeof thrown === "object" && thrown !== null ? (thrown as { native?: NativeError }).native : undefined;
    const raised = native ?? panicOf(thrown);
    if (raised === undefined) throw thrown;
    throw raisedAt(publicError(raised), site);
  }
}

type AnyFunction = ((...args: never[]) => unknown) | (new (...args: never[]) => unknown);

/** A function or class of the public interface, or an object and the name of its method. Its callers are the program. */
export type Entry = AnyFunction | readonly [object: object, method: string];

function functionOf(entry: Entry): AnyFunction | undefined {
  if (typeof entry === "function") return entry;
  const [object, method] = entry;
  return (object as Partial<Record<string, AnyFunction>>)[method];
}

/** The place of a call in the program, for an error that occurs later: that error, without its class and its text. */
export type CallSite = Error;

/** Whether the text of a stack is written when it is read, as V8 does it. Other engines write it when it is captured. */
const WRITES_LATE = ((): boolean => {
  const error = new Error();
  Error.captureStackTrace(error);
  error.message = "late";
  return error.stack?.startsWith("Error: late") ?? false;
})();

/** The errors that have the stack of the program's call. */
const placed = new WeakSet<Error>();

/** Remembers the caller of a public function. The text of the stack is made only if it is read. */
export function callSite(entry: Entry): CallSite {
  const site = new Error();
  Error.captureStackTrace(site, functionOf(entry));
  return site;
}

/**
 * Returns the error with the stack of a call. The place of the call becomes the error: Node shows the line of the program only
 * for an error that was made there.
 */
export function raisedAt<E>(error: E, site: CallSite | undefined): E {
  if (!(error instanceof KimiAgentError) || site === undefined || placed.has(error) || placed.has(site)) return error;
  const { stack: _, ...properties } = Object.getOwnPropertyDescriptors(error);
  const made = Object.defineProperties(Object.setPrototypeOf(site, Object.getPrototypeOf(error) as object) as typeof error, properties);
  placed.add(made);
  // Not read elsewhere: once the text exists, Node does not find the line of the program any more.
  if (!WRITES_LATE) made.stack = `${made.name}: ${made.message}${/\n {4}at [^]*/.exec(made.stack ?? "")?.[0] ?? ""}`;
  return made;
}

/** Calls the body of a public function. Its errors have the stack of the caller. */
export function atCaller<T>(entry: Entry, body: () => T): T {
  try {
    return body();
  } catch (error) {
    if (error instanceof KimiAgentError && !placed.has(error)) {
      placed.add(error);
      Error.captureStackTrace(error, functionOf(entry));
    }
    throw error;
  }
}

/** Calls the body of a public asynchronous function. Its errors have the stack of the caller. */
export async function laterAtCaller<T>(entry: Entry, body: () => Promise<T>): Promise<T> {
  const site = callSite(entry);
  try {
    return await body();
  } catch (error) {
    throw raisedAt(error, site);
  }
}
