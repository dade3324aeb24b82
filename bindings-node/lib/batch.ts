/** Batches: many prompts, each in a session of its own, several at once. */

import "./dispose.js";

import type { NativeBatch } from "./addon.js";
import { checkedOptions, kindOf, refuseMore, refuseNew, toJson, wrongOption } from "./arguments.js";
import { Bridge } from "./bridge.js";
import type { Budget } from "./budget.js";
import type { UserInput } from "./content.js";
import { atCaller, type CallSite, callSite, raisedAt } from "./call-site.js";
import { type KimiAgentError } from "./error-base.js";
import { InvalidOption, TurnCancelled } from "./errors.js";
import { callNative } from "./native-errors.js";
import { Handlers } from "./handlers.js";
import { showAs } from "./inspect.js";
import { unwatchInterrupts, watchInterrupts } from "./interrupts.js";
import { encodeJob, readSource, type Source } from "./job.js";
import { log } from "./log.js";
import { type Usage, withTotal } from "./messages.js";
import type { BatchOptions, JobSettings } from "./option-types.js";
import { prepareOptions } from "./options.js";
import { type OutputCheck, type OutputOf, type OutputSchema, readOutput } from "./output.js";
import { type ProgressDisplay, progressDisplay } from "./progress.js";
import { PromptResult, type ResultFields, type TurnStatus } from "./result.js";
import { takeSignal, whenAborted } from "./signal.js";
import { isThenable } from "./values.js";
import type { Content, JsonObject, TokenUsage } from "./wire.js";

/** A prompt of a batch with options of its own. The options of the session override those of the batch. */
export interface Job extends JobSettings {
  /** Text, a content part, or a list of both. */
  prompt: UserInput;
  /**
   * The name of the job in results and in the journal. It must differ from those of the other jobs. Default: a hash of the
   * prompt and the options.
   */
  key?: string | undefined;
  /** The directory that the agent works in. Default: that of the batch. */
  workDir?: string | undefined;
  /** A JSON value that the result and the journal contain unchanged. Default: null. */
  data?: unknown;
  /** The longest time of one attempt, in milliseconds. Default: `jobTimeout` of the batch. */
  timeout?: number | undefined;
  /** The most that one attempt may use. Default: no limit. */
  budget?: Budget | undefined;
}

/** The jobs of a batch: an iterable or async iterable of texts and jobs, and not a text. */
export type JobSource = (Iterable<string | Job> & object) | AsyncIterable<string | Job>;

/** How a batch retries jobs. The delay before an attempt is random, and at most the one that the limits give. */
export interface Retry {
  /** The most attempts of a job, the first one included. 1: no retries. Default: 3. */
  attempts?: number | undefined;
  /** The longest delay before the second attempt, in milliseconds. Default: 1,000. */
  initialDelay?: number | undefined;
  /** The longest delay before any attempt, in milliseconds. Default: 60,000. */
  maxDelay?: number | undefined;
  /** The factor by which each attempt makes the delay longer. Default: 2. */
  multiplier?: number | undefined;
}

/** The numbers of a running batch, for `onProgress`. */
export interface Progress {
  /** The number of jobs; null unless the jobs are an array. */
  readonly total: number | null;
  /** The jobs that have ended, failed jobs and results from the journal included. */
  readonly done: number;
  /** The jobs that have failed. */
  readonly failed: number;
  /** The jobs that run. */
  readonly running: number;
  /** The jobs that wait for another attempt. */
  readonly waiting: number;
  /** The attempts after the first one, of all jobs. */
  readonly retried: number;
  /** The tokens that the attempts of this run took. */
  readonly tokens: number;
  /** The most jobs that may run at once at the moment. An overloaded model lowers it. */
  readonly concurrency: number;
  /** The milliseconds since the batch began. */
  readonly elapsed: number;
}

/** How a job ended. */
export type JobStatus = TurnStatus | "failed";

/** A result as the core writes it. */
interface JobFields {
  key: string;
  index: number;
  status: JobStatus;
  prompt: Content;
  data: unknown;
  result: ResultFields | null;
  usage: TokenUsage;
  attempts: number;
  duration: number;
  recording: string | null;
  diff: string | null;
  workspace: string | null;
  from_journal: boolean;
}

