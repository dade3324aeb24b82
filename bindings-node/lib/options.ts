/** The options of sessions and agents, and what handlers may answer. */

import type { Callbacks } from "./addon.js";
import { objectJson, optionJson, show, wrongOption } from "./arguments.js";
import { callNative } from "./errors.js";
import { loadNative } from "./native.js";
import type { WireVersion } from "./script.js";
import { type AnyObject, checkDefinition, type ExternalTool, isStandardSchema, tool } from "./tool.js";
import type {
  ApprovalRequest,
  Event,
  HookRequest,
  JsonObject,
  QuestionRequest,
} from "./wire.js";

/** The second argument of a handler. */
export interface HandlerContext {
  /** Aborted when the answer is not needed any more: the turn ended, or the handler's time is over. */
  readonly signal: AbortSignal;
}

/** A rejection with feedback to the model, which then continues. A plain `"reject"` ends the turn. */
export class Reject {
  /** The text that the model reads. */
  readonly feedback: string;
  constructor(feedback: string) {
    this.feedback = feedback;
  }
}

/**
 * Returns `new Reject(feedback)`, an answer to an approval request.
 *
 * @param feedback - The text that the model reads.
 *
 * @example
 * ```ts
 * const session = await createSession({ onApproval: () => reject("ask me again tomorrow") });
 * ```
 */
export function reject(feedback: string): Reject {
  return new Reject(feedback);
}

/** The decision of a hook to block what it was called for. */
export class Block {
  /** The reason, which the model reads. */
  readonly reason: string;
  constructor(reason = "") {
    this.reason = reason;
  }
}

/**
 * Returns `new Block(reason)`, an answer of a hook.
 *
 * @param reason - The reason, which the model reads. Default: empty.
 */
export function block(reason?: string): Block {
  return new Block(reason);
}

/** An answer to an approval request. */
export type ApprovalAnswer = "approve" | "approve_for_session" | "reject" | Reject;

/** The answers to questions, by the text of the question. Null and undefined dismiss the questions. */
export type QuestionAnswer = Readonly<Record<string, string | readonly string[]>> | null | undefined;

/** The decision of a hook. Null and undefined allow. */
export type HookAnswer = "allow" | Block | null | undefined;

type MaybePromise<T> = T | Promise<T>;

/** Answers an approval request. */
export type ApprovalHandler = (request: ApprovalRequest, context: HandlerContext) => MaybePromise<ApprovalAnswer>;

/** Answers questions of the agent. */
export type QuestionHandler = (
  request: QuestionRequest,
  context: HandlerContext,
  // eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- a function that returns nothing dismisses
) => MaybePromise<QuestionAnswer | void>;

/** Decides for a hook. */
export type HookHandler = (
  request: HookRequest,
  context: HandlerContext,
  // eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- a function that returns nothing allows
) => MaybePromise<HookAnswer | void>;

/** The events that hooks can be set on. `session.capabilities.hooks` lists those that the agent knows. */
export type HookEvent =
  | "PreToolUse"
  | "PostToolUse"
  | "PostToolUseFailure"
  | "UserPromptSubmit"
  | "Stop"
  | "StopFailure"
  | "SessionStart"
  | "SessionEnd"
  | "SubagentStart"
  | "SubagentStop"
  | "PreCompact"
  | "PostCompact"
  | "Notification";

/** A value of the option `dialect`: a protocol, or a version of Wire. */
export type Dialect = "auto" | "acp" | "legacy" | WireVersion;

/** A hook: a function that the agent calls before or after an action, such as a tool call. */
export interface HookDefinition {
  /** When the hook is called. An event that the agent does not know fails the opening with {@link Unsupported}. */
  event: HookEvent;
  /**
   * A regular expression, in Python's syntax, for what the event is about: the tool's name, or the prompt's text. Default:
   * everything.
   */
  matcher?: string | undefined;
  /** Returns `"allow"` or nothing to allow, or a {@link Block}. */
  handler: HookHandler;
  /** How long the handler may take, in milliseconds. Default: 30,000. */
  timeout?: number | undefined;
  /** The decision if the handler throws, returns something else or takes too long. Default: `"allow"`. */
  onError?: "allow" | "block" | undefined;
}

