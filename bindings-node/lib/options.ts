/** The options of sessions and agents, and what handlers may answer. */

import type { Callbacks } from "./addon.js";
import { objectJson, optionJson, show, wrongOption } from "./arguments.js";
import { callNative } from "./errors.js";
import { loadNative } from "./native.js";
import type { AgentOptions, AgentSessionOptions, SessionOptions } from "./option-types.js";
import type { WireVersion } from "./script.js";
import { checkDefinition, type ExternalTool, isStandardSchema, tool } from "./tool.js";
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

export type { AgentOptions, AgentSessionOptions, SessionOptions };

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
