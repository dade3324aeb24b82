/** Sessions: an agent's process, and the conversation with it. */

import "./dispose.js";

import type { NativeSession, Opening } from "./addon.js";
import { Bridge } from "./bridge.js";
import { callNative } from "./errors.js";
import { decisionJson, Handlers } from "./handlers.js";
import { FailedTurn, type TurnHandle } from "./failed-turn.js";
import {
  type ApprovalAnswer,
  checkedOptions,
  optionJson,
  plainOptions,
  type PreparedOptions,
  prepareOptions,
  type QuestionAnswer,
  type SessionOptions,
} from "./options.js";
import { requestReference, type RequestReference } from "./requests.js";
import { takeSignal, whenAborted } from "./signal.js";
import { contentJson, type PromptContent, Replay, Turn } from "./turn.js";
import { type Usage, withTotal } from "./usage.js";
import type { ExternalToolsResult, ServerInfo, SlashCommand, StatusUpdate, TokenUsage } from "./wire.js";

/** The options of one prompt; they override the session's. */
export interface PromptOptions {
  /** Cancels the turn when it is aborted. If it was aborted before, nothing is sent and the turn fails with its reason. */
  signal?: AbortSignal | undefined;
  /** Milliseconds that the turn may take; it is cancelled then, and fails with {@link Timeout}. Default: `turnTimeout`. */
  timeout?: number | undefined;
  /** Milliseconds that the agent may send nothing. Default: the session's `idleTimeout`. */
  idleTimeout?: number | undefined;
}

/** How something is closed. */
export interface CloseOptions {
  /** Milliseconds that the agent may take to exit; overrides `closeTimeout`. 0 kills it at once. */
  timeout?: number | undefined;
}

/** What the agent can do, by what it said and by the protocol that it speaks. */
export interface Capabilities {
  /** The program can offer tools. */
  externalTools: boolean;
  /** The agent can ask questions. */
  questions: boolean;
  /** A reject may carry feedback that the model sees. */
  approvalFeedback: boolean;
  /** A running turn can be steered. */
  steer: boolean;
  /** Plan mode can be switched. */
  planMode: boolean;
  /** A session's past can be replayed. */
  replay: boolean;
  /** The events that hooks can be set on; empty where there are none. */
  hooks: string[];
}

/** The agent that opens a session, unless the session has an agent of its own. */
export interface Origin {
  agent: object;
  open(options: PreparedOptions): Opening;
}

interface Remains {
  bridge: Bridge;
  native: NativeSession;
  /** A session keeps its agent from being collected, as this is kept as long as the session is there. */
  origin: object | undefined;
}

const collected = new FinalizationRegistry<Remains>(({ bridge, native }) => {
  bridge.removeSession(native.key);
  native.abandon();
});

/**
 * A session with an agent. Close it, or declare it with `await using`; a session that is collected takes its agent with
 * it. An open session in which nothing happens does not keep the process alive.
 */
export class Session implements AsyncDisposable {
  readonly #bridge: Bridge;
  readonly #native: NativeSession;
  readonly #handlers: Handlers;

  /** @internal */
  constructor(bridge: Bridge, native: NativeSession, handlers: Handlers, origin?: object) {
    this.#bridge = bridge;
    this.#native = native;
    this.#handlers = handlers;
    collected.register(this, { bridge, native, origin });
  }

  /** @internal */
  static async open(bridge: Bridge, { signal: given, ...options }: SessionOptions, origin?: Origin): Promise<Session> {
    const signal = takeSignal(given);
    const prepared = prepareOptions(options);
    const handlers = new Handlers(prepared.functions);
    const { session, ticket } = callNative(
      () =>
        origin?.open(prepared) ??
        bridge.module.NativeSession.open(bridge.native, prepared.optionsJson, prepared.callbacks),
    );
    bridge.addSession(session.key, handlers);
    const forget = whenAborted(signal, () => {
      session.abandon();
    });
    try {
      await bridge.run(() => ticket, handlers);
      // It may have been open already, though nobody had been told.
      signal?.throwIfAborted();
    } catch (error) {
      bridge.removeSession(session.key);
      // An opening that was given up fails as closed; the signal knows why.
      signal?.throwIfAborted();
      throw error;
    } finally {
      forget();
    }
    return new Session(bridge, session, handlers, origin);
  }

  /** The session's id, under which it can be resumed. */
  get id(): string {
    return this.#native.id;
  }

  /** The directory that the agent works in. */
  get workDir(): string {
    return this.#native.workDir;
  }

  /** Whether a turn is running, or none can be any more. */
  get state(): "idle" | "active" | "closed" {
    return this.#native.state;
  }

  /** The version of Wire that the agent speaks. */
  get protocolVersion(): string {
    return this.#native.protocolVersion;
  }

  /** The agent's process id. */
  get pid(): number | null {
    return this.#native.pid;
  }