/** A hook as an object. A plain {@link HookDefinition} has the same effect. */
export class Hook implements HookDefinition {
  readonly event: HookEvent;
  readonly matcher: string | undefined;
  readonly handler: HookHandler;
  readonly timeout: number | undefined;
  readonly onError: "allow" | "block" | undefined;
  constructor(definition: HookDefinition) {
    this.event = definition.event;
    this.matcher = definition.matcher;
    this.handler = definition.handler;
    this.timeout = definition.timeout;
    this.onError = definition.onError;
  }
}

/**
 * Returns `new Hook(definition)`, for the option `hooks`.
 *
 * @param definition - The event, and the handler that decides.
 *
 * @example
 * ```ts
 * const noDeletes = hook({
 *   event: "PreToolUse",
 *   matcher: "Shell",
 *   handler: ({ input_data }) => (JSON.stringify(input_data).includes("rm ") ? block("nothing is deleted here") : "allow"),
 * });
 * ```
 */
export function hook(definition: HookDefinition): Hook {
  return new Hook(definition);
}

/**
 * The options of {@link createSession} and of the one-shot {@link prompt}. An option that is not set, or `undefined`, is not
 * passed on to the agent, so that the agent's own configuration decides. All times are in milliseconds, all sizes in bytes.
 */
export interface SessionOptions {
  /** The directory that the agent works in. Default: the current directory. */
  workDir?: string | undefined;
  /**
   * The id of the conversation to resume, or the name of a new one: letters, digits, `.`, `_` and `-`. Default: a new
   * conversation with a random id.
   */
  sessionId?: string | undefined;
  /** The model's name in the agent's configuration. Default: the agent's default model. */
  model?: string | undefined;
  /** Whether the model thinks before it answers. Default: as the agent is configured. */
  thinking?: boolean | undefined;
  /** Whether everything is approved without asking. Default: `false`. */
  yolo?: boolean | undefined;
  /** The path of a configuration file: JSON if its name ends with `.json`, else TOML. Default: the user's own file. */
  configFile?: string | undefined;
  /**
   * The agent's configuration itself, not together with `configFile`. It may hold keys: it travels in a private file.
   * Default: none.
   */
  config?: AnyObject | undefined;
  /**
   * The agent: the path or name of a program, or a list of it and its first arguments. Default: `$KIMI_AGENT_EXECUTABLE`,
   * then `kimi` on PATH.
   */
  executable?: string | readonly string[] | undefined;
  /** Environment variables for the agent, in addition to those of this process. Default: none. */
  env?: Readonly<Record<string, string | undefined>> | undefined;
  /**
   * Configurations of MCP servers, each `{ mcpServers: { … } }`. They may hold keys: they travel in private files.
   * Default: the user's own.
   */
  mcpConfigs?: readonly AnyObject[] | undefined;
  /** The path of an agent specification. Default: the agent's default one. */
  agentFile?: string | undefined;
  /** The path of a directory with skills. Default: the agent's own directories. */
  skillsDir?: string | undefined;
  /** Tools of this program that the model can call; see {@link tool}. Default: none. */
  tools?: readonly ExternalTool[] | undefined;
  /** How many steps a turn may take, at least 1. Default: as the agent is configured. */
  maxStepsPerTurn?: number | undefined;
  /** How often a step may ask the model's service, the first attempt included; at least 1. Default: as the agent is configured. */
  maxRetriesPerStep?: number | undefined;
  /**
   * Answers approval requests. With `"manual"`, the reader of the events answers through `turn.respond`, or
   * `session.respond` outside a turn. Default: every request is rejected, or approved with `yolo`.
   */
  onApproval?: ApprovalHandler | "manual" | undefined;
  /** Answers the agent's questions; `"manual"` as for `onApproval`. Default: the agent cannot ask. */
  onQuestion?: QuestionHandler | "manual" | undefined;
  /** Functions that the agent calls before or after an action. Default: none. */
  hooks?: readonly HookDefinition[] | undefined;
  /** Gets the events that come while no turn is running, one after the other. Default: they are dropped. */
  onEvent?: ((event: Event, context: HandlerContext) => unknown) | undefined;
  /** Gets the lines that the agent writes to stderr. Default: the last lines are kept for errors. */
  onStderr?: ((line: string, context: HandlerContext) => unknown) | undefined;
  /** The name of this program, for the agent. Default: `"kimi-agent"`. */
  clientName?: string | undefined;
  /** The version of this program, for the agent. Default: the version of this package. */
  clientVersion?: string | undefined;
  /** Further command-line arguments for the agent, after all others. Default: none. */
  extraArgs?: readonly string[] | undefined;
  /** The protocol to speak. Default: `"auto"`, which finds out. */
  dialect?: Dialect | undefined;
  /**
   * How long the agent may take to start and answer, in milliseconds; also to answer `steer()` and `setPlanMode()`, and to be
   * silent in a `replay()`. Default: 60,000.
   */
  handshakeTimeout?: number | undefined;
  /** How long a cancelled turn may take to end, in milliseconds, before the SDK ends it. Default: 10,000. */
  cancelTimeout?: number | undefined;
  /**
   * How long the agent may take to exit when the session closes, in milliseconds, before it gets TERM, and KILL two seconds
   * later. Default: 10,000.
   */
  closeTimeout?: number | undefined;
  /** How long a turn may be silent, in milliseconds, while the agent does not wait for this program. Default: no limit. */
  idleTimeout?: number | undefined;
  /** How long a turn may take, in milliseconds. Default: no limit. */
  turnTimeout?: number | undefined;
  /** The longest line that the agent may send, in bytes; at least 1024. Default: 268,435,456 (256 MiB). */
  maxLineBytes?: number | undefined;
  /** How many bytes of unread events of a turn are kept before the agent has to wait; at least 1024. Default: 262,144 (256 KiB). */
  eventBufferBytes?: number | undefined;
  /**
   * Gives up the opening when it is aborted: the signal's reason is thrown, and the agent is ended. It has no effect on an open
   * session. The one-shot {@link prompt} is cancelled by it at any time. Default: none.
   */
  signal?: AbortSignal | undefined;
}

