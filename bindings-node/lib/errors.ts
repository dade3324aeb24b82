/** The classes of errors. Each has a stable `code`, the same in every language of the SDK. */

import type { BudgetCounter } from "./budget.js";
import { type ErrorCode, KimiAgentError } from "./error-base.js";
import { ERRORS_PAGE } from "./errors-page.js";
import type { OutputError } from "./output.js";
import { PromptResult, type ResultFields } from "./result.js";
import {
  AuthExpired,
  ContextTooLong,
  LlmNotSet,
  LlmNotSupported,
  LlmServiceError,
  NoActiveTurn,
  RpcError,
  TurnInProgress,
} from "./rpc-errors.js";

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
