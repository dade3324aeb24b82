/** The base of the classes of errors, and their codes. */

import type { PromptResult } from "./result.js";

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
