/** The classes of errors. Each has a stable `code`, the same in every language of the SDK. */

import type { NativeError } from "./addon.js";

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
  | "turn_cancelled"
  | "max_steps_reached";

/** The codes of errors that come as an agent's answer to a call. */
export type RpcErrorCode =
  | "rpc_error"
  | "turn_in_progress"
  | "no_active_turn"
  | "llm_not_set"
  | "llm_not_supported"
  | "llm_service_error"
  | "auth_expired";

/** The base of all errors of this package. */
export class KimiAgentError extends Error {
  /** The stable name of the error: unlike the message, it does not change between releases or languages. */
  readonly code: ErrorCode = "internal_error";
  /**
   * Whether the same call can succeed later without a change: the model is overloaded or limits the rate, the agent
   * exited, a deadline was exceeded, or another turn was running.
   */
  readonly retryable: boolean = false;
}

/** An option is wrong or unknown; nothing was started. */
export class InvalidOption extends KimiAgentError {
  override readonly code = "invalid_option";
  /** The option's name, as it is written in Node. */
  readonly option: string;
  constructor(option: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.option = option;
  }
}

/** The agent could not be started. */
export class SpawnError extends KimiAgentError {
  override readonly code = "spawn_error";
}

/** The agent did not open the session, or speaks no protocol that this SDK knows. */
export class HandshakeError extends KimiAgentError {
  override readonly code = "handshake_error";
}

/** The agent's process ended while the session was open or opening. */
export class AgentExited extends KimiAgentError {
  override readonly code = "agent_exited";
  override readonly retryable: boolean = true;
  /** The exit code; null when a signal ended the process or nobody knows. */
  readonly exitCode: number | null;
  /** The signal that ended the process, such as `"SIGKILL"`. */
  readonly signal: string | null;
  /** The end of what the agent wrote to stderr. */
  readonly stderr: string;
  constructor(message: string, exitCode: number | null = null, signal: string | null = null, stderr = "") {
    super(message);
    this.exitCode = exitCode;
    this.signal = signal;
    this.stderr = stderr;
  }
}

/** The agent violated the protocol, for example with an oversized line. The session is closed. */
export class ProtocolError extends KimiAgentError {
  override readonly code = "protocol_error";
}

/** The agent cannot do this. */
export class Unsupported extends KimiAgentError {
  override readonly code = "unsupported";
}

/** The session is closed. */
export class SessionClosed extends KimiAgentError {
  override readonly code = "session_closed";
}

/** A deadline was exceeded. */
export class Timeout extends KimiAgentError {
  override readonly code = "timeout";
  override readonly retryable: boolean = true;
}

/**
 * A call from inside the reader's own loop waited behind more unread events than may be kept; or a session that shares its
 * process left too much unread while others went on, and is over.
 */
export class EventBufferFull extends KimiAgentError {
  override readonly code = "event_buffer_full";
}

/** The agent answered a call with an error. */
export class RpcError extends KimiAgentError {
  override readonly code: RpcErrorCode = "rpc_error";
  /**
   * The number in the agent's answer, which differs between dialects; `code` does not. Null if the SDK raises the error
   * itself, without asking the agent.
   */
  readonly rpcCode: number | null;
  /** What the agent attached to its error. */
  readonly data: unknown;
  /** What to do about it, if the SDK knows; `message` ends with it. */
  readonly hint: string | null;
  constructor(message: string, rpcCode: number | null = null, data: unknown = null, hint: string | null = null) {
    super(hint === null ? message : `${message}; ${hint}`);
    this.rpcCode = rpcCode;
    this.data = data;
    this.hint = hint;
  }
}

/** A turn is running in this session, or waits for the handler that called. */
export class TurnInProgress extends RpcError {
  override readonly code = "turn_in_progress";
  override readonly retryable: boolean = true;
}

/** No turn is running in this session. */
export class NoActiveTurn extends RpcError {
  override readonly code = "no_active_turn";
}

/** The agent has no model configured. */
export class LlmNotSet extends RpcError {
  override readonly code = "llm_not_set";
}