/**
 * The result of a job. `Value` is the type of its {@link JobResult.output}.
 *
 * @example
 * ```ts
 * for await (const result of runBatch(["Summarize README.md", "Summarize LICENSE"], { workDir: "." })) {
 *   console.log(result.status, result.error?.message ?? result.text);
 * }
 * ```
 */
export class JobResult<Value = unknown> {
  /** The key of the job: its own, or a hash of its prompt and options. */
  readonly key: string;
  /** The position of the job, from 0 on. */
  readonly index: number;
  /** How the job ended. */
  readonly status: JobStatus;
  /** The prompt of the job. */
  readonly prompt: Content;
  /** The `data` of the job. */
  readonly data: unknown;
  /** The outcome of the turn. Undefined if the job failed, or was cancelled before its turn began. */
  readonly result: PromptResult<Value> | undefined;
  /** The error of the last attempt, if the job failed. */
  readonly error: KimiAgentError | undefined;
  /** The tokens of all attempts. */
  readonly usage: Usage;
  /** The number of attempts, from 1 on. */
  readonly attempts: number;
  /** The milliseconds from the start of the first attempt to the end of the last one. */
  readonly duration: number;
  /** The path of the recording of the last attempt, if `record` is set. */
  readonly recording: string | undefined;
  /**
   * The changes of the last attempt, as `git diff` prints them. Undefined without `workspace: "worktree"`, and if they cannot be read;
   * then the worktree is kept.
   */
  readonly diff: string | undefined;
  /** The copy or the worktree, if it was kept. */
  readonly workspace: string | undefined;
  /** Whether the result is from the journal, so that the job did not run now. */
  readonly fromJournal: boolean;

  readonly #fields: JobFields;

  /** @internal */
  constructor(fields: JobFields, error: KimiAgentError | undefined, output: unknown) {
    this.#fields = fields;
    this.key = fields.key;
    this.index = fields.index;
    this.status = fields.status;
    this.prompt = fields.prompt;
    this.data = fields.data;
    this.result = fields.result === null ? undefined : new PromptResult<Value>({ ...fields.result, output });
    this.error = error;
    this.usage = withTotal(fields.usage);
    this.attempts = fields.attempts;
    this.duration = fields.duration * 1000;
    this.recording = fields.recording ?? undefined;
    this.diff = fields.diff ?? undefined;
    this.workspace = fields.workspace ?? undefined;
    this.fromJournal = fields.from_journal;
  }

  /** The text of the last step. Empty without a {@link JobResult.result}. */
  get text(): string {
    return this.result?.text ?? "";
  }

  /** The value of the option `output`, also if the result is from the journal. Undefined without a value. */
  get output(): Value | undefined {
    return this.result?.output;
  }

  /**
   * Returns the outcome of the turn if it finished.
   *
   * @returns The outcome, which has a value of `output` if the batch has this option.
   * @throws {KimiAgentError} if the job failed: its `error`.
   * @throws {TurnCancelled} if the job was cancelled.
   * @throws {MaxStepsReached} if the turn ended at its limit of steps.
   *
   * @example
   * ```ts
   * for await (const result of runBatch(["Summarize README.md"])) console.log(result.raiseForStatus().text);
   * ```
   */
  raiseForStatus(): PromptResult<Value> & {
    /** The value of the option `output`. */
    readonly output: Value;
  } {
    if (this.error !== undefined) throw this.error;
    if (this.result === undefined) {
      throw new TurnCancelled(`the job ${JSON.stringify(this.key)} was cancelled before its turn began; run the batch again`);
    }
    return this.result.raiseForStatus();
  }

  /**
   * Returns the result as JSON: the object in the journal and in the results of `kimi-agent batch`, with its names.
   *
   * @returns The object. Its `duration` is in seconds.
   *
   * @example
   * ```ts
   * for await (const result of runBatch(["Summarize README.md"])) console.log(JSON.stringify(result));
   * ```
   */
  toJSON(): JsonObject {
    return this.#fields as unknown as JsonObject;
  }
}

