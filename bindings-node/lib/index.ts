/// <reference lib="esnext.disposable" preserve="true" />

/**
 * Drive coding agents such as Kimi Code from Node: sessions, streamed turns, approvals, tools.
 *
 * @module kimi-agent
 */

export { Agent, openAgent, type SessionInfo } from "./agent.js";
export { Batch, type Job, JobResult, type JobSource, type JobStatus, type Progress, type Retry, runBatch } from "./batch.js";
export { type ErrorCode, KimiAgentError, type RpcErrorCode } from "./error-base.js";
export {
  AgentExited,
  type AnyKimiAgentError,
  BudgetExceeded,
  EventBufferFull,
  HandshakeError,
  InvalidOption,
  isKimiAgentError,
  AnswerRefused,
  AnswerTruncated,
  MaxStepsReached,
  OutputInvalid,
  ProtocolError,
  SessionClosed,
  SpawnError,
  Timeout,
  TurnCancelled,
  Unsupported,
} from "./errors.js";
export {
  AuthExpired,
  type AuthMethod,
  LlmNotSet,
  LlmNotSupported,
  LlmServiceError,
  ContextTooLong,
  NoActiveTurn,
  RpcError,
  TurnInProgress,
} from "./rpc-errors.js";
export type { Budget, BudgetCounter, Price, Prices } from "./budget.js";
export { file, image, resource, type ResourceContent, type UserInput } from "./content.js";
export { Policy, type PolicyDecisionKind, type PolicyPreset, type PolicyRules, type PolicyVerdict } from "./policy.js";
export {
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
  type ReadFileHandler,
  Reject,
  reject,
  type TerminalHandler,
  type TerminalOutcome,
  type ToolContext,
  type WriteFileHandler,
} from "./handler-types.js";
export { type Logger, type LogLevel, type LogRecord, setLogger } from "./log.js";
export type { RequestReference, Usage } from "./messages.js";
export type { AgentOptions, AgentSessionOptions, BatchOptions, JobSettings, SessionOptions } from "./option-types.js";
export {
  type Output,
  output,
  type OutputError,
  type OutputOf,
  type OutputOfPrompt,
  type OutputOptions,
  type OutputSchema,
} from "./output.js";
export {
  container,
  prefix,
  remote,
  sandbox,
  ssh,
  type ContainerOptions,
  type Place,
  type PrefixOptions,
  type RemoteOptions,
  type SandboxOptions,
  type SshOptions,
} from "./place.js";
export { files, terminals, type Files, type FilesOptions, type TerminalsOptions } from "./local.js";
export { printable } from "./printable.js";
export type { Step } from "./reader.js";
export type { WireVersion } from "./script.js";
export {
  type Capabilities,
  type CloseOptions,
  type ConfigChoice,
  type ConfigOption,
  createSession,
  prompt,
  type PromptOptions,
  Session,
} from "./session.js";
export type { MeterSource, TelemetryOptions, TracerSource } from "./telemetry-types.js";
export { type ExternalTool, tool, type ToolArguments, type ToolDefinition, type ToolDescription, type ToolOutcome } from "./tool.js";
export type { AnyObject, JsonSchema, StandardSchema } from "./tool-schema.js";
export { type HandlerFailure, PromptResult, type RejectedApproval, type ToolCallRecord, type TurnStatus } from "./result.js";
export { Replay, Turn } from "./turn.js";
export type * from "./wire.js";
