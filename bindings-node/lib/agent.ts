/** Agents, which open any number of sessions. */

import "./dispose.js";

import type { NativeAgent, Opening } from "./addon.js";
import { checkedOptions, knownOptions, refuseMore, refuseNew, show, wrongOption } from "./arguments.js";
import { Bridge } from "./bridge.js";
import { laterAtCaller } from "./call-site.js";
import { callNative } from "./native-errors.js";
import { Handlers } from "./handlers.js";
import { showAs } from "./inspect.js";
import type { AgentOptions, AgentSessionOptions } from "./option-types.js";
import { type PreparedOptions, prepareOptions } from "./options.js";
import type { OutputOf, OutputSchema } from "./output.js";
import { type CloseOptions, closeTimeout, Session } from "./session.js";
import { takeSignal } from "./signal.js";

/** A session that an agent keeps. */
export interface SessionInfo {
  /** The id, with which the session can be resumed. */
  id: string;
  /** The directory that the session works in. */
  workDir: string;
  /** The agent's title for the session, if it has one. */
  title: string | null;
  /** The time of the last activity in ISO 8601, if the agent reports it. */
  updatedAt: string | null;
  /** Whether the session is archived, if the agent reports it. */
  archived: boolean | null;
}

interface NativeSessionInfo {
  id: string;
  work_dir: string;
  title: string | null;
  updated_at: string | null;
  archived: boolean | null;
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
 * An agent with any number of sessions at the same time. Over ACP they share one process; over Wire each session has a process
 * of its own. Close the agent, or declare it with `await using`.
 *
 * @example
 * ```ts
 * await using agent = await openAgent();
 * const session = await agent.createSession({ workDir: "." });
 * const { text } = await session.prompt("What is in this directory?").result();
 * ```
 */
export class Agent implements AsyncDisposable {
  readonly #bridge: Bridge;
  readonly #native: NativeAgent;
  readonly #handlers: Handlers;
  /** Forgotten when the first session is open: the agent's process runs then. */
  #signal: AbortSignal | undefined;

  private constructor(bridge: Bridge, native: NativeAgent, handlers: Handlers, signal?: AbortSignal) {
    refuseNew(native, new.target, "openAgent()");
    this.#bridge = bridge;
    this.#native = native;
    this.#handlers = handlers;
    this.#signal = signal;
    collected.register(this, { bridge, native });
  }

  /** @internal */
  static described(agent: Agent): object {
    const { agent: name, state, pid } = agent.#native.described();
    return { agent: name, state, pid: pid ?? null };
  }

  /** @internal */
  static open(bridge: Bridge, { signal: given, ...options }: AgentOptions): Agent {
    const prepared = prepareOptions(options);
    const signal = takeSignal(given);
    const handlers = new Handlers(prepared.functions, prepared.tracing);
    const native = callNative(() => bridge.module.NativeAgent.open(bridge.native, prepared.optionsJson, prepared.callbacks));
    bridge.addSession(native.key, handlers);
    return new Agent(bridge, native, handlers, signal);
  }

  /**
   * Opens a session. The first session starts the agent's process.
   *
   * @param options - The session's options; see {@link AgentSessionOptions}. Default: none.
   * @returns The session, when the agent is ready.
   * @throws {InvalidOption} if an option is wrong, or belongs to the agent's process, such as `executable`.
   * @throws {SpawnError} if the agent cannot be started.
   * @throws {HandshakeError} if the agent does not open the session.
   * @throws {AgentExited} if the agent exits before the session is open.
   * @throws {Timeout} if the opening takes longer than `handshakeTimeout`.
   * @throws {SessionClosed} if the agent has been closed.
   *
   * @example
   * ```ts
   * const session = await agent.createSession({ workDir: "." });
   * ```
   */
  async createSession<S extends OutputSchema | undefined = undefined>(
    options: AgentSessionOptions<S> = {},
  ): Promise<Session<OutputOf<S>>> {
    return this.#open("createSession", () => [null, null], options);
  }

  /**
   * Opens a session that continues an earlier one.
   *
   * @param sessionId - The id of the earlier session, from `session.id` or {@link Agent.listSessions}.
   * @param options - The session's options. Default: none.
   * @returns The session, when the agent is ready.
   * @throws {InvalidOption} if an option is wrong, or the id is empty or no text.
   * @throws {KimiAgentError} if the session cannot be opened, with the errors of {@link Agent.createSession}.
   *
   * @example
   * ```ts
   * const [latest] = await agent.listSessions({ workDir: "." });
   * if (latest) await agent.resume(latest.id, { workDir: latest.workDir });
   * ```
   */
  async resume<S extends OutputSchema | undefined = undefined>(
    sessionId: string,
    options: Omit<AgentSessionOptions<S>, "sessionId"> = {},
  ): Promise<Session<OutputOf<S>>> {
    return this.#open("resume", () => [existingSession("resume", sessionId), null], options);
  }

