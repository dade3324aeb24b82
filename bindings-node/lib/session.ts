/** Sessions: conversations with an agent. */

import "./dispose.js";

import type { NativeSession, NativeTurn, Opening } from "./addon.js";
import { checkedOptions, knownOptions, objectJson, optionJson, refuseMore, refuseNew, show, wrongOption } from "./arguments.js";
import { Bridge } from "./bridge.js";
import type { Budget } from "./budget.js";
import { contentJson, type UserInput } from "./content.js";
import { atCaller, type Entry, laterAtCaller } from "./call-site.js";
import { type KimiAgentError } from "./error-base.js";
import { callNative } from "./native-errors.js";
import { FailedTurn } from "./failed-turn.js";
import type { ApprovalAnswer, QuestionAnswer } from "./handler-types.js";
import { givenAnswerJson, Handlers } from "./handlers.js";
import { hintAt } from "./hints.js";
import { showAs } from "./inspect.js";
import { requestReference, type RequestReference, type Usage, withTotal } from "./messages.js";
import { loadNative } from "./native.js";
import type { SessionOptions } from "./option-types.js";
import { type PreparedOptions, prepareOptions } from "./options.js";
import { type Output, type OutputOf, type OutputOfPrompt, type OutputSchema, readOutput } from "./output.js";
import { parseMessages } from "./parse.js";
import { takeSignal, whenAborted } from "./signal.js";
import { withSpan } from "./telemetry.js";
import { type Begun, Replay, Turn } from "./turn.js";
import type { ExternalToolsResult, ServerInfo, SlashCommand, StatusUpdate, TokenUsage } from "./wire.js";

/** The options of one prompt; they override the session's. */
export interface PromptOptions<S extends OutputSchema | undefined = OutputSchema | undefined> {
  /** Cancels the turn when it is aborted. If it was aborted before, nothing is sent and the turn fails with its reason. */
  signal?: AbortSignal | undefined;
  /** Milliseconds that the turn may take; it is then cancelled, and fails with {@link Timeout}. Default: `turnTimeout`. */
  timeout?: number | undefined;
  /** Milliseconds that the agent may send nothing. Default: the session's `idleTimeout`. */
  idleTimeout?: number | undefined;
  /** The most that the turn may use. A turn that exceeds it is cancelled and fails with {@link BudgetExceeded}. Default: no limit. */
  budget?: Budget | undefined;
  /**
   * The value that the turn must return: a zod schema, another Standard Schema, a JSON Schema, or {@link output}. In an open
   * session the model returns it in its text; only the `output` of the session is a tool. Default: the session's `output`.
   */
  output?: S | undefined;
}

/** The options of `close()`. */
export interface CloseOptions {
  /** Milliseconds that the agent may take to exit; overrides `closeTimeout`. 0 kills it at once. */
  timeout?: number | undefined;
}

/** The JSON of the timeout in the options of `close()`. */
export function closeTimeout(options: CloseOptions): string {
  knownOptions("close()", options, ["timeout"]);
  return optionJson("timeout", options.timeout ?? null);
}

/** The agent's capabilities, by its handshake and its protocol. */
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
  /** Whether the session has options that can be set while it is open. */
  configOptions: boolean;
  /** Whether the session's messages can be replayed. */
  replay: boolean;
  /** Whether the last turns of a session can be undone. */
  undo: boolean;
  /** Whether a session can begin with the past of another. */
  fork: boolean;
  /** The events that hooks can be set on. Empty if the agent has no hooks. */
  hooks: string[];
  /** Whether the program can offer to read and write files for the agent. Some agents do not use it. */
  files: boolean;
  /** Whether the program can offer to run commands for the agent. Some agents do not use it. */
  terminals: boolean;
  /**
   * The tool calls that a policy sees: those that the agent asks about, or every call, for rules that deny.
   */
  policy: "approvals" | "tool_calls";
}

/** A value to choose for a {@link ConfigOption}. */
export interface ConfigChoice {
  /** The value, for {@link Session.setConfigOption}. */
  value: string;
  /** The name, for people. */
  name: string;
  /** The description; null if the agent does not send one. */
  description: string | null;
}

