/** Sessions: conversations with an agent. */

import "./dispose.js";

import type { NativeSession, Opening } from "./addon.js";
import { checkedOptions, objectJson, optionJson } from "./arguments.js";
import { Bridge } from "./bridge.js";
import { contentJson, type UserInput } from "./content.js";
import { callNative } from "./errors.js";
import { FailedTurn, type TurnHandle } from "./failed-turn.js";
import { decisionJson, Handlers } from "./handlers.js";
import { requestReference, type RequestReference, type Usage, withTotal } from "./messages.js";
import {
  type ApprovalAnswer,
  type PreparedOptions,
  prepareOptions,
  type QuestionAnswer,
  type SessionOptions,
} from "./options.js";
import { takeSignal, whenAborted } from "./signal.js";
import { Replay, Turn } from "./turn.js";
import type { ExternalToolsResult, ServerInfo, SlashCommand, StatusUpdate, TokenUsage } from "./wire.js";

/** The options of one prompt; they override the session's. */
export interface PromptOptions {
  /** Cancels the turn when it is aborted. If it was aborted before, nothing is sent and the turn fails with its reason. */
  signal?: AbortSignal | undefined;
  /** Milliseconds that the turn may take; it is then cancelled, and fails with {@link Timeout}. Default: `turnTimeout`. */
  timeout?: number | undefined;
  /** Milliseconds that the agent may send nothing. Default: the session's `idleTimeout`. */
  idleTimeout?: number | undefined;
}

/** The options of `close()`. */
export interface CloseOptions {
  /** Milliseconds that the agent may take to exit; overrides `closeTimeout`. 0 kills it at once. */
  timeout?: number | undefined;
}

/** What the agent can do, by its handshake and by the protocol that it speaks. */
export interface Capabilities {
  /** Whether the program can offer tools. */
  externalTools: boolean;
  /** Whether the agent can ask questions. */
  questions: boolean;
  /** Whether a rejection can carry feedback that the model reads. */
  approvalFeedback: boolean;
  /** Whether a running turn can be steered. */
  steer: boolean;
  /** Whether plan mode can be switched. */
  planMode: boolean;
  /** Whether the session's messages can be replayed. */
  replay: boolean;
  /** The events that hooks can be set on. Empty if the agent has no hooks. */
  hooks: string[];
}

/** The agent that opens a session, unless the session has an agent of its own. */
export interface Opener {
  /** Kept from being collected as long as the session. */
  agent: object;
  /** The signal of `openAgent()`. */
  signal: AbortSignal | undefined;
  open(options: PreparedOptions): Opening;
}

interface Remains {
  bridge: Bridge;
  native: NativeSession;
  opener: Opener | undefined;
}

const collected = new FinalizationRegistry<Remains>(({ bridge, native }) => {
  bridge.removeSession(native.key);
  native.abandon();
});

/**
 * A session with an agent. Close it, or declare it with `await using`. If it is garbage collected, its agent is ended. An
 * open session in which nothing happens does not keep the process alive.
 */
export class Session implements AsyncDisposable {
  readonly #bridge: Bridge;
  readonly #native: NativeSession;
  readonly #handlers: Handlers;

  /** @internal */
  constructor(bridge: Bridge, native: NativeSession, handlers: Handlers, opener?: Opener) {
    this.#bridge = bridge;
    this.#native = native;
    this.#handlers = handlers;
    collected.register(this, { bridge, native, opener });
  }