  /** The agent's name and version; null for agents that do not introduce themselves. */
  get server(): ServerInfo | null {
    return JSON.parse(this.#native.serverJson()) as ServerInfo | null;
  }

  /** What the agent can do. */
  get capabilities(): Capabilities {
    return this.#native.capabilities() as Capabilities;
  }

  /**
   * Commands that a prompt may begin with. Agents of ACP tell them soon after the session has opened, and again when
   * they change; each time `onEvent` gets an `available_commands_update`.
   */
  get slashCommands(): SlashCommand[] {
    return JSON.parse(this.#native.slashCommandsJson()) as SlashCommand[];
  }

  /** Which of the program's tools the agent took, and why not the others. */
  get externalTools(): ExternalToolsResult {
    return JSON.parse(this.#native.externalToolsJson()) as ExternalToolsResult;
  }

  /** The tokens that the session has taken so far. */
  get usage(): Usage {
    return withTotal(JSON.parse(this.#native.usageJson()) as TokenUsage);
  }

  /** How things stand, all updates put together: context, plan mode, MCP servers. */
  get status(): StatusUpdate {
    return JSON.parse(this.#native.statusJson()) as StatusUpdate;
  }

  /**
   * Begins a turn, and returns at once. Never throws: whatever is wrong comes out of the turn, from a loop over it and from
   * `result()`. {@link TurnInProgress} while another turn runs, {@link InvalidOption} for wrong content or options, what
   * ended the session if it is closed.
   */
  prompt(content: PromptContent, options: PromptOptions = {}): Turn {
    return begin(this.#bridge, () => {
      const { signal: given, ...rest } = checkedOptions("prompt()", options);
      const signal = takeSignal(given);
      const native = callNative(() => this.#native.prompt(contentJson(content), plainOptions(rest)));
      this.#handlers.enterTurn();
      return { native, keep: [this, this.#handlers], signal };
    });
  }

  /**
   * Cancels the turn that runs, if there is one, and waits until it has ended: also a turn that was left and whose end is
   * still under way. Does nothing without a turn, or if the session is closed. Rejects with {@link Timeout} if the agent
   * does not answer within `cancelTimeout`; the session is over then.
   */
  async cancel(): Promise<void> {
    await this.#bridge.run(() => this.#native.cancel(), this);
  }

  /** The messages of the session so far, told again. */
  replay(): Replay {
    return new Replay(this.#bridge, callNative(() => this.#native.replay()), this);
  }

  /** Turns plan mode on or off. */
  async setPlanMode(on: boolean): Promise<void> {
    await this.#bridge.run(() => this.#native.setPlanMode(optionJson("on", on)), this);
  }

  /** Answers a request that came outside a turn, where `onApproval` or `onQuestion` is `"manual"`. */
  async respond(request: RequestReference, answer: ApprovalAnswer | QuestionAnswer): Promise<void> {
    await this.#bridge.run(() => this.#native.respond(...requestReference(request), decisionJson(answer)), this);
  }

  /**
   * Cancels what is running, ends the agent and waits until it is gone. Twice is fine. With `timeout: 0` the agent is killed
   * at once, and a turn that runs fails with {@link SessionClosed}.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const { timeout } = checkedOptions("close()", options);
    await this.#bridge.run(() => this.#native.close(optionJson("timeout", timeout ?? null)), this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Opens a session: starts an agent and waits until it is ready. */
export async function createSession(options: SessionOptions = {}): Promise<Session> {
  return Session.open(Bridge.get(), checkedOptions("createSession()", options));
}

/**
 * A turn in a session of its own, which is closed when the turn has ended. `timeout` is for the turn, without the start of
 * the agent. Never throws: whatever is wrong comes out of the turn, wrong options too.
 */
export function prompt(content: PromptContent, options: SessionOptions & PromptOptions = {}): Turn {
  return promptOnce(Bridge.get(), content, options);
}

/** @internal */
export function promptOnce(bridge: Bridge, content: PromptContent, options: SessionOptions & PromptOptions): Turn {
  return begin(bridge, () => {
    const { signal: given, timeout, ...rest } = checkedOptions("prompt()", options);
    const signal = takeSignal(given);
    const { optionsJson, callbacks, functions } = prepareOptions(rest);
    const handlers = new Handlers(functions);
    const promptJson = plainOptions({ timeout });
    const { turn, sessionKey } = callNative(() =>
      bridge.module.NativeSession.oneShot(bridge.native, contentJson(content), promptJson, optionsJson, callbacks),
    );
    bridge.addSession(sessionKey, handlers);
    return { native: turn, keep: [handlers], signal };
  });
}

interface Begun {
  native: TurnHandle;
  keep: readonly object[];
  signal: AbortSignal | undefined;
}

/** Begins a turn. If that fails, there is a turn all the same, which fails. */
function begin(bridge: Bridge, how: () => Begun): Turn {
  let begun: Begun;
  try {
    begun = how();
  } catch (error) {
    begun = { native: new FailedTurn(error), keep: [], signal: undefined };
  }
  return new Turn(bridge, begun.native, begun.keep, begun.signal);
}