/** An option of a session that can be set while the session is open. */
export interface ConfigOption {
  /** The id, for {@link Session.setConfigOption}. */
  id: string;
  /** The name, for people. */
  name: string;
  /** The description; null if the agent does not send one. */
  description: string | null;
  /** The category: `"model"`, `"thought_level"`, `"mode"` or another; null if the agent names none. */
  category: string | null;
  /** The current value. */
  value: string | boolean;
  /** The values to choose from. Empty if the option is on or off. */
  choices: ConfigChoice[];
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
 * A session with an agent. `Value` is the type of its option `output`. Close it, or declare it with `await using`. If it is garbage collected, its agent is ended. An
 * open session in which nothing happens does not keep the process alive.
 *
 * @example
 * ```ts
 * await using session = await createSession({ workDir: "." });
 * for await (const piece of session.prompt("What is in this directory?").textStream) process.stdout.write(piece);
 * ```
 */
export class Session<Value = unknown> implements AsyncDisposable {
  readonly #bridge: Bridge;
  readonly #native: NativeSession;
  readonly #handlers: Handlers;
  readonly #output: Output | undefined;
  #closed: Promise<KimiAgentError | undefined> | undefined;
  /** The turns that could not begin. */
  #failed: WeakRef<FailedTurn>[] = [];

  private constructor(bridge: Bridge, native: NativeSession, handlers: Handlers, output?: Output, opener?: Opener) {
    refuseNew(native, new.target, "createSession()");
    this.#output = output;
    this.#bridge = bridge;
    this.#native = native;
    this.#handlers = handlers;
    collected.register(this, { bridge, native, opener });
  }

  /** @internal */
  static async open<Value>(
    bridge: Bridge,
    { signal, ...options }: SessionOptions,
    opener?: Opener,
  ): Promise<Session<Value>> {
    const prepared = prepareOptions(options);
    const signals = [takeSignal(signal), takeSignal(opener?.signal)];
    const throwIfAborted = (): void => {
      for (const each of signals) each?.throwIfAborted();
    };
    const handlers = new Handlers(prepared.functions, prepared.tracing);
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
      await bridge.run(undefined, () => ticket, handlers);
      // The abort may have come after the session was open, but before this program was notified.
      throwIfAborted();
    } catch (error) {
      bridge.removeSession(session.key);
      // An abandoned opening fails as closed; the signal knows why.
      throwIfAborted();
      throw error;
    } finally {
      for (const each of forget) each();
    }
    return new Session(bridge, session, handlers, prepared.output, opener);
  }

  /** The session's id, with which it can be resumed. */
  get id(): string {
    return this.#native.id;
  }

  /** The directory that the agent works in. */
  get workDir(): string {
    return this.#native.workDir;
  }

  /** `active` while a turn runs, `closed` after the end of the session, `idle` in all other cases. */
  get state(): "idle" | "active" | "closed" {
    return this.#native.state;
  }

  /** The protocol that the agent speaks: a version of Wire such as "1.10", "legacy", "acp-1" or "kimi-web-2". */
  get protocolVersion(): string {
    return this.#native.protocolVersion;
  }

  /** The agent's process id. */
  get pid(): number | null {
    return this.#native.pid;
  }