  /**
   * Opens a new session that begins with the messages of another, which stays as it is.
   *
   * @param sessionId - The id of the other session, from `session.id` or {@link Agent.listSessions}.
   * @param options - The new session's options. Default: none.
   * @returns The new session, when the agent is ready.
   * @throws {Unsupported} if the agent cannot fork sessions. Agents that speak Wire cannot.
   * @throws {InvalidOption} if an option is wrong, or the id is empty or no text.
   * @throws {KimiAgentError} if the session cannot be opened, with the errors of {@link Agent.createSession}.
   *
   * @example
   * ```ts
   * const variant = await agent.fork(session.id, { workDir: session.workDir });
   * await variant.prompt("Try the other approach.").result();
   * ```
   */
  async fork<S extends OutputSchema | undefined = undefined>(
    sessionId: string,
    options: Omit<AgentSessionOptions<S>, "sessionId"> = {},
  ): Promise<Session<OutputOf<S>>> {
    return this.#open("fork", () => [null, existingSession("fork", sessionId)], options);
  }

  /**
   * Lists the sessions that the agent keeps, also those of other processes.
   *
   * @param options - `workDir`: list only sessions of this directory. Default: the sessions of all directories. `archived`: list the
   * archived sessions instead. Default: `false`.
   * @returns The sessions.
   * @throws {Unsupported} if the agent cannot list sessions, or cannot archive them. Agents that speak Wire cannot.
   * @throws {InvalidOption} if `workDir` is not text, or `archived` not a boolean.
   *
   * @example
   * ```ts
   * for (const { id, title } of await agent.listSessions({ workDir: "." })) console.log(id, title);
   * ```
   */
  async listSessions(
    options: { workDir?: string | undefined; archived?: boolean | undefined } = {},
  ): Promise<SessionInfo[]> {
    const begin = (): number => {
      knownOptions("listSessions()", options, ["workDir", "archived"]);
      const workDir: unknown = options.workDir ?? undefined;
      const archived: unknown = options.archived ?? false;
      if (typeof archived !== "boolean") throw wrongOption("archived", `expected a boolean, got ${show(archived)}`);
      if (workDir === undefined || typeof workDir === "string") return this.#native.listSessions(workDir, archived);
      throw wrongOption("workDir", `expected the path of a directory, got ${show(workDir)}`);
    };
    const sessions = await this.#bridge.run<NativeSessionInfo[]>([this, "listSessions"], begin, this);
    return sessions.map(({ work_dir, updated_at, ...info }) => ({ ...info, workDir: work_dir, updatedAt: updated_at }));
  }

  /**
   * Deletes a session that the agent keeps, with its messages. If the session is open in this program, close it first.
   *
   * @param sessionId - The id of the session, from `session.id` or {@link Agent.listSessions}.
   * @throws {Unsupported} if the agent cannot delete sessions. Agents that speak Wire cannot.
   * @throws {InvalidOption} if the id is empty or no text.
   * @throws {RpcError} if the agent refuses.
   *
   * @example
   * ```ts
   * await session.close();
   * await agent.deleteSession(session.id);
   * ```
   */
  async deleteSession(sessionId: string): Promise<void> {
    const begin = (): number => this.#native.deleteSession(existingSession("deleteSession", sessionId));
    await this.#bridge.run([this, "deleteSession"], begin, this);
  }

  /**
   * Gives a stored session another title. The session can be open.
   *
   * @param sessionId - The id of the session, from `session.id` or {@link Agent.listSessions}.
   * @param title - The new title.
   * @returns The title that the agent has stored. It can differ from the argument, for example in its length.
   * @throws {Unsupported} if the agent cannot rename sessions. Agents that speak Wire cannot.
   * @throws {InvalidOption} if the id or the title is empty or no text.
   * @throws {RpcError} if the agent refuses.
   *
   * @example
   * ```ts
   * console.log(await agent.renameSession(session.id, "Repair of the parser"));
   * ```
   */
  async renameSession(sessionId: string, title: string): Promise<string> {
    const begin = (): number => {
      const id = existingSession("renameSession", sessionId);
      if (typeof title === "string") return this.#native.renameSession(id, title);
      throw wrongOption("title", `expected text, got ${show(title)}`);
    };
    return this.#bridge.run<string>([this, "renameSession"], begin, this);
  }

