/** The handlers of a session: what they are called with, and what they may answer. */

import { kindOf, reading, show, wrongOption } from "./arguments.js";
import { atCaller } from "./call-site.js";
import type { WireVersion } from "./script.js";
import { isPlain } from "./values.js";
import type {
  ApprovalRequest,
  HookRequest,
  QuestionRequest,
  ReadFileRequest,
  TerminalRequest,
  TerminalResult,
  WriteFileRequest,
} from "./wire.js";

/** The second argument of a handler. */
export interface HandlerContext {
  /** Aborted when the answer is not needed any more: the turn ended, or the handler's time is over. */
  readonly signal: AbortSignal;
}

/** The second argument of a tool's handler. Its members may be destructured. */
export interface ToolContext extends HandlerContext {
  /** The ID of the call, as its `ToolCallRequest` has it. */
  readonly callId: string;
  /**
   * Reports how far the call is. Returns immediately.
   *
   * Agents that speak ACP get the report as MCP progress if they ask for it. Over Wire nothing is sent, because this protocol
   * has no progress of tools. A newer report replaces one that is not sent yet; the last report is sent before the result.
   *
   * @param fraction - The part that is done, from 0 to 1. Other numbers are clamped. Default: the last one.
   * @param message - A text for people. Default: none. An argument of a wrong type throws a `TypeError`.
   *
   * @example
   * ```ts
   * const index = tool({
   *   name: "index",
   *   description: "Indexes the files.",
   *   parameters: z.object({}),
   *   handler: (_, { progress }) => {
   *     progress(0.5, "half of the files");
   *     return "indexed";
   *   },
   * });
   * ```
   */
  readonly progress: (fraction?: number | null, message?: string | null) => void;
}

/**
 * Rejects an approval request with feedback. The model reads it and continues.
 *
 * Needs `capabilities.approvalFeedback`. Other agents, for example Kimi Code over ACP, only get the rejection. With kimi-cli, a
 * plain `"reject"` ends the turn.
 *
 * @example
 * ```ts
 * const session = await createSession({ onApproval: () => new Reject("Use git instead.") });
 * ```
 */
export class Reject {
  /** The text that the model reads. */
  readonly feedback: string;

  /**
   * Makes a rejection.
   *
   * @param feedback - The text that the model reads.
   * @throws {InvalidOption} if it is not a text.
   */
  constructor(feedback: string) {
    atCaller(Reject, () => {
      checkFeedback(feedback);
    });
    this.feedback = feedback;
  }
}

/**
 * Returns `new Reject(feedback)`, an answer to an approval request.
 *
 * @param feedback - The text that the model reads.
 * @returns The answer.
 * @throws {InvalidOption} if it is not a text.
 *
 * @example
 * ```ts
 * const session = await createSession({ onApproval: () => reject("ask me again tomorrow") });
 * ```
 */
export function reject(feedback: string): Reject {
  atCaller(reject, () => {
    checkFeedback(feedback);
  });
  return new Reject(feedback);
}

function checkFeedback(given: unknown): void {
  if (typeof given === "string") return;
  throw wrongOption("feedback", `a Reject needs the text that the model reads, got ${show(given)}; to reject without a text, answer "reject"`);
}

/**
 * The decision of a hook to block what it was called for.
 *
 * @example
 * ```ts
 * const noShell = hook({ event: "PreToolUse", matcher: "Shell", handler: () => new Block("There is no shell here.") });
 * const session = await createSession({ hooks: [noShell] });
 * ```
 */
export class Block {
  /** The reason, which the model reads. */
  readonly reason: string;

  /**
   * Makes the decision.
   *
   * @param reason - The reason, which the model reads. Default: empty.
   */
  constructor(reason = "") {
    this.reason = reason;
  }
}

/**
 * Returns `new Block(reason)`, an answer of a hook.
 *
 * @param reason - The reason, which the model reads. Default: empty.
 * @returns The decision.
 *
 * @example
 * ```ts
 * const noShell = hook({ event: "PreToolUse", matcher: "Shell", handler: () => block("There is no shell here.") });
 * ```
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

/**
 * Answers an approval request. It gets the request and a context. If it throws, the request is rejected, and the turn gets a
 * `HandlerFailed` event.
 */
export type ApprovalHandler = (request: ApprovalRequest, context: HandlerContext) => MaybePromise<ApprovalAnswer>;

/** Answers questions of the agent. It gets the request and a context. If it throws, the questions are dismissed. */
export type QuestionHandler = (
  request: QuestionRequest,
  context: HandlerContext,
  // eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- a function that returns nothing dismisses
) => MaybePromise<QuestionAnswer | void>;