interface Remains {
  bridge: Bridge;
  native: NativeBatch;
}

const collected = new FinalizationRegistry<Remains>(({ bridge, native }) => {
  bridge.removeSession(native.key);
  bridge.unwatch(native);
  unwatchInterrupts(native.key);
  native.abandon();
});

/** The parts of a batch that its calls share. */
interface Parts {
  bridge: Bridge;
  native: NativeBatch;
  handlers: Handlers;
  source: Source;
  state: State;
  check: OutputCheck | undefined;
  signal: AbortSignal | undefined;
}

/** The error of the source of the jobs, if it failed, and the display. */
interface State {
  failure: { thrown: unknown; isOfJob: boolean } | undefined;
  display: ProgressDisplay | undefined;
}

/** A delivery of the bridge for a job. */
interface Delivered {
  fields: JobFields;
  error: KimiAgentError | undefined;
}

/**
 * A running batch. `for await (const result of batch)` gives the results as the jobs end. To stop early, leave the loop: the
 * batch is cancelled. Also declare it with `await using`, or call {@link Batch.cancel}.
 *
 * @example
 * ```ts
 * await using batch = runBatch(["Summarize README.md", "Summarize LICENSE"], { concurrency: 2 });
 * for await (const result of batch) console.log(result.text);
 * ```
 */
export class Batch<Value = unknown> implements AsyncIterable<JobResult<Value>>, AsyncDisposable {
  readonly #parts: Parts;
  readonly #stopListening: () => void;
  #hasEnded = false;