  /** @internal */
  static async open(bridge: Bridge, { signal, ...options }: SessionOptions, opener?: Opener): Promise<Session> {
    const signals = [takeSignal(signal), takeSignal(opener?.signal)];
    const throwIfAborted = (): void => {
      for (const each of signals) each?.throwIfAborted();
    };
    const prepared = prepareOptions(options);
    const handlers = new Handlers(prepared.functions);
    const { session, ticket } = callNative(
      () =>
        opener?.open(prepared) ??
        bridge.module.NativeSession.open(bridge.native, prepared.optionsJson, prepared.callbacks),
    );
    bridge.addSession(session.key, handlers);
    const forget = signals.map((each) =>
      whenAborted(each, () => {
        session.abandon();
      }),
    );
    try {
      await bridge.run(() => ticket, handlers);
      // The abort may have come after the session was open, but before this program was told.
      throwIfAborted();
    } catch (error) {
      bridge.removeSession(session.key);
      // An abandoned opening fails as closed; the signal knows why.
      throwIfAborted();
      throw error;
    } finally {
      for (const each of forget) each();
    }
    return new Session(bridge, session, handlers, opener);
  }

  /** The session's id, with which it can be resumed. */
  get id(): string {
    return this.#native.id;
  }

  /** The directory that the agent works in. */
  get workDir(): string {
    return this.#native.workDir;
  }

  /** `active` while a turn is running, `closed` after the end of the session, otherwise `idle`. */
  get state(): "idle" | "active" | "closed" {
    return this.#native.state;
  }

  /** The version of the protocol, Wire or ACP, that the agent speaks. */
  get protocolVersion(): string {
    return this.#native.protocolVersion;
  }

  /** The agent's process id. */
  get pid(): number | null {
    return this.#native.pid;
  }

