// A chat in a terminal. Ctrl-C cancels the turn that runs, and ends the program if none does.
import { createInterface } from "node:readline";
import { createSession } from "kimi-agent";
import { scriptedAgent } from "kimi-agent/testing";

const executable = scriptedAgent([
  [{ text: "I wait." }, { wait_cancel: true }],
  [{ text: ["You said ", "{{prompt}}."] }],
]);
const session = await createSession({ executable });
const terminal = createInterface({ input: process.stdin, output: process.stdout, prompt: "> " });
let turn;
terminal.on("SIGINT", () => {
  if (turn) void turn.cancel();
  else terminal.close();
});
terminal.prompt();
for await (const line of terminal) {
  turn = session.prompt(line);
  for await (const { type, payload } of turn) {
    if (type === "ContentPart" && payload.type === "text") process.stdout.write(payload.text);
  }
  console.log(` [${(await turn.result()).status}]`);
  turn = undefined;
  terminal.prompt();
}
await session.close();
console.log("bye");
