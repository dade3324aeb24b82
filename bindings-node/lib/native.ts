/** What the addon offers, and how it is found. Nothing here is public: the package's surface is in index.ts. */

import { KimiAgentError, SpawnError } from "./errors.js";
import { installedFile } from "./installed.js";
import { fs, nodeModule } from "./node.js";
import type { Event } from "./wire.js";

/**
 * What the addon has to say, fetched by {@link NativeBridge.drain} as one JSON text.
 *
 * - `done` and `failed` settle a ticket.
 * - `readable` follows a {@link NativeTurn.drain} that returned null, once.
 * - `settled` comes once a turn, when its outcome is known or it has been abandoned, read or not.
 * - `job` asks for a handler to be run and {@link NativeBridge.jobDone} to be called; `cancel_job` means that nobody
 *   waits for it any more. The last fields say whether the job belongs to the session's running turn, and which request
 *   the payload is.
 * - `log` comes only after {@link NativeBridge.setLogLevel}.
 */
export type Delivery =
  | ["done", ticket: number, value: unknown]
  | ["failed", ticket: number, code: string, message: string, fields: ErrorFields]
  | ["readable", turnKey: number]
  | ["settled", turnKey: number]
  | [
      "job",
      jobId: number,
      sessionKey: number,
      kind: JobKind,
      index: number | null,
      payload: unknown,
      inTurn: boolean,
      origin?: RequestOrigin | null,
    ]
  | ["cancel_job", jobId: number]
  | ["log", level: LogLevel, target: string, message: string];

/**
 * Which handler a job is for; its `index` is the tool's or the hook's place in the options. Its payload is the
 * request's, for a tool the parsed arguments, for stderr the line.
 */
export type JobKind = "approval" | "question" | "tool" | "hook" | "event" | "stderr";

/** Which request of which session an event is. The addon gives it, and takes it back with an answer. */
export type RequestOrigin = [session: number, request: number];

/** How grave a log record is. */
export type LogLevel = "error" | "warn" | "info" | "debug" | "trace";

/** What an error carries besides code and text. */
export interface ErrorFields {
  option?: string;
  exit_code?: number | null;
  signal?: string | null;
  stderr?: string;
  rpc_code?: number | null;
  hint?: string | null;
  retryable?: boolean;
  message?: string;
  data?: unknown;
  steps?: number | null;
}

/**
 * One a JavaScript environment. `wake` is called on its thread, once for any number of deliveries, and is the only
 * call that the addon makes into JavaScript. Errors are thrown with `{"code","message","fields"}` as their message.
 */
export interface NativeBridge {
  /** Everything that waits, as a JSON array of {@link Delivery}; `[]` when there is nothing. */
  drain(): string;
  /** The handler's answer (as JSON) or its failure (as text). An id that is no longer known is ignored. */
  jobDone(jobId: number, valueJson: string | null, error: string | null): void;
  /** Keeps the process alive, until {@link unref}. Not counted: twice is once. */
  ref(): void;
  unref(): void;
  /** From which level on records are delivered; `null` for none, which is how a bridge starts. */
  setLogLevel(level: LogLevel | null): void;
  close(): void;
}

/**
 * A session. `optionsJson` holds the options that are data, named as in Node, timeouts in milliseconds;
 * `callbacksJson` says which functions there are: `on_approval` and `on_question` are `"handler"`, `on_event` and
 * `on_stderr` true, `tools` and `hooks` as in the options without their handlers.
 */
export interface NativeSession {
  readonly key: number;
  readonly id: string;
  readonly workDir: string;
  readonly state: "idle" | "active" | "closed";
  readonly protocolVersion: string;
  readonly pid: number | null;
  /** `{server, capabilities, external_tools}` as JSON, `server` null if it is unknown. */
  info(): string;
  /** The commands that were told last as JSON. */
  slashCommands(): string;
  /** The session's token usage as JSON. */
  usage(): string;
  /** A `StatusUpdate` as JSON, all updates put together. */
  status(): string;
  prompt(contentJson: string, optionsJson: string): NativeTurn;
  replay(): NativeTurn;
  setPlanMode(onJson: string): number;
  respond(requestId: string, origin: RequestOrigin | null, answerJson: string): number;
  /** A ticket for the end of the turn that runs, if there is one. */
  cancel(): number;
  close(timeoutJson: string): number;
  /** Lets go without waiting, as when the session was garbage collected. */
  abandon(): void;
}

/** An agent, which opens sessions. Its own jobs are those of `onStderr`. */
export interface NativeAgent {
  readonly key: number;
  /** As `NativeSession.open`; with the id of a session to go on with, or to begin with its past. */
  createSession(
    resume: string | null,
    fork: string | null,
    optionsJson: string,
    callbacksJson: string,
  ): { session: NativeSession; ticket: number };
  /** A ticket for `{id, work_dir, title, updated_at}[]`. */
  listSessions(workDir: string | null): number;
  close(timeoutJson: string): number;
  /** Lets go without waiting, as when the agent was garbage collected. */
  abandon(): void;
}

/** A batch of events, as {@link NativeTurn.drain} gives it. */
export interface Batch {
  /**
   * Canonical events; an unknown one is `{"type":"UnknownEvent","payload":{"type","payload","error"?}}`. A text part is
   * the length of its text, or, if that is long, null.
   */
  events: (Event | number | null)[];
  /** Which of the events are requests, and which. Left out if none is. */
  origins?: [place: number, session: number, request: number][];
  /** The step of the next unread event: its place in the turn, and the agent's number; null while there is none. */
  next: [index: number, n: number] | null;
  /** Nothing follows: in the turn, or in the step that was asked for. */
  ended: boolean;
}