/** The options that belong to an agent's process, which its sessions share. */
type ProcessOption = "executable" | "env" | "extraArgs" | "dialect" | "onStderr" | "clientName" | "clientVersion";

/**
 * The options of {@link openAgent}. No process is started before the first session, so `signal` gives up the agent until its
 * first session is open. Sessions have a signal and timeouts of their own.
 */
export type AgentOptions = Pick<SessionOptions, ProcessOption | "handshakeTimeout" | "closeTimeout" | "signal">;

/** The options of a session of an {@link Agent}: all but those of its process. */
export type AgentSessionOptions = Omit<SessionOptions, ProcessOption>;

/** The functions among the options. */
export interface HandlerFunctions {
  approval?: ApprovalHandler;
  question?: QuestionHandler;
  event?: (event: Event, context: HandlerContext) => unknown;
  stderr?: (line: string, context: HandlerContext) => unknown;
  tools: readonly ExternalTool[];
  hooks: readonly HookDefinition[];
}

/** Options as the addon takes them, and the functions that stay here. */
export interface PreparedOptions {
  optionsJson: string;
  callbacks: Callbacks;
  functions: HandlerFunctions;
}

/** The types of values that have no form as JSON. */
const HAVE_NO_JSON = new Set(["function", "symbol", "bigint"]);

