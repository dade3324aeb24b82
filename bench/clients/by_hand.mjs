// What one would write by hand: `readline` and JSON.parse a line; `batches`, which makes one JSON text of all lines of a
// read and parses it at once, the cheapest that we found.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

import { Measure } from "./measure.mjs";

const [style, path] = process.argv.slice(2);
const NEWLINE = 10;

function answer({ id, params: { type, payload } }) {
  const result =
    type === "ApprovalRequest"
      ? { request_id: payload.id, response: "approve" }
      : { tool_call_id: payload.id, return_value: { is_error: false, output: "12", message: "", display: [] } };
  return { jsonrpc: "2.0", id, result };
}

async function* readline(stream) {
  for await (const line of createInterface({ input: stream, crlfDelay: Infinity })) yield [JSON.parse(line)];
}

async function* batches(stream) {
  let pieces = [];
  for await (const chunk of stream) {
    const end = chunk.lastIndexOf(NEWLINE);
    if (end < 0) {
      pieces.push(chunk);
      continue;
    }
    const bytes = Buffer.concat([...pieces, chunk.subarray(0, end)]);
    pieces = end + 1 < chunk.length ? [chunk.subarray(end + 1)] : [];
    // No line end is within JSON's strings, so this changes nothing else.
    yield JSON.parse(`[${bytes.toString().replaceAll("\n", ",")}]`);
  }
}

const acp = process.env.BENCH_TASK === "acp";
const child = spawn(path, [acp ? "acp" : "--wire"], { stdio: ["pipe", "pipe", "inherit"] });
const send = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const messages = (style === "readline" ? readline : batches)(child.stdout);

const greetings = acp
  ? [
      { method: "initialize", params: { protocolVersion: 1, clientCapabilities: {} } },
      { method: "session/new", params: { cwd: process.cwd(), mcpServers: [] } },
    ]
  : [{ method: "initialize", params: { protocol_version: "1.10" } }];
for (const greeting of greetings) {
  send({ id: "1", ...greeting });
  await messages.next();
}
const prompt = acp
  ? { method: "session/prompt", params: { sessionId: "session-1", prompt: [{ type: "text", text: "go" }] } }
  : { method: "prompt", params: { user_input: "go" } };
const measure = new Measure();
send({ id: "2", ...prompt });
let ended = false;
while (!ended) {
  const { value, done } = await messages.next();
  if (done) throw new Error("the agent has gone");
  for (const message of value) {
    ended = message.result !== undefined;
    if (ended) break;
    measure.event();
    if (message.method === "request") send(answer(message));
  }
}
measure.end();
child.stdin.end();