/** A turn, or the events of a replay. */
export interface NativeTurn {
  readonly key: number;
  readonly id: string;
  /**
   * Up to `max` events that are there now: the JSON of a {@link Batch}, the texts whose lengths stand there, one after
   * the other, and those that are null there, each for itself. With the index of a step: only events of that step. `drain(0, null, 0)` looks what comes
   * next. Null when there is nothing to say; then a `readable` delivery will follow. Of the events that were drained
   * before, the program has `got` so many more.
   */
  drain(max: number, step: number | null, got: number): [batchJson: string, texts: string, ...long: string[]] | null;
  /** Gives back the credit of `count` drained events: the program has them now. */
  acknowledge(count: number): void;
  /** `{"result": …}` or `{"error": {"code","message","fields"}}` as JSON once the turn has settled. */
  outcome(): string | null;
  /** A ticket for the result; takes no events away. Refused in a job that the turn waits for. */
  result(within: number | null): number;
  /** A loop begins to read. Throws if the turn is read in the other mode, or by another loop. */
  readerStarted(byStep: boolean): void;
  cancel(): number;
  steer(contentJson: string): number;
  respond(requestId: string, origin: RequestOrigin | null, answerJson: string): number;
  /** The turn's token usage as JSON. */
  usage(): string;
  readonly discarded: number;
  /** The program has left the turn: what is unread is discarded, and it is cancelled in the background. */
  abandon(): void;
}

/**
 * A folder of files that only this user can read; made with the first. Where the process is killed, a later one that opens
 * a session removes it.
 */
export interface NativeFolder {
  /** Writes a file; returns its path. */
  write(name: string, content: string): string;
  remove(): void;
}

/** The addon. */
export interface NativeModule {
  PrivateFolder: new () => NativeFolder;
  Bridge: new (wake: () => void) => NativeBridge;
  NativeSession: {
    open(bridge: NativeBridge, optionsJson: string, callbacksJson: string): { session: NativeSession; ticket: number };
    /**
     * A session for one prompt. Its jobs carry `sessionKey`, and the session is closed when the turn has settled.
     */
    oneShot(
      bridge: NativeBridge,
      contentJson: string,
      promptJson: string,
      optionsJson: string,
      callbacksJson: string,
    ): { turn: NativeTurn; sessionKey: number };
  };
  NativeAgent: {
    open(bridge: NativeBridge, optionsJson: string, callbacksJson: string): NativeAgent;
  };
  /** Throws for the first name that is no option. */
  checkNames(names: string[]): void;
  /** Throws the error for an option whose value has no form as JSON; `got` says what it is. */
  wrongType(option: string, got: string): never;
  /** Closes every session of the process, within bounds; blocks meanwhile. */
  shutdown(): void;
  /** An image part from a file, which is read at once, as JSON. */
  imageFile(path: string): string;
  /** An image part from the bytes of an image file, as JSON. */
  imageBytes(bytes: Uint8Array): string;
  /** Throws `invalid_option` for `script` if the scripted agent would refuse it; `isPath`: it is the path of a file. */
  checkScript(script: string, isPath: boolean): void;
  /** Text with control and bidirectional characters as escapes. */
  printable(text: string): string;
  /** Runs the scripted agent on this process's stdin and stdout; `argv` is without the program. Returns its exit code. */
  runScriptedAgent(argv: string[]): number;
}

const TRIPLETS: Partial<Record<NodeJS.Platform, (arch: string) => string>> = {
  linux: (arch) => `linux-${arch}-${usesMusl() ? "musl" : "gnu"}`,
  win32: (arch) => `win32-${arch}-msvc`,
};

/** The name of the addon's file for the machine that this runs on. */
export function nativeFileName(): string {
  const triplet = TRIPLETS[process.platform] ?? ((arch: string) => `${process.platform}-${arch}`);
  return `kimi-agent.${triplet(process.arch)}.node`;
}

function usesMusl(): boolean {
  const loader = process.arch === "x64" ? "x86_64" : process.arch === "arm64" ? "aarch64" : process.arch;
  return fs.existsSync(`/lib/ld-musl-${loader}.so.1`) && !hasGlibc();
}

/** A glibc machine may have musl's loader installed beside its own. */
function hasGlibc(): boolean {
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return report.header?.glibcVersionRuntime !== undefined;
}

let loaded: NativeModule | undefined;

/** Loads the addon, once. */
export function loadNative(): NativeModule {
  if (loaded) return loaded;
  const file = installedFile(nativeFileName(), "its native module");
  try {
    // Not a plain `require`, which bundlers replace.
    loaded = nodeModule.createRequire(file)(file) as NativeModule;
  } catch (error) {
    const platform = `${process.platform}-${process.arch}`;
    const text = `kimi-agent could not load its native module for ${platform}, ${file}: ${String(error)}`;
    // The package is intact. The call can be repeated when there are descriptors again.
    if (text.includes("Too many open files")) {
      throw new SpawnError(`${text}; close files or sessions, or raise the limit (\`ulimit -n\`)`, { cause: error });
    }
    throw new KimiAgentError(text, { cause: error });
  }
  return loaded;
}
