/** The jobs of a batch, as the core takes them. */

import { optionJson, reading, show, wrongOption } from "./arguments.js";
import type { Job, JobSource } from "./batch.js";
import { contentJson } from "./content.js";
import { InvalidOption } from "./errors.js";
import { isLossy, isMap, remedyFor } from "./values.js";

/** The jobs of a program, one by one. */
export interface Source {
  /** Returns the next job. */
  next: () => Promise<IteratorResult<unknown, unknown>>;
  /** Ends the iterable early. */
  close: () => void;
  /** The number of jobs, if the iterable is an array. */
  total: number | undefined;
}

/** Returns the source of jobs for the option `jobs`. */
export function readSource(jobs: JobSource): Source {
  const iterator = reading("jobs", () => iteratorOf(jobs));
  let isOpen = true;
  return {
    async next() {
      let isDone: boolean | undefined = true;
      try {
        const step = await iterator.next();
        isDone = step.done;
        return step;
      } finally {
        if (isDone) isOpen = false;
      }
    },
    close() {
      if (!isOpen) return;
      isOpen = false;
      // Nobody waits for the end of the iterable, whose error changes nothing any more.
      const closed = async (): Promise<unknown> => iterator.return?.();
      closed().catch(() => undefined);
    },
    total: Array.isArray(jobs) ? jobs.length : undefined,
  };
}

function iteratorOf(jobs: JobSource): AsyncIterator<unknown, unknown> | Iterator<unknown, unknown> {
  const given: unknown = jobs;
  if (typeof given === "object" && given !== null && isMap(given)) {
    throw wrongOption("jobs", "expected an iterable of texts and jobs, got a Map, which has pairs; pass `map.values()`");
  }
  if (typeof given === "object" && given !== null) {
    if (Symbol.asyncIterator in given) return (given as AsyncIterable<unknown>)[Symbol.asyncIterator]();
    if (Symbol.iterator in given) return (given as Iterable<unknown>)[Symbol.iterator]();
  }
  const isJob = typeof given === "string" || (typeof given === "object" && given !== null);
  const remedy = isJob ? "; put it into an array: `[…]`" : "";
  throw wrongOption("jobs", `expected an iterable or async iterable of jobs, got ${show(given)}${remedy}`);
}

/** The JSON value of a job. The core checks names and values. */
export function encodeJob(job: unknown): unknown {
  if (typeof job === "string") return job;
  if (typeof job !== "object" || job === null || Array.isArray(job) || isLossy(job)) {
    const remedy = typeof job === "object" && job !== null && !Array.isArray(job) ? `; ${remedyFor(job)}` : "";
    throw wrongOption("jobs", `expected texts, or objects with a \`prompt\`; got ${show(job)}${remedy}`);
  }
  const found: Record<string, unknown> = {};
  for (const name of Object.keys(job)) {
    try {
      const value = reading(name, () => (job as Record<string, unknown>)[name]);
      if (value !== undefined) found[name] = reading(name, () => encodeValue(name, value));
    } catch (error) {
      // The other jobs run.
      if (!(error instanceof InvalidOption)) throw error;
      found["$mistake"] = { option: name, reason: reasonOf(error) };
    }
  }
  return found;
}

function encodeValue(name: string, value: unknown): unknown {
  if (typeof value === "function" || typeof value === "symbol" || typeof value === "bigint") {
    throw wrongOption(name, `in a job it must have a JSON form, and it is a ${typeof value}`);
  }
  const encoded: unknown = JSON.parse(name === "prompt" ? contentJson(value as Job["prompt"]) : optionJson(name, value));
  if (isDeeperThan(DEEPEST, encoded)) throw wrongOption(name, `it is nested more than ${String(DEEPEST)} deep`);
  return encoded;
}

/** The core reads at most 128 levels of JSON, the job itself included. */
const DEEPEST = 120;

function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((item) => isDeeperThan(levels - 1, item));
}

/** The problem alone, because the core writes the name of the option. */
function reasonOf({ message, cause }: InvalidOption): string {
  const problem = message.slice(message.indexOf(": ") + 2);
  if (cause === undefined) return problem;
  // The error of `JSON.stringify`, whose further lines show the way to a circular value.
  return `in a job it must have a JSON form: ${problem.split("\n", 1)[0] ?? ""}`;
}
