/// <reference lib="esnext.disposable" preserve="true" />

/**
 * Drive Kimi Code and kimi-cli from a program: sessions, streamed turns, approvals and tools of your own.
 *
 * @packageDocumentation
 */

export { Agent, openAgent, type SessionInfo } from "./agent.js";
export {
  AgentExited,
  type AnyKimiAgentError,
  AuthExpired,
  type ErrorCode,
  EventBufferFull,
  HandshakeError,
  InvalidOption,
  isKimiAgentError,
  KimiAgentError,
  LlmNotSet,
  LlmNotSupported,
  LlmServiceError,
  MaxStepsReached,
  NoActiveTurn,
  ProtocolError,
  RpcError,
  type RpcErrorCode,
  SessionClosed,
  SpawnError,
  Timeout,
  TurnCancelled,
  TurnInProgress,
  Unsupported,
} from "./errors.js";
export { image, type UserInput } from "./content.js";
export { type Logger, type LogLevel, type LogRecord, setLogger } from "./log.js";
export {
  type AgentOptions,
  type AgentSessionOptions,
  type ApprovalAnswer,
  type ApprovalHandler,
  Block,
  block,
  type Dialect,
  type HandlerContext,
  Hook,
  hook,
  type HookAnswer,
  type HookDefinition,
  type HookEvent,
  type HookHandler,
  type QuestionAnswer,
  type QuestionHandler,
  Reject,
  reject,
  type SessionOptions,
} from "./options.js";
export type { RequestReference, Usage } from "./messages.js";
export { printable } from "./printable.js";
export type { Step } from "./reader.js";
export type { WireVersion } from "./script.js";
export { type Capabilities, type CloseOptions, createSession, prompt, type PromptOptions, Session } from "./session.js";
export {
  type AnyObject,
  type ExternalTool,
  type JsonSchema,
  type StandardSchema,
  tool,
  type ToolArguments,
  type ToolDescription,
  type ToolOutcome,
} from "./tool.js";
export {
  type HandlerFailure,
  PromptResult,
  type RejectedApproval,
  Replay,
  type ToolCallRecord,
  Turn,
  type TurnStatus,
} from "./turn.js";
export type * from "./wire.js";
