// A client by hand for Kimi Code's server: `fetch` for its calls, and the package `ws` for its WebSocket.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

import WebSocket from "ws";

import { Measure } from "./measure.mjs";

const SECRET = "bench-secret";
const headers = { Authorization: `Bearer ${SECRET}` };

const child = spawn(process.argv[2], ["web", "--no-open", "--port", "0"], {
  stdio: ["ignore", "pipe", "inherit"],
  env: { ...process.env, KIMI_CODE_PASSWORD: SECRET },
});
const ended = once(child, "exit");
const url = await new Promise((resolve) => {
  createInterface({ input: child.stdout }).on("line", (line) => {
    const found = /http:\/\/127\.0\.0\.1:\d+/.exec(line);
    if (found) resolve(`${found[0]}/api/v1`);
  });
});

async function call(method, path, body) {
  const init = body ? { body: JSON.stringify(body), headers: { ...headers, "Content-Type": "application/json" } } : { headers };
  const { code, msg, data } = await (await fetch(url + path, { method, ...init })).json();
  if (code) throw new Error(msg);
  return data;
}

let heard = () => {};
const socket = new WebSocket(`${url.replace("http", "ws")}/ws`, { headers });
const greeting = new Promise((resolve) => (heard = resolve));
socket.on("message", (data) => {
  const frame = JSON.parse(data);
  if (frame.type === "ping") socket.send(JSON.stringify({ type: "pong", payload: { nonce: frame.payload.nonce } }));
  else heard(frame);
});
await greeting;

async function openSession() {
  const { id } = await call("POST", "/sessions", { metadata: { cwd: process.cwd() } });
  const { default_model } = await call("GET", "/config");
  await call("POST", `/sessions/${id}/profile`, { agent_config: { model: default_model, permission_mode: "manual" } });
  await new Promise((resolve) => {
    heard = ({ type }) => type === "ack" && resolve();
    socket.send(JSON.stringify({ type: "subscribe", id, payload: { session_ids: [id] } }));
  });
  return id;
}

let prompts = 0;

function turn(session, event) {
  prompts += 1;
  const prompt = `prompt_${prompts}`;
  return new Promise((resolve, reject) => {
    heard = ({ type, payload }) => {
      event();
      if (type === "prompt.completed" && payload.promptId === prompt) resolve();
      if (type !== "event.approval.requested") return;
      call("POST", `/sessions/${session}/approvals/${payload.approval_id}`, { decision: "approved" }).catch(reject);
    };
    const body = { prompt_id: prompt, content: [{ type: "text", text: "go" }] };
    call("POST", `/sessions/${session}/prompts`, body).catch(reject);
  });
}

if (process.env.BENCH_TASK === "server sessions") {
  const measure = new Measure();
  const count = Number(process.env.BENCH_SESSIONS);
  for (let n = 0; n < count; n += 1) await turn(await openSession(), () => {});
  measure.end(count);
} else {
  const session = await openSession();
  const measure = new Measure();
  await turn(session, () => measure.event());
  measure.end();
}
socket.close();
await once(socket, "close");
child.kill();
await ended;
