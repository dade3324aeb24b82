// A chat in a terminal. Ctrl-C cancels the answer, and ends the program between two answers.
import { createInterface } from "node:readline/promises";
import { setTimeout } from "node:timers/promises";
import { createSession, isKimiAgentError, printable } from "kimi-agent";

const terminal = createInterface({ input: process.stdin, output: process.stdout });
const closed = new AbortController();
// How long a person reads before the question can be answered. A key that was on its way answers nothing.
const READING_TIME = 1000;
let turn;
let asking; // The question that waits. Until it is answered, nothing else is asked or printed.
// Nothing that a person decides about is hidden by characters without a glyph, or by many blanks.
const HIDDEN = /[\p{Default_Ignorable_Code_Point}\u00a0\u2000-\u200a\u202f\u205f\u2800\u3000]/gu;
const shown = (value) =>
  printable(JSON.stringify(value))
    .replace(HIDDEN, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`)
    .replace(/ {17,}/g, (run) => `[${run.length} blanks]`);

terminal.on("SIGINT", () => (turn ? void turn.cancel() : terminal.close()));
terminal.on("close", () => closed.abort());

async function answered() {
  while (asking) await asking;
}

async function approve(request, { signal }) {
  await answered();
  asking = ask(request, signal).catch(() => (console.log("(withdrawn)"), "reject"));
  return asking.finally(() => (asking = undefined));
}

async function ask({ description, tool_call: call }, signal) {
  // The description is the agent's. The arguments and the paths are what it does.
  const paths = [...(call?.locations ?? []), ...(call?.diffs ?? [])];
  const on = paths.length > 0 ? ` on ${shown(paths)}` : "";
  // The agent's text cannot be in reverse video, because `printable` replaces the control characters.
  console.log(`\n\x1b[7m${shown(description)}: ${shown(call?.arguments ?? "unknown arguments")}${on}\x1b[0m`);
  await setTimeout(READING_TIME, undefined, { signal });
  terminal.write(null, { ctrl: true, name: "u" });
  const answer = await terminal.question("\x1b[7mApprove? [y/N]\x1b[0m ", { signal });
  return answer === "y" ? "approve" : "reject";
}

const session = await createSession({ workDir: ".", onApproval: approve });
while (!closed.signal.aborted) {
  const question = await terminal.question("> ", { signal: closed.signal }).catch(() => undefined);
  if (question === undefined) break;
  try {
    turn = session.prompt(question);
    for await (const text of turn.textStream) {
      await answered();
      process.stdout.write(printable(text));
    }
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