/** Decides for a hook. It gets the request and a context. If it throws, `onError` of the hook decides. */
export type HookHandler = (
  request: HookRequest,
  context: HandlerContext,
  // eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- a function that returns nothing allows
) => MaybePromise<HookAnswer | void>;

/**
 * Reads a file for the agent: returns the whole text, of which the SDK cuts out the lines that the agent wants. Null, undefined
 * and an error with the code `ENOENT` report that the file does not exist.
 */
export type ReadFileHandler = (
  request: ReadFileRequest,
  context: HandlerContext,
) => MaybePromise<string | null | undefined>;

/** Writes a file for the agent. The result is ignored. */
export type WriteFileHandler = (request: WriteFileRequest, context: HandlerContext) => unknown;

/** The outcome of a command. */
export type TerminalOutcome = Pick<TerminalResult, "output" | "exit_code" | "signal">;

/** Runs a command for the agent. The signal of the context is aborted if the agent kills the command. */
export type TerminalHandler = (
  request: TerminalRequest,
  context: HandlerContext,
) => MaybePromise<TerminalOutcome>;

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
export type Dialect = "auto" | "acp" | "kimi-web" | "legacy" | WireVersion;

/** A hook: a function that the agent calls before or after an action, such as a tool call. */
export interface HookDefinition {
  /** When the hook is called. An event that the agent does not know fails the opening with {@link Unsupported}. */
  event: HookEvent;
  /**
   * A regular expression for what the event is about: the tool's name, or the prompt's text. A text has Python's syntax, and so
   * has the source of a `RegExp`. Default: everything.
   */
  matcher?: string | RegExp | undefined;
  /** Returns `"allow"` or nothing to allow, or a {@link Block}. */
  handler: HookHandler;
  /** How long the handler may take, in milliseconds. Default: 30,000. */
  timeout?: number | undefined;
  /** The decision if the handler throws, returns something else or takes too long. Default: `"allow"`. */
  onError?: "allow" | "block" | undefined;
}

/**
 * A hook as an object. A plain {@link HookDefinition} has the same effect.
 *
 * @example
 * ```ts
 * const log = new Hook({ event: "PostToolUse", handler: ({ target }) => console.log("called", target) });
 * const session = await createSession({ hooks: [log] });
 * ```
 */
export class Hook implements HookDefinition {
  /** When the hook is called. */
  readonly event: HookEvent;
  /** A regular expression, in Python's syntax, for what the event is about. Undefined for everything. */
  readonly matcher: string | RegExp | undefined;
  /** The function that decides. */
  readonly handler: HookHandler;
  /** How long the handler may take, in milliseconds. Undefined for 30,000. */
  readonly timeout: number | undefined;
  /** The decision if the handler fails or takes too long. Undefined for `"allow"`. */
  readonly onError: "allow" | "block" | undefined;

  /**
   * Makes a hook.
   *
   * @param definition - The event, the handler, and how the handler is called.
   */
  constructor(definition: HookDefinition) {
    atCaller(new.target, () => {
      checkHook(definition);
    });
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
 * @param definition - The event, the handler, and how the handler is called.
 * @returns The hook.
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
  return atCaller(hook, () => {
    checkHook(definition);
    return new Hook(definition);
  });
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

/** Checks the keys of a hook, and that it has an event and a handler. The core checks the values. `place` is the place in a list. */
export function checkHook(given: unknown, place?: string): void {
  reading("hooks", () => {
    if (typeof given !== "object" || given === null || !(given instanceof Hook || isPlain(given)) || Array.isArray(given)) {
      throw wrongOption("hooks", `${place === undefined ? "" : `${place}: `}expected a hook, an object with event and handler; got ${kindOf(given)}`);
    }
    const { event, handler } = given as Partial<HookDefinition>;
    const what = typeof event === "string" ? `the hook on \`${event}\`` : (place ?? "a hook");
    const unknown = Object.entries(given).find(([key, value]) => value !== undefined && !HOOK_KEYS.includes(key))?.[0];
    if (unknown !== undefined) {
      const meant = FOREIGN_HOOK_KEYS[unknown];
      const hint = meant === undefined ? `expected only ${HOOK_KEYS.join(", ")}` : `did you mean \`${meant}\`?`;
      throw wrongOption("hooks", `${what} has an unknown key \`${unknown}\`; ${hint}`);
    }
    if (typeof event !== "string") throw wrongOption("hooks", `${what} needs an \`event\`, such as "PreToolUse"; got ${kindOf(event)}`);
    if (typeof handler !== "function") throw wrongOption("hooks", `the handler of \`${event}\` is not a function; got ${kindOf(handler)}`);
  });
}