/** Divides options into data and functions. The core checks the data. */
export function prepareOptions(options: SessionOptions): PreparedOptions {
  const native = loadNative();
  callNative(() => {
    native.checkNames(Object.keys(options));
  });
  const functions: HandlerFunctions = { tools: [], hooks: [] };
  const data: string[] = [];
  for (const [name, value] of Object.entries(options) as [string, unknown][]) {
    if (value === undefined || takeFunction(name, value, functions)) continue;
    if (HAVE_NO_JSON.has(typeof value)) callNative(() => native.wrongType(name, show(value)));
    const json = (name === "tools" || name === "hooks") && Array.isArray(value) ? definitions(name, value, functions) : undefined;
    data.push(`${JSON.stringify(name)}:${json ?? optionJson(name, value)}`);
  }
  const callbacks = {
    onApproval: functions.approval !== undefined,
    onQuestion: functions.question !== undefined,
    onEvent: functions.event !== undefined,
    onStderr: functions.stderr !== undefined,
  };
  return { optionsJson: `{${data.join(",")}}`, callbacks, functions };
}

/** Takes a handler out of the options. Returns whether the value is one. */
function takeFunction(name: string, value: unknown, functions: HandlerFunctions): boolean {
  if (typeof value !== "function") return false;
  switch (name) {
    case "onApproval":
      functions.approval = value as ApprovalHandler;
      break;
    case "onQuestion":
      functions.question = value as QuestionHandler;
      break;
    case "onEvent":
      functions.event = value as NonNullable<SessionOptions["onEvent"]>;
      break;
    case "onStderr":
      functions.stderr = value as NonNullable<SessionOptions["onStderr"]>;
      break;
    default:
      return false;
  }
  checkParameters(name, value, "the function");
  return true;
}

/** Takes the handlers of tools or hooks out of the options. Returns the JSON of the rest. */
function definitions(name: "tools" | "hooks", items: readonly unknown[], functions: HandlerFunctions): string {
  const checked = items.map((item) => definition(name, item));
  if (name === "tools") functions.tools = checked as unknown as ExternalTool[];
  else functions.hooks = checked as unknown as HookDefinition[];
  return `[${checked.map(({ handler: _, ...rest }) => objectJson(rest, name)).join(",")}]`;
}

/** Refuses a handler with more parameters than the request and the context. */
function checkParameters(option: string, handler: object, what: string): void {
  const { length } = handler as { length: number };
  if (length <= 2) return;
  const reason = `${what} is called with two arguments, the request and a context, and takes ${String(length)}`;
  throw wrongOption(option, reason);
}

const HOOK_KEYS = ["event", "matcher", "handler", "timeout", "onError"];

/** Keys of hooks that other SDKs use, and their names here. */
const FOREIGN_HOOK_KEYS: Partial<Record<string, string>> = {
  callback: "handler",
  on_error: "onError",
  onerror: "onError",
  match: "matcher",
  pattern: "matcher",
  tool: "matcher",
};

function checkHookKeys(hook: JsonObject, name: string): void {
  const unknown = Object.keys(hook).find((key) => hook[key] !== undefined && !HOOK_KEYS.includes(key));
  if (unknown === undefined) return;
  const meant = FOREIGN_HOOK_KEYS[unknown];
  const hint = meant === undefined ? `expected only ${HOOK_KEYS.join(", ")}` : `did you mean \`${meant}\`?`;
  throw wrongOption("hooks", `the hook on \`${name}\` has an unknown key \`${unknown}\`; ${hint}`);
}

/** A tool or a hook. A tool that was written as a plain object may have a zod schema, too. */
function definition(option: string, item: unknown): JsonObject {
  if (option === "tools") checkDefinition(item);
  if (typeof item !== "object" || item === null) throw wrongOption(option, `there is ${String(item)} in it`);
  const given = item as JsonObject;
  const name = String(given["name"] ?? given["event"]);
  if (option === "hooks") checkHookKeys(given, name);
  if (typeof given["handler"] !== "function") throw wrongOption(option, `the handler of \`${name}\` is no function`);
  checkParameters(option, given["handler"], `the handler of \`${name}\``);
  const { parameters } = given;
  if (option !== "tools" || !isStandardSchema(parameters)) return given;
  const handler = given["handler"] as (args: unknown, context: HandlerContext) => unknown;
  return { ...tool({ ...(item as ExternalTool), parameters, handler }) };
}
