/** Sessions: an agent's process, and the conversation with it. */

import "./dispose.js";

import { Bridge } from "./bridge.js";
import { translated } from "./errors.js";
import { decisionJson, Handlers } from "./handlers.js";
import type { NativeSession } from "./native.js";
import { type ApprovalAnswer, checkedOptions, json, prepareOptions, type QuestionAnswer, type SessionOptions } from "./options.js";
import { requestReference, type RequestReference } from "./requests.js";
import { takeSignal, whenAborted } from "./signal.js";
import { contentJson, type PromptContent, Replay, Turn } from "./turn.js";
import type { ExternalToolsResult, ServerInfo, SlashCommand, StatusUpdate, TokenUsage } from "./wire.js";

/** What a single prompt can be given. */
export interface PromptOptions {
  /** Cancels the turn when it is aborted. If it has been before, its reason is thrown and nothing is sent. */
  signal?: AbortSignal | undefined;
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

interface Info {
  server: ServerInfo | null;
  capabilities: Capabilities;
  external_tools: ExternalToolsResult;
}

/** What opens a session other than one of its own agent. */
export interface Origin {
  open(optionsJson: string, callbacksJson: string): { session: NativeSession; ticket: number };
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
  #info: Info | undefined;

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
    const { optionsJson, callbacksJson, functions } = prepareOptions(options);
    const handlers = new Handlers(functions);
    const { session, ticket } = translated(
      () =>
        origin?.open(optionsJson, callbacksJson) ??
        bridge.module.NativeSession.open(bridge.native, optionsJson, callbacksJson),
    );
    bridge.addSession(session.key, handlers);
    const forget = whenAborted(signal, () => {
      session.abandon();
    });
    try {
      await bridge.wait(ticket, handlers);
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
    return this.#described().server;
  }

  /** What the agent can do. */
  get capabilities(): Capabilities {
    return this.#described().capabilities;
  }

  /**
   * Commands that a prompt may begin with. Agents of ACP tell them soon after the session has opened, and again when
   * they change; each time `onEvent` gets an `available_commands_update`.
   */
  get slashCommands(): SlashCommand[] {
    return JSON.parse(this.#native.slashCommands()) as SlashCommand[];
  }

  /** Which of the program's tools the agent took, and why not the others. */
  get externalTools(): ExternalToolsResult {
    return this.#described().external_tools;
  }

  /** The tokens that the session has taken so far. */
  get usage(): TokenUsage {
    return JSON.parse(this.#native.usage()) as TokenUsage;
  }

  /** How things stand, all updates put together: context, plan mode, MCP servers. */
  get status(): StatusUpdate {
    return JSON.parse(this.#native.status()) as StatusUpdate;
  }

  /** Begins a turn, at once. Throws {@link TurnInProgress} while another one runs. */
  prompt(content: PromptContent, options: PromptOptions = {}): Turn {
    const signal = takeSignal(options.signal);
    const native = translated(() => this.#native.prompt(contentJson(content)));
    this.#handlers.enterTurn();
    return new Turn(this.#bridge, native, [this, this.#handlers], signal);
  }

  /** The messages of the session so far, told again. */
  replay(): Replay {
    return new Replay(this.#bridge, translated(() => this.#native.replay()), this);
  }

  /** Turns plan mode on or off. */
  async setPlanMode(on: boolean): Promise<void> {
    await this.#bridge.wait(translated(() => this.#native.setPlanMode(json("on", on))), this);
  }

  /** Answers a request that came outside a turn, where `onApproval` or `onQuestion` is `"manual"`. */
  async respond(request: RequestReference, answer: ApprovalAnswer | QuestionAnswer): Promise<void> {
    const ticket = translated(() => this.#native.respond(...requestReference(request), decisionJson(answer)));
    await this.#bridge.wait(ticket, this);
  }

  /** Cancels what is running, ends the agent and waits until it is gone. Twice is fine. */
  async close(): Promise<void> {
    await this.#bridge.wait(translated(() => this.#native.close()), this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #described(): Info {
    return (this.#info ??= describe(this.#native.info()));
  }
}

function describe(json: string): Info {
  const info = JSON.parse(json) as Omit<Info, "capabilities"> & { capabilities: Record<string, unknown> };
  const capabilities = Object.entries(info.capabilities).map(([name, value]) => [camelCase(name), value] as const);
  return { ...info, capabilities: Object.fromEntries(capabilities) as unknown as Capabilities };
}

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** Opens a session: starts an agent and waits until it is ready. */
export async function createSession(options: SessionOptions = {}): Promise<Session> {
  return Session.open(Bridge.get(), checkedOptions("createSession()", options));
}

/** A turn in a session of its own, which is closed when the turn has ended. */
export function prompt(content: PromptContent, options: SessionOptions & PromptOptions = {}): Turn {
  return promptOnce(Bridge.get(), content, checkedOptions("prompt()", options));
}

/** @internal */
export function promptOnce(
  bridge: Bridge,
  content: PromptContent,
  { signal: given, ...options }: SessionOptions & PromptOptions,
): Turn {
  const signal = takeSignal(given);
  const { optionsJson, callbacksJson, functions } = prepareOptions(options);
  const handlers = new Handlers(functions);
  const { turn, sessionKey } = translated(() =>
    bridge.module.NativeSession.oneShot(bridge.native, contentJson(content), optionsJson, callbacksJson),
  );
  bridge.addSession(sessionKey, handlers);
  return new Turn(bridge, turn, [handlers], signal);
}
