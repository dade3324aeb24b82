/** Errors of the addon: its calls throw public errors. */

import type { NativeError } from "./addon.js";
import { type CallSite, raisedAt } from "./call-site.js";
import { KimiAgentError } from "./error-base.js";
import {
  AgentExited,
  AnswerRefused,
  AnswerTruncated,
  BudgetExceeded,
  EventBufferFull,
  HandshakeError,
  InvalidOption,
  OutputInvalid,
  ProtocolError,
  SessionClosed,
  SpawnError,
  Timeout,
  Unsupported,
} from "./errors.js";
import { parseMessages } from "./parse.js";
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
