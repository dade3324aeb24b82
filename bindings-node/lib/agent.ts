/** Agents, which open any number of sessions. */

import "./dispose.js";

import type { NativeAgent } from "./addon.js";
import { Bridge } from "./bridge.js";
import { callNative } from "./errors.js";
import { Handlers } from "./handlers.js";
import { type AgentOptions, type AgentSessionOptions, checkedOptions, optionJson, prepareOptions, wrongOption } from "./options.js";
import { type CloseOptions, type Origin, Session } from "./session.js";
import { show } from "./show.js";
import { takeSignal } from "./signal.js";

/** A session that an agent keeps. */
export interface SessionInfo {
  /** Its id, under which it can be resumed. */
  id: string;
  /** The directory that it works in. */
  workDir: string;
  /** What the agent calls it for people, if it does. */
  title: string | null;
  /** When something last happened in it, in the words of ISO 8601, if the agent says. */
  updatedAt: string | null;
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
 * An agent that has any number of sessions at once. They share one process where its protocol can, else each gets its own.
 * Close it, or declare it with `await using`.
 */
export class Agent implements AsyncDisposable {
  readonly #bridge: Bridge;
  readonly #native: NativeAgent;
  readonly #handlers: Handlers;

  /** @internal */
  constructor(bridge: Bridge, native: NativeAgent, handlers: Handlers) {
    this.#bridge = bridge;
    this.#native = native;
    this.#handlers = handlers;
    collected.register(this, { bridge, native });
  }

  /** @internal */
  static open(bridge: Bridge, { signal, ...options }: AgentOptions): Agent {
    takeSignal(signal);
    const prepared = prepareOptions(options);
    const handlers = new Handlers(prepared.functions);
    const native = callNative(() => bridge.module.NativeAgent.open(bridge.native, prepared.optionsJson, prepared.callbacks));
    bridge.addSession(native.key, handlers);
    return new Agent(bridge, native, handlers);
  }

  /**
   * Opens a session.
   *
   * @throws {@link InvalidOption} also for an option of the agent's process, such as `executable` or `env`.
   */
  async createSession(options: AgentSessionOptions = {}): Promise<Session> {
    return this.#open(null, null, checkedOptions("createSession()", options));
  }

  /** Goes on with a session: `createSession` with a `sessionId`. */
  async resume(sessionId: string, options: Omit<AgentSessionOptions, "sessionId"> = {}): Promise<Session> {
    return this.#open(existingSession("resume", sessionId), null, options);
  }

  /**
   * Opens a session that begins with the past of another, which stays as it is. {@link Unsupported} where the agent can't,
   * as none that speaks Wire can.
   */
  async fork(sessionId: string, options: Omit<AgentSessionOptions, "sessionId"> = {}): Promise<Session> {
    return this.#open(null, existingSession("fork", sessionId), options);
  }

  /**
   * The sessions that the agent keeps, those of other processes included; only those of `workDir`, if given.
   * {@link Unsupported} where the agent can't list them, as none that speaks Wire can.
   */
  async listSessions({ workDir }: { workDir?: string | undefined } = {}): Promise<SessionInfo[]> {
    const given: unknown = workDir;
    if (given !== undefined && given !== null && typeof given !== "string") {
      throw wrongOption("workDir", `expected the path of a directory, got ${show(given)}`);
    }
    const sessions = await this.#bridge.run<NativeSessionInfo[]>(() => this.#native.listSessions(workDir), this);
    return sessions.map(({ id, work_dir, title, updated_at }) => ({
      id,
      workDir: work_dir,
      title,
      updatedAt: updated_at,
    }));
  }

  /** Closes all sessions and waits until no process is left. Twice is fine. With `timeout: 0` they are killed at once. */
  async close(options: CloseOptions = {}): Promise<void> {
    const { timeout } = checkedOptions("close()", options);
    await this.#bridge.run(() => this.#native.close(optionJson("timeout", timeout ?? null)), [this, this.#handlers]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #open(resume: string | null, fork: string | null, options: AgentSessionOptions): Promise<Session> {
    const origin: Origin = {
      agent: this,
      open: ({ optionsJson, callbacks }) => this.#native.createSession(resume, fork, optionsJson, callbacks),
    };
    return Session.open(this.#bridge, options, origin);
  }
}

/** The id of a session that exists. An empty or missing id would open a new session instead. */
function existingSession(method: string, id: unknown): string {
  if (typeof id === "string" && id !== "") return id;
  const source = "take it from `session.id` or `agent.listSessions()`";
  throw wrongOption("sessionId", `\`${method}\` needs the id of a session as text, got ${show(id)}; ${source}`);
}

interface NativeSessionInfo {
  id: string;
  work_dir: string;
  title: string | null;
  updated_at: string | null;
}

/** Opens an agent. Nothing is started before its first session. */
export function openAgent(options: AgentOptions = {}): Promise<Agent> {
  return Promise.resolve().then(() => Agent.open(Bridge.get(), checkedOptions("openAgent()", options)));
}