  /** The agent's name and version; null if the agent does not report them. */
  get server(): ServerInfo | null {
    return JSON.parse(this.#native.serverJson()) as ServerInfo | null;
  }

  /** What the agent can do. */
  get capabilities(): Capabilities {
    return this.#native.capabilities() as Capabilities;
  }

  /**
   * The commands that a prompt may begin with. Agents of ACP report them soon after the session has opened, and again when
   * they change; each time `onEvent` gets an `available_commands_update`.
   */
  get slashCommands(): SlashCommand[] {
    return JSON.parse(this.#native.slashCommandsJson()) as SlashCommand[];
  }

  /** Which of the program's tools the agent accepted, and why it rejected others. */
  get externalTools(): ExternalToolsResult {
    return JSON.parse(this.#native.externalToolsJson()) as ExternalToolsResult;
  }

  /** The tokens that the session has taken so far. */
  get usage(): Usage {
    return withTotal(JSON.parse(this.#native.usageJson()) as TokenUsage);
  }

  /** The latest value of each field of all status updates: context, plan mode, MCP servers. */
  get status(): StatusUpdate {
    return JSON.parse(this.#native.statusJson()) as StatusUpdate;
  }

  /**
   * Begins a turn, and returns at once. Never throws: an error comes out of the turn, from a loop over it and from
   * `result()`. It is a {@link TurnInProgress} while another turn runs, an {@link InvalidOption} for wrong content or
   * options, and the error that ended the session if the session is closed.
   *
   * @param content - Text, a content part, or a list of both.
   * @param options - The signal and the timeouts of this turn.
   *
   * @example
   * ```ts
   * const { text } = await session.prompt("What is in this directory?", { timeout: 60_000 }).result();
   * ```
   */
  prompt(content: UserInput, options: PromptOptions = {}): Turn {
    return begin(this.#bridge, () => {
      const { signal: given, ...rest } = checkedOptions("prompt()", options);
      const signal = takeSignal(given);
      const native = callNative(() => this.#native.prompt(contentJson(content), objectJson(rest)));
      this.#handlers.enterTurn();
      return { native, keep: [this, this.#handlers], signal };
    });
  }

  /**
   * Cancels the running turn and waits until it has ended, also if the program has left it. Does nothing without a turn, or
   * if the session is closed.
   *
   * @throws {@link Timeout} if the agent does not answer within `cancelTimeout`. The session is then closed.
   */
  async cancel(): Promise<void> {
    await this.#bridge.run(() => this.#native.cancel(), this);
  }

  /**
   * Replays the messages of the session so far.
   *
   * @throws {@link Unsupported} if the agent cannot replay messages, {@link TurnInProgress} while a turn is running.
   *
   * @example
   * ```ts
   * for await (const event of session.replay()) console.log(event.type);
   * ```
   */
  replay(): Replay {
    return new Replay(this.#bridge, callNative(() => this.#native.replay()), this);
  }

  /**
   * Switches plan mode, in which the agent plans and changes nothing.
   *
   * @param on - Whether plan mode is to be on.
   * @throws {@link Unsupported} if the agent has no plan mode.
   */
  async setPlanMode(on: boolean): Promise<void> {
    await this.#bridge.run(() => this.#native.setPlanMode(optionJson("on", on)), this);
  }

  /**
   * Answers a request that came outside of turns, if `onApproval` or `onQuestion` is `"manual"`. For a request of a turn,
   * use {@link Turn.respond}.
   *
   * @param request - The event of the request, its payload, or its id.
   * @param answer - The decision, or the answers to the questions.
   * @throws {@link InvalidOption} if the answer does not fit the request.
   */
  async respond(request: RequestReference, answer: ApprovalAnswer | QuestionAnswer): Promise<void> {
    await this.#bridge.run(() => this.#native.respond(...requestReference(request), decisionJson(answer)), this);
  }

  /**
   * Cancels the running turn, ends the agent and waits until its process has exited. Can be called again.
   *
   * @param options - `timeout`, in milliseconds, overrides `closeTimeout`. 0 kills the agent at once; a running turn then
   * fails with {@link SessionClosed}.
   * @throws {@link Timeout} if the process cannot be ended.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const { timeout } = checkedOptions("close()", options);
    await this.#bridge.run(() => this.#native.close(optionJson("timeout", timeout ?? null)), this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Opens a session with an agent of its own: starts the agent and waits until it is ready.
 *
 * @param options - See {@link SessionOptions}.
 * @throws {@link InvalidOption} for a wrong option; nothing is started then.
 * @throws {@link SpawnError} if the agent cannot be started, {@link HandshakeError} or {@link AgentExited} if the agent does
 * not open the session, {@link Timeout} if that takes longer than `handshakeTimeout`.
 *
 * @example
 * ```ts
 * await using session = await createSession({ workDir: "." });
 * for await (const piece of session.prompt("Hello").textStream) process.stdout.write(piece);
 * ```
 */
export async function createSession(options: SessionOptions = {}): Promise<Session> {
  return Session.open(Bridge.get(), checkedOptions("createSession()", options));
}

/**
 * Begins a turn in a session of its own, which is closed when the turn has ended. Never throws: an error, also of a wrong
 * option, comes out of the turn.
 *
 * @param content - Text, a content part, or a list of both.
 * @param options - The options of the session and of the prompt. `timeout` is for the turn, without the start of the agent.
 *
 * @example
 * ```ts
 * const { text } = await prompt("What is in this directory?", { workDir: "." }).result();
 * ```
 */
export function prompt(content: UserInput, options: SessionOptions & PromptOptions = {}): Turn {
  return promptOnce(Bridge.get(), content, options);
}

/** @internal */
export function promptOnce(bridge: Bridge, content: UserInput, options: SessionOptions & PromptOptions): Turn {
  return begin(bridge, () => {
    const { signal: given, timeout, ...rest } = checkedOptions("prompt()", options);
    const signal = takeSignal(given);
    const { optionsJson, callbacks, functions } = prepareOptions(rest);
    const handlers = new Handlers(functions);
    const promptJson = objectJson({ timeout });
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

/** Begins a turn. If that fails, the turn exists and fails. */
function begin(bridge: Bridge, how: () => Begun): Turn {
  let begun: Begun;
  try {
    begun = how();
  } catch (error) {
    begun = { native: new FailedTurn(error), keep: [], signal: undefined };
  }
  return new Turn(bridge, begun.native, begun.keep, begun.signal);
}
