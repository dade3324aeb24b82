// Compiled, never run: the types of batches.
import { type Batch, type BatchOptions, type Job, type JobResult, type Retry, runBatch } from "kimi-agent";
import { z } from "zod";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_: Equal<A, B>): void {
  // Nothing: the argument's type is the assertion.
}

const review = z.object({ at: z.string().transform((text) => new Date(text)) });
const retry: Retry = { attempts: 5, initialDelay: 100 };
const options: BatchOptions = { concurrency: 8, retry, journal: "batch.jsonl", workDir: "." };
const jobs: Job[] = [{ prompt: "a", key: "k", data: [1], model: "m", timeout: 5_000 }];

export async function outputIsInferred(): Promise<void> {
  const batch = runBatch(jobs, { concurrency: 8, output: review });
  same<typeof batch, Batch<{ at: Date }>>(true);
  for await (const result of batch) {
    same<typeof result, JobResult<{ at: Date }>>(true);
    same<typeof result.output, { at: Date } | undefined>(true);
    same<Date, ReturnType<typeof result.raiseForStatus>["output"]["at"]>(true);
  }
  for await (const result of runBatch(["a"], options)) console.log(result.text);
}

export function wrongOptionsAreRefused(): void {
  // @ts-expect-error -- a batch has no session of its own
  runBatch(["a"], { sessionId: "s" });
  // @ts-expect-error -- nothing of this name
  runBatch(["a"], { concurency: 3 });
  // @ts-expect-error -- a job has no handlers
  runBatch([{ prompt: "a", onEvent: () => undefined }]);
  // @ts-expect-error -- a text is not a list of jobs
  runBatch(5);
  // @ts-expect-error -- a text would be a list of its characters
  runBatch("abc");
}
