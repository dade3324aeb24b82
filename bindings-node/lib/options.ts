/** What a session can be opened with. */

import { InvalidOption, translated } from "./errors.js";
import { toJson } from "./json.js";
import { loadNative } from "./native.js";
import { show } from "./show.js";
import { checkDefinition, type ExternalTool, isStandardSchema, tool } from "./tool.js";
import type {
  ApprovalRequest,
  Event,
  HookRequest,
  JsonObject,
  QuestionRequest,
} from "./wire.js";

/** What a handler gets besides the request. */
export interface HandlerContext {
  /** Aborted when nobody waits for the handler any more: the turn ended, or its time is over. */
  readonly signal: AbortSignal;
}

/** A rejection with a word to the model, which then goes on; a plain `"reject"` ends the turn. */
export class Reject {
  /** What the model is told. */
  readonly feedback: string;
  constructor(feedback: string) {
    this.feedback = feedback;
  }
}

/** The same as `new Reject(feedback)`. */
export function reject(feedback: string): Reject {
  return new Reject(feedback);
}

/** A hook's no. */
export class Block {
  /** Why, for the model to read. */
  readonly reason: string;
  constructor(reason = "") {
    this.reason = reason;
  }
}

/** The same as `new Block(reason)`. */
export function block(reason?: string): Block {
  return new Block(reason);
}

/** How an approval request can be answered. */
export type ApprovalAnswer = "approve" | "approve_for_session" | "reject" | Reject;

/** How questions can be answered: by their texts. Nothing at all dismisses them. */
export type QuestionAnswer = Record<string, string | string[]> | null | undefined;

/** How a hook can decide. */
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

/** A hook: a function that the agent asks at a certain moment. */
export interface HookDefinition {
  /** The moment, such as `"PreToolUse"`; see `session.capabilities` for what the agent knows. */
  event: string;
  /** A regular expression for what the event is about (a tool's name); without one, everything. */
  matcher?: string | undefined;
  handler: HookHandler;
  /** For the handler's decision, in milliseconds. */
  timeout?: number | undefined;
  /** What a handler that throws, answers nonsense or takes too long stands for. The default is `"allow"`. */
  onError?: "allow" | "block" | undefined;
}

