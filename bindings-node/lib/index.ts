/// <reference lib="esnext.disposable" preserve="true" />

/**
 * Drive the Kimi CLI agent from a program: sessions, streamed turns, approvals and tools of your own.
 *
 * @packageDocumentation
 */

export { Agent, openAgent, type SessionInfo } from "./agent.js";
export {
  AgentExited,
  AuthExpired,
  type ErrorCode,
  EventBufferFull,
  HandshakeError,
  InvalidOption,
  KimiAgentError,
  LlmNotSet,
  LlmNotSupported,
  LlmServiceError,
  MaxStepsReached,
  NoActiveTurn,
  ProtocolError,
  RpcError,
  SessionClosed,
  SpawnError,
  Timeout,
  TurnCancelled,
  TurnInProgress,
  Unsupported,
} from "./errors.js";
export { type Logger, type LogRecord, setLogger } from "./log.js";
export type { LogLevel } from "./native.js";
export {
  type AgentOptions,
  type ApprovalAnswer,
  type ApprovalHandler,
  Block,
  block,
  type HandlerContext,
  Hook,
  hook,
  type HookAnswer,
  type HookDefinition,
  type HookHandler,
  type QuestionAnswer,
  type QuestionHandler,
  Reject,
  reject,
  type SessionOptions,
} from "./options.js";
export { printable } from "./printable.js";
export type { Step } from "./reader.js";
export type { RequestReference } from "./requests.js";
export { type Capabilities, type CloseOptions, createSession, prompt, type PromptOptions, Session } from "./session.js";
export {
  type ExternalTool,
  type JsonSchema,
  type StandardSchema,
  tool,
  type ToolArguments,
  type ToolOutcome,
} from "./tool.js";
export {
  type HandlerFailure,
  type PromptContent,
  PromptResult,
  type RejectedApproval,
  Replay,
  type ToolCallRecord,
  Turn,
  type TurnStatus,
} from "./turn.js";
export type * from "./wire.js";