  /** The agent's name and version; null if the agent does not report them. */
  get server(): ServerInfo | null {
    return parseMessages(this.#native.serverJson()) as ServerInfo | null;
  }

  /** The agent's capabilities. */
  get capabilities(): Capabilities {
    return this.#native.capabilities() as Capabilities;
  }

  /**
   * The commands that a prompt may begin with. Agents of ACP report them soon after the session has opened, and again when
   * they change; each time `onEvent` gets an `available_commands_update`.
   */
  get slashCommands(): SlashCommand[] {
    return parseMessages(this.#native.slashCommandsJson()) as SlashCommand[];
  }

  /**
   * The options of the session that can be set while it is open, with their current values. Empty if the agent has none.
   * Agents that speak ACP have them, for example for the model, thinking and the mode.
   */
  get configOptions(): ConfigOption[] {
    return JSON.parse(this.#native.configOptionsJson()) as ConfigOption[];
  }

  /** Which of the program's tools the agent accepted, and why it rejected others. */
  get externalTools(): ExternalToolsResult {
    return parseMessages(this.#native.externalToolsJson()) as ExternalToolsResult;
  }

  /** The tokens that the session has taken so far. */
  get usage(): Usage {
    return withTotal(parseMessages(this.#native.usageJson()) as TokenUsage);
  }

  /** The latest value of each field of all status updates: context, plan mode, MCP servers. */
  get status(): StatusUpdate {
    return parseMessages(this.#native.statusJson()) as StatusUpdate;
  }

  /**
   * Begins a turn, and returns at once. Never throws: an error comes out of the turn, from a loop over it and from
   * `result()`. It is a {@link TurnInProgress} while another turn runs, an {@link InvalidOption} for wrong content or
   * options, and the error that ended the session if the session is closed.
   *
   * @param content - Text, a content part, or a list of both.
   * @param options - The signal, the timeouts in milliseconds, the budget and the output of this turn. Default: the session's
   * timeouts and output.
   * @returns The turn, which begins at once.
   *
   * @example
   * ```ts
   * const { text } = await session.prompt("What is in this directory?", { timeout: 60_000 }).result();
   * ```
   */
  prompt<S extends OutputSchema | undefined = undefined>(
    content: UserInput,
    options: PromptOptions<S> = {},
  ): Turn<OutputOfPrompt<S, Value>> {
    return begin(this.#bridge, [this, "prompt"], () => {
      checkPromptNames(options);
      const { signal: given, output: asked, ...rest } = options;
      const signal = takeSignal(given);
      // That of the session is repeated only if its values are checked here.
      const output = readOutput(asked) ?? (this.#output?.validator && this.#output);
      const text = contentJson(content);
      const begun = withOutput(this.#handlers, rest, output, (json) =>
        this.#native.prompt(text, withSpan(this.#handlers.tracing, json, () => this.#native.beginTurn(text, json))),
      );
      this.#handlers.enterTurn();
      return { ...begun, keep: [this, this.#handlers], signal };
    }, (failed) => {
      this.#failed = [...this.#failed.filter((turn) => turn.deref()?.isUnread), new WeakRef(failed)];
    });
  }

  /**
   * Cancels the running turn and waits until it has ended, also if the program has left it. Does nothing without a turn.
   *
   * @throws {Timeout} if the agent does not answer within `cancelTimeout`. The session is then closed.
   * @throws {SessionClosed} if the session is closed, or the error that closed it.
   *
   * @example
   * ```ts
   * process.once("SIGINT", () => void session.cancel());
   * ```
   */
  async cancel(): Promise<void> {
    await this.#bridge.run([this, "cancel"], () => this.#native.cancel(), this);
  }

  /**
   * Replays the messages of the session so far. Never throws: an error comes out of the replay. It is an
   * {@link Unsupported} if the agent cannot replay messages, a {@link TurnInProgress} while a turn runs, and the error that
   * ended the session if the session is closed.
   *
   * @returns The events of the messages, in order.
   *
   * @example
   * ```ts
   * for await (const event of session.replay()) console.log(event.type);
   * ```
   */
  replay(): Replay {
    return atCaller([this, "replay"], () => Replay.of(this.#bridge, callNative(() => this.#native.replay()), this));
  }

  /**
   * Switches plan mode, in which the agent plans and changes nothing.
   *
   * @param on - `true` to switch plan mode on, `false` to switch it off.
   * @throws {Unsupported} if the agent has no plan mode.
   * @throws {Timeout} if the agent does not answer within `handshakeTimeout`.
   *
   * @example
   * ```ts
   * if (session.capabilities.planMode) await session.setPlanMode(true);
   * ```
   */
  async setPlanMode(on: boolean): Promise<void> {
    await this.#bridge.run([this, "setPlanMode"], () => this.#native.setPlanMode(optionJson("on", on)), this);
  }

  /**
   * Sets one of {@link Session.configOptions}, for example the model. A running turn may continue with the earlier value.
   *
   * @param id - The id of the option.
   * @param value - One of the values of its `choices`, or a boolean if the option is on or off.
   * @throws {InvalidOption} if the agent lists no such option or value; the error names those that it lists.
   * @throws {Unsupported} if the agent has no such options. Agents that speak Wire have none.
   *
   * @example
   * ```ts
   * const model = session.configOptions.find(({ category }) => category === "model");
   * const choice = model?.choices[0];
   * if (model && choice) await session.setConfigOption(model.id, choice.value);
   * ```
   */
  async setConfigOption(id: string, value: string | boolean): Promise<void> {
    const option: unknown = id;
    const begin = (): number => {
      if (typeof option === "string") return this.#native.setConfigOption(option, optionJson("value", value));
      throw wrongOption("id", `expected the id of an option as text, got ${show(option)}`);
    };
    await this.#bridge.run([this, "setConfigOption"], begin, this);
  }

  /**
   * Removes the last `count` turns from the conversation. Their changes to files stay.
   *
   * @param count - The number of turns, at least 1. Default: 1.
   * @throws {TurnInProgress} while a turn runs.
   * @throws {Unsupported} if the agent cannot undo turns. Only Kimi Code's server can (`dialect: "kimi-web"`).
   * @throws {InvalidOption} if `count` is not a whole number of at least 1.
   *
   * @example
   * ```ts
   * if (session.capabilities.undo) await session.undo();
   * ```
   */
  async undo(count = 1): Promise<void> {
    await this.#bridge.run([this, "undo"], () => this.#native.undo(optionJson("count", count)), this);
  }

  /**
   * Answers an approval request that came outside of turns, if `onApproval` is `"manual"`. For a request of a turn, use
   * {@link Turn.respond}. An answer to a request that was resolved meanwhile is ignored.
   *
   * @param request - The event of the request, its payload, or its id.
   * @param answer - The decision.
   * @returns When the answer is on its way to the agent.
   * @throws {InvalidOption} if the answer does not fit the request, or this session has no such request.
   *
   * @example
   * ```ts
   * const session: Session = await createSession({
   *   onApproval: "manual",
   *   onEvent: async (event) => {
   *     if (event.type === "ApprovalRequest") await session.respond(event, "reject");
   *   },
   * });
   * ```
   */
  respond(request: RequestReference<"ApprovalRequest">, answer: ApprovalAnswer): Promise<void>;
  /**
   * Answers questions that came outside of turns, if `onQuestion` is `"manual"`. For questions of a turn, use
   * {@link Turn.respond}.
   *
   * @param request - The event of the request, its payload, or its id.
   * @param answer - The answers, by the texts of the questions; null dismisses the questions.
   * @returns When the answer is on its way to the agent.
   * @throws {InvalidOption} if the answer does not fit the request, or this session has no such request.
   *
   * @example
   * ```ts
   * const session: Session = await createSession({
   *   onQuestion: "manual",
   *   onEvent: async (event) => {
   *     if (event.type === "QuestionRequest") await session.respond(event, null);
   *   },
   * });
   * ```
   */
  respond(request: RequestReference<"QuestionRequest">, answer: QuestionAnswer): Promise<void>;
  async respond(request: RequestReference, answer: ApprovalAnswer | QuestionAnswer): Promise<void> {
    const begin = (): number => this.#native.respond(...requestReference(request), givenAnswerJson(answer));
    await this.#bridge.run([this, "respond"], begin, this);
  }

  /**
   * Cancels the running turn, ends the agent and waits until its process has exited. Can be called again.
   *
   * @param options - `timeout`, in milliseconds, overrides `closeTimeout`. 0 kills the agent at once; a running turn then
   * fails with {@link SessionClosed}. Default: `closeTimeout`.
   * @throws {Timeout} if the process cannot be ended.
   * @throws {RpcError} if the agent compares the program with a recording, and the program has left out something. Only
   * the first call throws it.
   * @throws {InvalidOption} if `timeout` is not a number of milliseconds.
   *
   * @example
   * ```ts
   * await session.close({ timeout: 2_000 });
   * ```
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#bridge.run([this, "close"], () => {
      const ticket = this.#native.close(closeTimeout(options));
      for (const turn of this.#failed.splice(0)) turn.deref()?.abandon();
      return ticket;
    }, this);
  }

  /**
   * A promise that is fulfilled when the session is closed and its agent has exited, also if an idle agent exits. It is never
   * rejected. Its value is the error that closed the session, undefined after {@link Session.close}. From the first use of this
   * property on, the session and the process are kept alive until then.
   *
   * @example
   * ```ts
   * const error = await session.closed;
   * if (error !== undefined) console.error("the agent is gone:", error);
   * ```
   */
  get closed(): Promise<KimiAgentError | undefined> {
    this.#closed ??= this.#bridge.run(undefined, () => this.#native.waitClosed(), this).then(
      () => undefined,
      (error: unknown) => error as KimiAgentError,
    );
    return this.#closed;
  }

  /**
   * Closes the session at the end of the block that declares it with `await using`.
   *
   * @returns When the agent's process has exited.
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

showAs(Session, "Session", ({ id, server, state, pid }) => ({ id, agent: server?.name ?? null, state, pid }));

hintAt(Session, { steer: "a steer is for a running turn: `const turn = session.prompt(…)`, then `await turn.steer(…)`" });

/**
 * Opens a session with an agent of its own: starts the agent and waits until it is ready.
 *
 * @param options - The options of the session and of its agent; see {@link SessionOptions}. Default: none.
 * @returns The session, when the agent is ready.
 * @throws {InvalidOption} if an option is wrong; nothing is started then.
 * @throws {SpawnError} if the agent cannot be started.
 * @throws {HandshakeError} if the agent does not open the session, or speaks an unknown protocol.
 * @throws {AgentExited} if the agent exits before the session is open.
 * @throws {Timeout} if the opening takes longer than `handshakeTimeout`.
 *
 * @example
 * ```ts
 * await using session = await createSession({ workDir: "." });
 * for await (const piece of session.prompt("Hello").textStream) process.stdout.write(piece);
 * ```
 */
export function createSession<S extends OutputSchema | undefined = undefined>(
  options?: SessionOptions<S>,
): Promise<Session<OutputOf<S>>>;
export async function createSession(options: SessionOptions = {}, ...others: unknown[]): Promise<Session> {
  return laterAtCaller(createSession, () => {
    refuseMore("createSession()", others);
    return Session.open(Bridge.get(), checkedOptions("createSession()", options));
  });
}

/**
 * Begins a turn in a session of its own, which is closed when the turn has ended. Never throws: an error, also of a wrong
 * option, comes out of the turn.
 *
 * @param content - Text, a content part, or a list of both.
 * @param options - The options of the session and of the prompt. `timeout`, in milliseconds, is for the turn, without the
 * start of the agent. Default: none.
 * @returns The turn.
 *
 * @example
 * ```ts
 * const { text } = await prompt("What is in this directory?", { workDir: "." }).result();
 * ```
 */
export function prompt<S extends OutputSchema | undefined = undefined>(
  content: UserInput,
  options?: SessionOptions<S> & PromptOptions<S>,
): Turn<OutputOf<S>>;
export function prompt(content: UserInput, options: SessionOptions & PromptOptions = {}, ...others: unknown[]): Turn {
  return promptOnce(Bridge.get(), content, options, prompt, others);
}

/** @internal */
export function promptOnce<Value>(bridge: Bridge, content: UserInput, options: SessionOptions & PromptOptions, entry?: Entry, others: readonly unknown[] = []): Turn<Value> {
  return begin(bridge, entry ?? promptOnce, () => {
    refuseMore("prompt()", others);
    const { signal: given, timeout, budget, output, ...rest } = checkedOptions("prompt()", options);
    const { optionsJson, callbacks, functions, tracing } = prepareOptions(rest);
    const signal = takeSignal(given);
    const handlers = new Handlers(functions, tracing);
    const text = contentJson(content);
    const begun = withOutput(handlers, { timeout, budget }, readOutput(output), (json) => {
      const { NativeSession: native } = bridge.module;
      const given = withSpan(tracing, json, () => native.beginOneShot(text, json, optionsJson));
      const { turn, sessionKey } = native.oneShot(bridge.native, text, given, optionsJson, callbacks);
      bridge.addSession(sessionKey, handlers);
      return turn;
    });
    return { ...begun, keep: [handlers], signal };
  });
}

/** Begins a turn with an output, which is checked here if it has a validator. `prompt` takes the options as JSON. */
function withOutput(
  handlers: Handlers,
  options: object,
  output: Output | undefined,
  prompt: (optionsJson: string) => NativeTurn,
): Pick<Begun, "native" | "output"> {
  const checked = output?.validator && handlers.addCheck(output.validator);
  const spec = output && { ...output.spec, check: checked?.number };
  try {
    return { native: callNative(() => prompt(objectJson({ ...options, output: spec }))), output: checked };
  } catch (error) {
    checked?.remove();
    throw error;
  }
}

/** Checks the names of the options of a prompt, before their values. */
function checkPromptNames(options: PromptOptions): void {
  const names = Object.keys(checkedOptions("prompt()", options)).filter((name) => name !== "signal");
  callNative(() => {
    loadNative().checkPromptNames(names);
  });
}

/** Begins a turn. If that fails, the turn exists and fails. */
function begin<Value>(bridge: Bridge, entry: Entry, how: () => Begun, onFailed?: (turn: FailedTurn) => void): Turn<Value> {
  let begun: Begun;
  try {
    begun = atCaller(entry, how);
  } catch (error) {
    const native = new FailedTurn(error);
    onFailed?.(native);
    begun = { native, keep: [], signal: undefined, output: undefined };
  }
  return Turn.of(bridge, begun);
}
