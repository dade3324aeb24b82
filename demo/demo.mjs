// The main job in Node: demo.mjs WORK_DIR [EXECUTABLE]. Without an executable the scripted agent plays along.

import { createInterface } from "node:readline/promises";
import { fileURLToPath } from "node:url";
import { createSession, Reject, tool } from "kimi-agent";
import { scriptedAgent } from "kimi-agent/testing";

const PROMPT =
  "With 20 % off, prices.py makes tea cost 10; it should be 40. Look up its list price with the tool list_price, " +
  "read prices.py, and fix the mistake.";
const LIST_PRICES = { tea: 50, coffee: 80 };
const COLOURS = process.stdout.isTTY || Boolean(process.env.FORCE_COLOR);

const listPrice = tool({
  name: "list_price",
  description: "Looks up what an item costs before any discount.",
  parameters: {
    type: "object",
    properties: { item: { type: "string", description: "the item, as `tea`." } },
    required: ["item"],
  },
  handler: ({ item }) => LIST_PRICES[item] ?? `no such item: ${item}`,
});

/** Writes what streams in; what is of another kind begins on a line of its own. */
const screen = {
  kind: "",
  write(kind, text) {
    if (kind !== this.kind && this.kind) process.stdout.write("\n");
    this.kind = kind;
    process.stdout.write(kind === "thinking" && COLOURS ? `\x1b[2m${text}\x1b[0m` : text);
  },
  async ask(question, fallback) {
    this.write("question", process.stdin.isTTY ? "" : `? ${question}: ${fallback}\n`);
    this.kind = "";
    if (!process.stdin.isTTY) return fallback;
    const terminal = createInterface({ input: process.stdin, output: process.stdout });
    const answer = (await terminal.question(`? ${question}: `)).trim();
    terminal.close();
    return answer || fallback;
  },
};

function summary({ output, message }) {
  const text = typeof output === "string" ? output : output.map((part) => part.text ?? "").join("");
  const lines = (text || message || "done").trimEnd().split("\n");
  return lines[0].trim() + (lines.length > 1 ? " …" : "");
}

const [workDir, executable] = process.argv.slice(2);
const session = await createSession({
  workDir,
  executable: executable || scriptedAgent(fileURLToPath(new URL("script.json", import.meta.url))),
  tools: [listPrice],
  onApproval: "manual", // answered below, so that all is shown in its order; a function does, too
  onQuestion: "manual",
});
try {
  console.log(`> ${PROMPT}`);
  const turn = session.prompt(PROMPT);
  for await (const { type, payload } of turn) {
    if (type === "ContentPart" && payload.type === "think") screen.write("thinking", payload.think);
    else if (type === "ContentPart" && payload.type === "text") screen.write("text", payload.text);
    else if (type === "ToolCall") {
      screen.write(payload.id, `* ${payload.function.name} ${payload.function.arguments ?? ""}`);
    } else if (type === "ToolCallPart") screen.write(screen.kind, payload.arguments_part ?? "");
    else if (type === "ToolResult") {
      screen.write(`${payload.tool_call_id} result`, `  = ${summary(payload.return_value)}`);
    } else if (type === "ApprovalRequest") {
      const word = await screen.ask(`${payload.description} (approve, or why not)`, "approve");
      await turn.respond(payload, word === "approve" ? word : new Reject(word));
    } else if (type === "QuestionRequest") {
      const answers = {};
      for (const { question, options } of payload.questions) {
        const labels = options.map(({ label }) => label);
        answers[question] = await screen.ask(`${question} (${labels.join(", ")})`, labels[0]);
      }
      await turn.respond(payload, answers);
    }
  }
  const { status, steps, usage } = await turn.result();
  const input = usage.input_other + usage.input_cache_read + usage.input_cache_creation;
  screen.write("end", `${status} in ${steps} steps, ${input} tokens in, ${usage.output} out\n`);
} finally {
  await session.close();
}