  private constructor(parts: Parts) {
    refuseNew(parts, new.target, "runBatch()");
    this.#parts = parts;
    const { bridge, native, signal } = parts;
    bridge.watch(native);
    collected.register(this, { bridge, native });
    watchInterrupts(native.key, () => bridge.run(undefined, () => native.cancel()));
    this.#stopListening = whenAborted(signal, () => {
      void bridge.run(undefined, () => native.cancel()).catch(() => undefined);
    });
  }

  /** @internal */
  static stateOf(batch: Batch): string {
    return batch.#hasEnded ? "ended" : "running";
  }

  /** @internal */
  static open<Value>(bridge: Bridge, jobs: JobSource, options: BatchOptions): Batch<Value> {
    const { signal: given, output: givenOutput, onProgress, progress, ...rest } = options;
    refuseForeign(rest);
    callNative(() => {
      bridge.module.checkBatchNames(Object.keys(rest));
    });
    const signal = takeSignal(given);
    const source = readSource(jobs);
    const display = readDisplay(progress);
    const state: State = { failure: undefined, display };
    const { optionsJson, callbacks, functions, tracing } = prepareOptions(rest, true);
    functions.nextJob = nextJob(source, state);
    const report = readProgress(onProgress, display);
    if (report) functions.progress = report;
    const handlers = new Handlers(functions, tracing);
    const output = readOutput(givenOutput);
    const checked = output?.validator && handlers.addCheck(output.validator, false);
    const data = JSON.parse(optionsJson) as JsonObject;
    const json = toJson({ ...data, total: source.total, output: output && { ...output.spec, check: checked?.number } });
    const open = (): NativeBatch => bridge.module.NativeBatch.open(bridge.native, json, callbacks, report !== undefined);
    const native = callNative(open);
    bridge.addSession(native.key, handlers);
    return new Batch({ bridge, native, handlers, source, state, check: checked?.check, signal });
  }

  /**
   * Reads the results, each once. Leaving the loop cancels the batch.
   *
   * @returns An iterator. Its `next()` throws the error that ended the batch, after the results: {@link InvalidOption} for two
   * jobs with the same key, for a journal that cannot be used, and for jobs that cannot be read (if the iterable failed, `cause`
   * is its error); {@link SpawnError} if the program of the option `executable` does not exist or cannot be executed;
   * {@link Timeout} if the batch took longer than `timeout`.
   */
  [Symbol.asyncIterator](): AsyncIterator<JobResult<Value>, undefined> & AsyncIterable<JobResult<Value>> {
    // Not an `AsyncIterableIterator`, which has no parameter for `undefined` before TypeScript 5.6.
    const iterator: AsyncIterator<JobResult<Value>, undefined> & AsyncIterable<JobResult<Value>> = {
      next: () => this.#next(callSite([iterator, "next"])),
      return: async () => {
        await this.cancel();
        return { done: true, value: undefined };
      },
      [Symbol.asyncIterator]: () => iterator,
    };
    return iterator;
  }

  /**
   * Cancels the batch and waits until all jobs have ended. Can be called again. No job starts any more. The jobs that run are
   * cancelled, and their results have the status `cancelled`. The batch still gives the results that were not read. The journal
   * is then complete, and the same call of {@link runBatch} continues later.
   *
   * @example
   * ```ts
   * const batch = runBatch(["Write a book"]);
   * await batch.cancel();
   * ```
   */
  async cancel(): Promise<void> {
    const { bridge, native } = this.#parts;
    await bridge.run([this, "cancel"], () => native.cancel(), this);
    this.#end();
  }

  /**
   * Cancels the batch at the end of the block that declares it with `await using`.
   *
   * @returns When all jobs have ended.
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.cancel();
  }

  async #next(site: CallSite): Promise<IteratorResult<JobResult<Value>, undefined>> {
    const { bridge, native, handlers, check } = this.#parts;
    let delivered: Delivered | undefined;
    try {
      delivered = await bridge.run<Delivered | undefined>(undefined, () => native.next(), [this, handlers]);
    } catch (error) {
      this.#end();
      throw this.#cause(error, site);
    }
    if (!delivered) {
      this.#end();
      return { done: true, value: undefined };
    }
    const { fields, error } = delivered;
    const value = await typedOutput(fields, check);
    return { done: false, value: new JobResult<Value>(fields, error, value) };
  }

  /** The error to throw for an error of the batch. A wrong job has an error that is as clear as one of the core. */
  #cause(error: unknown, site: CallSite): unknown {
    const { failure } = this.#parts.state;
    this.#parts.state.failure = undefined;
    if (failure === undefined || !(error instanceof InvalidOption)) return raisedAt(error, site);
    if (failure.thrown instanceof InvalidOption) return failure.isOfJob ? raisedAt(failure.thrown, site) : failure.thrown;
    return Object.assign(raisedAt(error, site), { cause: failure.thrown });
  }

  #end(): void {
    this.#hasEnded = true;
    const { bridge, native } = this.#parts;
    unwatchInterrupts(native.key);
    bridge.unwatch(native);
    this.#stopListening();
    this.#parts.source.close();
    this.#parts.state.display?.close();
  }
}

showAs(Batch, "Batch", (batch) => ({ state: Batch.stateOf(batch) }));

/** The value of a result as the schema converts it. */
async function typedOutput({ key, result }: JobFields, check: OutputCheck | undefined): Promise<unknown> {
  const value = result?.output ?? undefined;
  if (value === undefined || check === undefined) return value;
  try {
    return await check.parse(value);
  } catch (error) {
    // A journal can be older than the schema.
    const reason = `the value of the job ${JSON.stringify(key)} does not fit \`output\``;
    throw wrongOption("journal", `${reason}; continue with the next result, or start a new journal`, error);
  }
}

/** Returns the handler for the next job: its JSON value, or null after the last one. */
function nextJob(source: Source, state: State): () => Promise<unknown> {
  return async () => {
    let isOfJob = false;
    try {
      const { done, value } = await source.next();
      if (done) return null;
      isOfJob = true;
      return encodeJob(value);
    } catch (thrown) {
      state.failure = { thrown, isOfJob };
      throw thrown;
    }
  };
}

/** Refuses options that the core takes from a binding, and a program in Node may not set. */
function refuseForeign(options: object): void {
  if ("total" in options) throw wrongOption("total", "unknown option");
  if ("on" in options) throw wrongOption("on", "unknown option; only a program in Python can run a batch on other machines");
}