/** A hook as an object; a plain {@link HookDefinition} does as well. */
export class Hook implements HookDefinition {
  readonly event: string;
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

/** The same as `new Hook(definition)`. */
export function hook(definition: HookDefinition): Hook {
  return new Hook(definition);
}

/** The options of {@link createSession} and of the one-shot `prompt`. Only what is set is passed on to the agent. */
export interface SessionOptions {
  /** The directory that the agent works in. The default is the current one. */
  workDir?: string | undefined;
  /** The session to resume, or the name for a new one. */
  sessionId?: string | undefined;
  /** The model's name in the agent's configuration. */
  model?: string | undefined;
  /** Whether the model is to think before it answers. */
  thinking?: boolean | undefined;
  /** Approves whatever the agent asks. */
  yolo?: boolean | undefined;
  /** A configuration file for the agent. */
  configFile?: string | undefined;
  /** The agent's configuration itself. It may hold keys: it travels in a private file. */
  config?: JsonObject | undefined;
  /**
   * The agent: a path, or a list of a path and first arguments. The default is `$KIMI_AGENT_EXECUTABLE`, then `kimi` on
   * the PATH.
   */
  executable?: string | readonly string[] | undefined;
  /** Environment variables for the agent, on top of this process's. */
  env?: Readonly<Record<string, string | undefined>> | undefined;
  /** Configurations of MCP servers. They may hold keys: they travel in private files. */
  mcpConfigs?: readonly JsonObject[] | undefined;
  /** The file that describes the agent. */
  agentFile?: string | undefined;
  /** The directory with the agent's skills. */
  skillsDir?: string | undefined;
  /** Functions of this program that the model can call. */
  tools?: readonly ExternalTool[] | undefined;
  /** How many steps a turn may take. */
  maxStepsPerTurn?: number | undefined;
  /** How often a step is tried again when the model's provider fails. */
  maxRetriesPerStep?: number | undefined;
  /**
   * Answers approval requests. Without it, `yolo` approves and anything else is rejected. With `"manual"`, whoever reads
   * the events answers through `turn.respond`, or `session.respond` outside a turn.
   */
  onApproval?: ApprovalHandler | "manual" | undefined;
  /** Answers the agent's questions; `"manual"` as for `onApproval`. Without it, the agent is told not to ask. */
  onQuestion?: QuestionHandler | "manual" | undefined;
  /** Functions that the agent asks before or after it does something. */
  hooks?: readonly HookDefinition[] | undefined;
  /** Gets the events that come while no turn is running. */
  onEvent?: ((event: Event, context: HandlerContext) => unknown) | undefined;
  /** Gets what the agent writes to stderr, by line. */
  onStderr?: ((line: string, context: HandlerContext) => unknown) | undefined;
  /** The name of your program, which the agent is told. */
  clientName?: string | undefined;
  /** Its version. */
  clientVersion?: string | undefined;
  /** Further command-line arguments for the agent. */
  extraArgs?: readonly string[] | undefined;
  /** The protocol to speak. The default, `"auto"`, finds out. */
  dialect?: string | undefined;
  /** For the agent to start and answer, in milliseconds; also to answer `steer()` and `setPlanMode()`. */
  handshakeTimeout?: number | undefined;
  /** For a cancelled turn to end, in milliseconds; after that it is given up. */
  cancelTimeout?: number | undefined;
  /** For each stage of closing, in milliseconds, before the next and firmer one. */
  closeTimeout?: number | undefined;
  /** For silence in a turn, in milliseconds. Unlimited unless set. */
  idleTimeout?: number | undefined;
  /** For a whole turn, in milliseconds. Unlimited unless set. */
  turnTimeout?: number | undefined;
  /** The longest line that is accepted, in bytes. */
  maxLineBytes?: number | undefined;
  /** How many bytes of unread events are kept before the agent is made to wait. */
  eventBufferBytes?: number | undefined;
  /**
   * Gives up the opening when it is aborted: its reason is thrown, and the agent goes. Once the session is open, it does
   * nothing more. The one-shot `prompt` is cancelled by it from the beginning to the end, as a session's prompt is.
   */
  signal?: AbortSignal | undefined;
}

/**
 * The options of {@link openAgent}; everything else is an option of its sessions. Timeouts are the agent's own, and so is the
 * signal: an agent starts nothing before its first session, so there is little that it could give up.
 */
export type AgentOptions = Pick<
  SessionOptions,
  | "executable"
  | "env"
  | "extraArgs"
  | "dialect"
  | "onStderr"
  | "clientName"
  | "clientVersion"
  | "handshakeTimeout"
  | "closeTimeout"
  | "signal"
>;

/** The functions among the options, for the handlers to be called. */
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
  callbacksJson: string;
  functions: HandlerFunctions;
}

/** The names of the options whose values are functions, or hold some. */
const WITH_FUNCTIONS = new Set(["tools", "hooks", "onApproval", "onQuestion", "onEvent", "onStderr"]);

/** The types of values that have no form as JSON. */
const HAVE_NO_JSON = new Set(["function", "symbol", "bigint"]);

/** The error that an option's value is wrong. */
export function wrongOption(option: string, reason: string, options?: ErrorOptions): InvalidOption {
  return new InvalidOption(option, `invalid option \`${option}\`: ${reason}`, options);
}

/** The JSON of an option's value, or of another argument that the core judges by its name. */
export function json(option: string, value: unknown): string {
  // JSON would make null of them, and null means that the option is not set.
  if (typeof value === "number" && !Number.isFinite(value)) throw wrongOption(option, `${String(value)} is not finite`);
  try {
    return toJson(value);
  } catch (error) {
    throw wrongOption(option, String(error), { cause: error });
  }
}

