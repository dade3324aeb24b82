// Compiled with TypeScript 5.2, the oldest version that the documentation promises, and never run: the declarations of the
// package have no errors there, and results have their types.
import { createSession, type JobResult, runBatch } from "kimi-agent";
import { scriptedAgent } from "kimi-agent/testing";

export async function main(): Promise<void> {
  const executable = scriptedAgent([[{ text: "Hello" }]]);
  await using session = await createSession({ executable });
  for await (const event of session.prompt("hi")) console.log(event.type);
  for await (const result of runBatch(["a"], { executable })) {
    const typed: JobResult = result;
    // @ts-expect-error -- not `any`
    console.log(typed.text, result.nothing);
  }
}
