/** The classes of errors that an agent has answered to a call. */

import { KimiAgentError, type RpcErrorCode } from "./error-base.js";

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
