// Asks many questions, three at a time: batch.mjs DIRECTORY [SECONDS] <QUESTIONS. Each has its own session and so many seconds.
import { createInterface } from "node:readline";
import { isKimiAgentError, prompt } from "kimi-agent";

const AT_A_TIME = 3;
const workDir = process.argv[2];
const timeout = Number(process.argv[3] ?? 600) * 1000;

async function ask(question) {
  try {
    const result = await prompt(question, { workDir, timeout }).result();
    return { question, text: result.raiseForStatus().text };
  } catch (error) {
    if (!isKimiAgentError(error)) throw error;
    return { question, error: error.code, retryable: error.retryable };
  }
}

const questions = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function work() {
  for (let next; !(next = await questions.next()).done; ) console.log(JSON.stringify(await ask(next.value)));
}
await Promise.all(Array.from({ length: AT_A_TIME }, work));
