// Answers the questions of stdin, three at a time: batch.mjs DIRECTORY [SECONDS] <QUESTIONS. Each may take so many seconds.
import { createInterface } from "node:readline";
import { runBatch } from "kimi-agent";

const workDir = process.argv[2];
const turnTimeout = Number(process.argv[3] ?? 600) * 1000;

const questions = createInterface({ input: process.stdin });
for await (const result of runBatch(questions, { concurrency: 3, turnTimeout, workDir })) {
  const { prompt: question, status, text, error } = result;
  console.log(JSON.stringify({ question, status, text, error: error?.code }));
}
