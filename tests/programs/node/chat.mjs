// A chat in a terminal. Ctrl-C cancels the answer, and ends the program between two answers.
import { createInterface } from "node:readline/promises";
import { createSession, isKimiAgentError, printable } from "kimi-agent";

const terminal = createInterface({ input: process.stdin, output: process.stdout });
const closed = new AbortController();
let turn;
// Nothing that a person decides about is hidden by characters without a glyph, or by many blanks.
const HIDDEN = /[\p{Default_Ignorable_Code_Point}\u00a0\u2000-\u200a\u202f\u205f\u2800\u3000]/gu;
const shown = (value) =>
  printable(JSON.stringify(value))
    .replace(HIDDEN, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`)
    .replace(/ {17,}/g, (run) => `[${run.length} blanks]`);

terminal.on("SIGINT", () => (turn ? void turn.cancel() : terminal.close()));
terminal.on("close", () => closed.abort());

async function approve({ description, tool_call: call }, { signal }) {
  // The description is the agent's. The arguments are what it does.
  const question = `\n${shown(description)}: ${shown(call?.arguments ?? "unknown arguments")}? [y/N] `;
  const answer = await terminal.question(question, { signal });
  return answer === "y" ? "approve" : "reject";
}

const session = await createSession({ workDir: ".", onApproval: approve });
while (!closed.signal.aborted) {
  const question = await terminal.question("> ", { signal: closed.signal }).catch(() => undefined);
  if (question === undefined) break;
  try {
    turn = session.prompt(question);
    for await (const text of turn.textStream) process.stdout.write(printable(text));
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
