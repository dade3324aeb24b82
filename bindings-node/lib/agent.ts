/** Agents, which open any number of sessions. */

import "./dispose.js";

import type { NativeAgent, Opening } from "./addon.js";
import { checkedOptions, optionJson, show, wrongOption } from "./arguments.js";
import { Bridge } from "./bridge.js";
import { callNative } from "./errors.js";
import { Handlers } from "./handlers.js";
import { type AgentOptions, type AgentSessionOptions, type PreparedOptions, prepareOptions } from "./options.js";
import { type CloseOptions, Session } from "./session.js";
import { takeSignal } from "./signal.js";

/** A session that an agent keeps. */
export interface SessionInfo {
  /** The id, with which the session can be resumed. */
  id: string;
  /** The directory that the session works in. */
  workDir: string;
  /** The agent's title for the session, if it has one. */
  title: string | null;
  /** When something last happened in the session, in ISO 8601, if the agent reports it. */
  updatedAt: string | null;
}

interface NativeSessionInfo {
  id: string;
  work_dir: string;
  title: string | null;
  updated_at: string | null;
}

interface Remains {
  bridge: Bridge;
  native: NativeAgent;
}

const collected = new FinalizationRegistry<Remains>(({ bridge, native }) => {
  bridge.removeSession(native.key);
  native.abandon();
});

/**
 * An agent with any number of sessions at once. They share one process if the agent's protocol allows it; otherwise each
 * session gets its own. Close the agent, or declare it with `await using`.
 */
export class Agent implements AsyncDisposable {
  readonly #bridge: Bridge;
  readonly #native: NativeAgent;
  readonly #handlers: Handlers;
  /** Forgotten when the first session is open: the agent's process runs then. */
  #signal: AbortSignal | undefined;

  /** @internal */
  constructor(bridge: Bridge, native: NativeAgent, handlers: Handlers, signal?: AbortSignal) {
    this.#bridge = bridge;
    this.#native = native;
    this.#handlers = handlers;
    this.#signal = signal;
    collected.register(this, { bridge, native });
  }

  /** @internal */
  static open(bridge: Bridge, { signal: given, ...options }: AgentOptions): Agent {
    const signal = takeSignal(given);
    const prepared = prepareOptions(options);
    const handlers = new Handlers(prepared.functions);
    const native = callNative(() => bridge.module.NativeAgent.open(bridge.native, prepared.optionsJson, prepared.callbacks));
    bridge.addSession(native.key, handlers);
    return new Agent(bridge, native, handlers, signal);
  }

  /**
   * Opens a session.
   *
   * @param options - The session's options; see {@link AgentSessionOptions}.
   * @throws {@link InvalidOption} for a wrong option, and for an option of the agent's process, such as `executable`.
   *
   * @example
   * ```ts
   * const session = await agent.createSession({ workDir: "." });
   * ```
   */
  async createSession(options: AgentSessionOptions = {}): Promise<Session> {
    return this.#open(null, null, checkedOptions("createSession()", options));
  }

  /**
   * Opens a session that continues an earlier one.
   *
   * @param sessionId - The id of the earlier session, from `session.id` or {@link Agent.listSessions}.
   * @param options - The session's options.
   * @throws {@link InvalidOption} for a wrong option, or without an id.
   */
  async resume(sessionId: string, options: Omit<AgentSessionOptions, "sessionId"> = {}): Promise<Session> {
    return this.#open(existingSession("resume", sessionId), null, options);
  }

  /**
   * Opens a new session that begins with the messages of another, which stays as it is.
   *
   * @param sessionId - The id of the other session.
   * @param options - The new session's options.
   * @throws {@link Unsupported} if the agent cannot fork sessions. Agents that speak Wire cannot.
   * @throws {@link InvalidOption} for a wrong option, or without an id.
   */
  async fork(sessionId: string, options: Omit<AgentSessionOptions, "sessionId"> = {}): Promise<Session> {
    return this.#open(null, existingSession("fork", sessionId), options);
  }

  /**
   * Lists the sessions that the agent keeps, also those of other processes.
   *
   * @param options - `workDir`: list only sessions of this directory. Default: all.
   * @throws {@link Unsupported} if the agent cannot list sessions. Agents that speak Wire cannot.
   */
  async listSessions({ workDir }: { workDir?: string | undefined } = {}): Promise<SessionInfo[]> {
    const given: unknown = workDir;
    if (given !== undefined && given !== null && typeof given !== "string") {
      throw wrongOption("workDir", `expected the path of a directory, got ${show(given)}`);
    }
    const sessions = await this.#bridge.run<NativeSessionInfo[]>(() => this.#native.listSessions(workDir), this);
    return sessions.map(({ id, work_dir, title, updated_at }) => ({ id, workDir: work_dir, title, updatedAt: updated_at }));
  }

  /**
   * Closes all sessions and waits until no process is left. Can be called again.
   *
   * @param options - `timeout`, in milliseconds, overrides `closeTimeout`; 0 kills the processes at once.
   * @throws {@link Timeout} if a process cannot be ended.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const { timeout } = checkedOptions("close()", options);
    const keep = [this, this.#handlers];
    await this.#bridge.run(() => this.#native.close(optionJson("timeout", timeout ?? null)), keep);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #open(resume: string | null, fork: string | null, options: AgentSessionOptions): Promise<Session> {
    const opener = {
      agent: this,
      signal: this.#signal,
      open: ({ optionsJson, callbacks }: PreparedOptions): Opening =>
        this.#native.createSession(resume, fork, optionsJson, callbacks),
    };
    const session = await Session.open(this.#bridge, options, opener);
    this.#signal = undefined;
    return session;
  }
}

/** The id of a session that exists. An empty or missing id would open a new session instead. */
function existingSession(method: string, id: unknown): string {
  if (typeof id === "string" && id !== "") return id;
  const source = "take it from `session.id` or `agent.listSessions()`";
  throw wrongOption("sessionId", `\`${method}\` needs the id of a session as text, got ${show(id)}; ${source}`);
}

/**
 * Opens an agent. No process is started before its first session.
 *
 * @param options - The options of the agent's process; see {@link AgentOptions}.
 * @throws {@link InvalidOption} for a wrong option.
 * @throws {@link SpawnError} if the agent's program does not exist.
 *
 * @example
 * ```ts
 * await using agent = await openAgent();
 * const sessions = await Promise.all([agent.createSession({ workDir: "a" }), agent.createSession({ workDir: "b" })]);
 * ```
 */
export function openAgent(options: AgentOptions = {}): Promise<Agent> {
  return Promise.resolve().then(() => Agent.open(Bridge.get(), checkedOptions("openAgent()", options)));
}