/** Options that have no functions, as JSON. */
export function plainOptions(options: object): string {
  const given = Object.entries(options) as [string, unknown][];
  const set = given.filter(([, value]) => value !== undefined);
  return `{${set.map(([name, value]) => `${JSON.stringify(name)}:${json(name, value)}`).join(",")}}`;
}

/** The options of a call, which must be an object. */
export function checkedOptions<T extends object>(call: string, options: T): T {
  const given: unknown = options;
  if (typeof given === "object" && given !== null && !Array.isArray(given)) return options;
  throw wrongOption("options", `\`${call}\` expects an object of options, such as { workDir: "." }; got ${show(given)}`);
}

/** Divides options into data and functions. What is right and what is wrong with the data is for the core to say. */
export function prepareOptions(options: SessionOptions): PreparedOptions {
  const native = loadNative();
  translated(() => {
    native.checkNames(Object.keys(options));
  });
  const functions: HandlerFunctions = { tools: [], hooks: [] };
  const callbacks: string[] = [];
  const data: string[] = [];
  for (const [name, value] of Object.entries(options) as [string, unknown][]) {
    if (value === undefined) continue;
    const announced = WITH_FUNCTIONS.has(name) ? takeFunctions(name, value, functions) : undefined;
    if (announced) callbacks.push(announced);
    else if (HAVE_NO_JSON.has(typeof value)) translated(() => native.wrongType(name, show(value)));
    else data.push(`${JSON.stringify(name)}:${json(name, value)}`);
  }
  return { optionsJson: `{${data.join(",")}}`, callbacksJson: `{${callbacks.join(",")}}`, functions };
}

/** Takes the functions out of an option and says what the addon has to know of them; nothing if there are none. */
function takeFunctions(name: string, value: unknown, functions: HandlerFunctions): string | undefined {
  if (name === "tools" || name === "hooks") {
    if (!Array.isArray(value)) return undefined;
    const items = value.map((item: unknown) => definition(name, item));
    if (name === "tools") functions.tools = items as unknown as ExternalTool[];
    else functions.hooks = items as unknown as HookDefinition[];
    const described = items.map(({ handler: _, ...rest }) => `{${fields(name, rest)}}`);
    return `"${name}":[${described.join(",")}]`;
  }
  if (typeof value !== "function") return undefined;
  switch (name) {
    case "onApproval":
      functions.approval = value as ApprovalHandler;
      return '"on_approval":"handler"';
    case "onQuestion":
      functions.question = value as QuestionHandler;
      return '"on_question":"handler"';
    case "onEvent":
      functions.event = value as NonNullable<SessionOptions["onEvent"]>;
      return '"on_event":true';
    default:
      functions.stderr = value as NonNullable<SessionOptions["onStderr"]>;
      return '"on_stderr":true';
  }
}

/** A tool or a hook. A tool that was written as a plain object may have a zod schema, too. */
function definition(option: string, item: unknown): JsonObject {
  if (option === "tools") checkDefinition(item);
  if (typeof item !== "object" || item === null) throw wrongOption(option, `there is ${String(item)} in it`);
  const given = item as JsonObject;
  const name = String(given["name"] ?? given["event"]);
  if (typeof given["handler"] !== "function") throw wrongOption(option, `the handler of \`${name}\` is no function`);
  const { parameters } = given;
  if (option !== "tools" || !isStandardSchema(parameters)) return given;
  const handler = given["handler"] as (args: unknown, context: HandlerContext) => unknown;
  return { ...tool({ ...(item as ExternalTool), parameters, handler }) };
}

function fields(option: string, item: JsonObject): string {
  return Object.entries(item)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${JSON.stringify(name)}:${json(option, value)}`)
    .join(",");
}
