// A chat in a terminal. Ctrl-C cancels the answer, and ends the program between two answers.
import { createInterface } from "node:readline/promises";
import { createSession, isKimiAgentError, printable } from "kimi-agent";

const terminal = createInterface({ input: process.stdin, output: process.stdout });
const closed = new AbortController();
let turn;
terminal.on("SIGINT", () => (turn ? void turn.cancel() : terminal.close()));
terminal.on("close", () => closed.abort());

async function approve({ description }, { signal }) {
  const answer = await terminal.question(`\n${printable(description)}? [y/N] `, { signal });
  return answer === "y" ? "approve" : "reject";
}

const session = await createSession({ workDir: ".", onApproval: approve });
while (!closed.signal.aborted) {
  const question = await terminal.question("> ", { signal: closed.signal }).catch(() => undefined);
  if (question === undefined) break;
  try {
    turn = session.prompt(question);
    for await (const text of turn.textStream) process.stdout.write(text);
    console.log(` [${(await turn.result()).status}]`);
  } catch (error) {
    if (!isKimiAgentError(error)) throw error;
    console.log(` [${error.code}]`);
    if (session.state === "closed") break;
  } finally {
    turn = undefined;
  }
}
terminal.close();
await session.close();
console.log("bye");