/** The agent cannot use the configured model. */
export class LlmNotSupported extends RpcError {
  override readonly code = "llm_not_supported";
}

/** The model's service failed or refused the request. */
export class LlmServiceError extends RpcError {
  override readonly code = "llm_service_error";
  override readonly retryable: boolean = true;
}

/** The login of the agent has expired. */
export class AuthExpired extends RpcError {
  override readonly code = "auth_expired";
}

/** From `result.raiseForStatus()`: the turn was cancelled. */
export class TurnCancelled extends KimiAgentError {
  override readonly code = "turn_cancelled";
}

/** From `result.raiseForStatus()`: the turn was ended by its limit of steps. */
export class MaxStepsReached extends KimiAgentError {
  override readonly code = "max_steps_reached";
  /** How many steps there were, if the agent said so. */
  readonly steps: number | null;
  constructor(message: string, steps: number | null = null) {
    super(message);
    this.steps = steps;
  }
}

// Not `constructor.name`, which minifiers change.
const NAMED = {
  KimiAgentError,
  InvalidOption,
  SpawnError,
  HandshakeError,
  AgentExited,
  ProtocolError,
  Unsupported,
  SessionClosed,
  Timeout,
  EventBufferFull,
  RpcError,
  TurnInProgress,
  NoActiveTurn,
  LlmNotSet,
  LlmNotSupported,
  LlmServiceError,
  AuthExpired,
  TurnCancelled,
  MaxStepsReached,
};
for (const [name, { prototype }] of Object.entries(NAMED)) prototype.name = name;

/**
 * All classes of errors that this package raises. Their `code` tells them apart: after
 * {@link isKimiAgentError}, `switch (error.code)` narrows to the class.
 */
export type AnyKimiAgentError =
  | (KimiAgentError & { readonly code: "internal_error" })
  | InvalidOption
  | SpawnError
  | HandshakeError
  | AgentExited
  | ProtocolError
  | Unsupported
  | SessionClosed
  | Timeout
  | EventBufferFull
  | (RpcError & { readonly code: "rpc_error" })
  | TurnInProgress
  | NoActiveTurn
  | LlmNotSet
  | LlmNotSupported
  | LlmServiceError
  | AuthExpired
  | TurnCancelled
  | MaxStepsReached;

/**
 * Returns whether a value is an error of this package. TypeScript then narrows it by its `code`.
 *
 * @param error - What a call threw.
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
} as const;

function has<T extends object>(table: T, key: string): key is keyof T & string {
  return Object.hasOwn(table, key);
}

/** Makes the public error of an error of the addon. */
export function publicError(native: NativeError): KimiAgentError {
  const error = withoutRetryable(native);
  const { retryable } = native;
  return retryable === error.retryable ? error : Object.assign(error, { retryable });
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
  return new KimiAgentError(code === "internal_error" ? message : `${code}: ${message}`);
}

/** Calls the addon. Throws its error as the public error, with the stack of `site` if that is given. */
export function callNative<T>(call: () => T, site: CallSite = {}): T {
  try {
    return call();
  } catch (thrown) {
    const native = thrown instanceof Error && (thrown as { native?: NativeError }).native;
    throw native ? raisedAt(publicError(native), site) : thrown;
  }
}

/** The place of a call in the program, for an error that occurs later. */
export interface CallSite {
  readonly stack?: unknown;
}

/** Remembers the caller. The text of the stack is made only if it is read. */
export function callSite(): CallSite {
  const site: CallSite = {};
  Error.captureStackTrace(site, callSite);
  return site;
}

/** Gives an error the stack of the call that failed. */
export function raisedAt<E extends Error>(error: E, { stack }: CallSite): E {
  const frames = typeof stack === "string" ? stack.indexOf("\n    at ") : -1;
  if (frames === -1) return error;
  const own = error.stack ?? "";
  const end = own.indexOf("\n    at ");
  error.stack = (end === -1 ? own : own.slice(0, end)) + (stack as string).slice(frames);
  return error;
}