function readDisplay(progress: unknown): ProgressDisplay | undefined {
  if (progress === undefined || progress === null || progress === false) return undefined;
  if (progress === true) return progressDisplay();
  const expected = "expected a boolean, which shows the progress; a function belongs to `onProgress`";
  throw wrongOption("progress", `${expected}; got ${kindOf(progress)}`);
}

function readProgress(
  onProgress: unknown,
  display: ProgressDisplay | undefined,
): ((progress: Progress) => unknown) | undefined {
  const isSet = onProgress !== undefined && onProgress !== null;
  if (isSet && typeof onProgress !== "function") {
    throw wrongOption("onProgress", `expected a function, got ${kindOf(onProgress)}`);
  }
  if (!isSet && display === undefined) return undefined;
  const report = isSet ? oneAtATime(logged(onProgress as (progress: Progress) => unknown)) : undefined;
  return (progress) => {
    display?.update(progress);
    return report?.(progress);
  };
}

/** Returns a handler that never fails. Its failures are logged, the first one of the batch as a warning. */
function logged(handler: (progress: Progress) => unknown): (progress: Progress) => unknown {
  let hasFailed = false;
  const onFailure = (thrown: unknown): void => {
    log.observerFailed("progress", thrown, hasFailed);
    hasFailed = true;
  };
  return (progress) => {
    try {
      const returned = handler(progress);
      return isThenable(returned) ? Promise.resolve(returned).catch(onFailure) : undefined;
    } catch (thrown) {
      onFailure(thrown);
      return undefined;
    }
  };
}

/** Calls the handler again only when its promise has ended, with the newest progress. */
function oneAtATime(handler: (progress: Progress) => unknown): (progress: Progress) => unknown {
  let isRunning = false;
  let waiting: Progress | undefined;
  const report = (progress: Progress): unknown => {
    if (isRunning) {
      waiting = progress;
      return undefined;
    }
    const returned = handler(progress);
    if (!isThenable(returned)) return undefined;
    isRunning = true;
    return Promise.resolve(returned).finally(() => {
      isRunning = false;
      const next = waiting;
      waiting = undefined;
      return next === undefined ? undefined : report(next);
    });
  };
  return report;
}

/**
 * Runs many prompts, each in a session of its own, several at once. Gives the results as the jobs end.
 *
 * Returns at once, while the batch runs. Jobs are taken from `jobs` one by one when they can start, so an endless iterable needs
 * little memory. At most twice as many results as jobs that run at once wait for the program; then no job starts until it reads
 * them. A job that fails is a result with an `error`, and the batch continues. With `journal`, each result is written to a file.
 * The same call continues after an interruption: jobs that have a result in the file do not run again.
 *
 * On Ctrl-C the running jobs are cancelled, and then the process exits with code 130, unless the program listens to `SIGINT`.
 *
 * If the option `signal` is aborted while the batch runs, the batch is cancelled as {@link Batch.cancel} does it: the results
 * have the status `cancelled`, and nothing is thrown. If it is aborted before the call, the call throws the reason of the
 * signal, an `AbortError` by default, and no job runs.
 *
 * @param jobs - An iterable or async iterable of texts, or of objects with a `prompt`; see {@link Job}.
 * @param options - The options of the batch, and those of the session of each job; see {@link BatchOptions}. Default: none.
 * @returns The batch, which runs already.
 * @throws {InvalidOption} if an option is wrong.
 *
 * @example
 * ```ts
 * const jobs = [1, 2, 3].map((issue) => ({ prompt: `Fix issue ${String(issue)}`, key: `issue-${String(issue)}` }));
 * for await (const result of runBatch(jobs, { concurrency: 8, journal: "batch.jsonl", workDir: "." })) {
 *   console.log(result.key, result.status, result.text);
 * }
 * ```
 */
export function runBatch<S extends OutputSchema | undefined = undefined>(
  jobs: JobSource,
  options?: BatchOptions<S>,
): Batch<OutputOf<S>>;
export function runBatch(jobs: JobSource, options: BatchOptions = {}, ...others: unknown[]): Batch {
  return atCaller(runBatch, () => {
    refuseMore("runBatch()", others);
    return Batch.open(Bridge.get(), jobs, checkedOptions("runBatch()", options));
  });
}