  /**
   * Hides a stored session from {@link Agent.listSessions}. Its messages are kept. An agent closes the session if it is open.
   *
   * @param sessionId - The id of the session, from `session.id` or {@link Agent.listSessions}.
   * @throws {Unsupported} if the agent cannot archive sessions. Agents that speak Wire cannot.
   * @throws {InvalidOption} if the id is empty or no text.
   * @throws {RpcError} if the agent refuses.
   *
   * @example
   * ```ts
   * await session.close();
   * await agent.archiveSession(session.id);
   * ```
   */
  async archiveSession(sessionId: string): Promise<void> {
    const begin = (): number => this.#native.archiveSession(existingSession("archiveSession", sessionId), true);
    await this.#bridge.run([this, "archiveSession"], begin, this);
  }

  /**
   * Shows an archived session in {@link Agent.listSessions} again. It does not open the session.
   *
   * @param sessionId - The id of the session, from {@link Agent.listSessions}.
   * @throws {Unsupported} if the agent cannot archive sessions. Agents that speak Wire cannot.
   * @throws {InvalidOption} if the id is empty or no text.
   * @throws {RpcError} if the agent refuses.
   *
   * @example
   * ```ts
   * for (const { id } of await agent.listSessions({ archived: true })) await agent.unarchiveSession(id);
   * ```
   */
  async unarchiveSession(sessionId: string): Promise<void> {
    const begin = (): number => this.#native.archiveSession(existingSession("unarchiveSession", sessionId), false);
    await this.#bridge.run([this, "unarchiveSession"], begin, this);
  }

  /**
   * Closes all sessions and waits until no process is left. Can be called again.
   *
   * @param options - `timeout`, in milliseconds, overrides `closeTimeout`; 0 kills the processes at once. Default:
   * `closeTimeout`.
   * @throws {Timeout} if a process cannot be ended.
   * @throws {InvalidOption} if `timeout` is not a number of milliseconds.
   *
   * @example
   * ```ts
   * await agent.close({ timeout: 2_000 });
   * ```
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#bridge.run([this, "close"], () => this.#native.close(closeTimeout(options)), [this, this.#handlers]);
  }

  /**
   * Closes the agent at the end of the block that declares it with `await using`.
   *
   * @returns When no process is left.
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #open<Value>(
    method: "createSession" | "resume" | "fork",
    ids: () => [resume: string | null, fork: string | null],
    options: AgentSessionOptions,
  ): Promise<Session<Value>> {
    const session = await laterAtCaller([this, method], () => {
      checkedOptions(`${method}()`, options);
      const [resume, fork] = ids();
      const opener = {
        agent: this,
        signal: this.#signal,
        open: ({ optionsJson, callbacks }: PreparedOptions): Opening =>
          this.#native.createSession(resume, fork, optionsJson, callbacks),
      };
      return Session.open<Value>(this.#bridge, options, opener);
    });
    this.#signal = undefined;
    return session;
  }
}

showAs(Agent, "Agent", (agent) => Agent.described(agent));

/** The id of a session that exists. An empty or missing id would open a new session instead. */
function existingSession(method: string, id: unknown): string {
  if (typeof id === "string" && id !== "") return id;
  const source = "take it from `session.id` or `agent.listSessions()`";
  throw wrongOption("sessionId", `\`${method}\` needs the id of a session as text, got ${show(id)}; ${source}`);
}

/**
 * Opens an agent. No process is started before its first session.
 *
 * @param options - The options of the agent's process; see {@link AgentOptions}. Default: none.
 * @returns The agent.
 * @throws {InvalidOption} if an option is wrong.
 * @throws {SpawnError} if the agent's program does not exist.
 *
 * @example
 * ```ts
 * await using agent = await openAgent();
 * const sessions = await Promise.all([agent.createSession({ workDir: "a" }), agent.createSession({ workDir: "b" })]);
 * ```
 */
export function openAgent(options?: AgentOptions): Promise<Agent>;
export function openAgent(options: AgentOptions = {}, ...others: unknown[]): Promise<Agent> {
  return laterAtCaller(openAgent, () => {
    refuseMore("openAgent()", others);
    return Promise.resolve(Agent.open(Bridge.get(), checkedOptions("openAgent()", options)));
  });
}
