// A page in the browser on which a person prompts the agent, and approves or rejects what it wants to do.
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createSession, isKimiAgentError, printable } from "kimi-agent";

const TOKEN = randomBytes(32).toString("base64url");
const ANSWERS = ["approve", "approve_for_session", "reject"];
// Nothing that a person decides about is hidden by characters without a glyph, or by many blanks.
const HIDDEN = /[\p{Default_Ignorable_Code_Point}\u00a0\u2000-\u200a\u202f\u205f\u2800\u3000]/gu;
const shown = (text) =>
  printable(text)
    .replace(HIDDEN, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`)
    .replace(/\s{17,}/g, (run) => `[${run.length} blanks]`);
const page = readFileSync(new URL("page.html", import.meta.url), "utf8");
const browsers = new Set(); // The open streams of events.
const waiting = new Map(); // The approvals without an answer, by ID.
let count = 0;
let busy = false;

const write = (response, event) => response.write(`data: ${JSON.stringify(event)}\n\n`);
const tell = (event) => browsers.forEach((response) => write(response, event));

/** The arguments of the call, and the further paths that the agent names. */
function input(call) {
  const paths = [...(call?.locations ?? []), ...(call?.diffs ?? [])];
  const on = paths.length > 0 ? ` on ${JSON.stringify(paths)}` : "";
  return `${JSON.stringify(call?.arguments ?? "The arguments are not known.")}${on}`;
}

/** Waits until a person answers, or the turn ends. */
function askPerson(request, { signal }) {
  const id = String((count += 1));
  const approval = {
    type: "approval",
    id,
    sender: shown(request.sender),
    description: shown(request.description),
    input: shown(input(request.tool_call)),
  };
  return new Promise((resolve) => {
    const finish = (answer, outcome = answer) => {
      if (!waiting.delete(id)) return;
      tell({ type: "resolved", id, answer: outcome });
      resolve(answer);
    };
    signal.addEventListener("abort", () => finish("reject", "withdrawn"));
    waiting.set(id, { approval, finish });
    tell(approval);
  });
}

const session = await createSession({ workDir: ".", onApproval: askPerson });

async function run(prompt) {
  busy = true;
  tell({ type: "prompt", prompt });
  tell({ type: "state", state: "working" });
  try {
    const turn = session.prompt(prompt);
    for await (const text of turn.textStream) tell({ type: "text", text });
    tell({ type: "state", state: (await turn.result()).status });
  } catch (error) {
    tell({ type: "state", state: isKimiAgentError(error) ? error.code : "internal_error" });
    console.error(error);
  } finally {
    busy = false;
  }
}

const routes = {
  "GET /events": (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    browsers.add(response);
    response.on("close", () => browsers.delete(response));
    write(response, { type: "state", state: busy ? "working" : "ready" });
    for (const { approval } of waiting.values()) write(response, approval);
  },
  "POST /prompt": async (request, response) => {
    const { prompt } = await body(request);
    if (typeof prompt !== "string") return refuse(response, 400, "The prompt is missing.");
    if (busy) return refuse(response, 409, "The agent is working.");
    void run(prompt);
    response.writeHead(204).end();
  },
  "POST /answer": async (request, response) => {
    const { id, answer } = await body(request);
    const asked = waiting.get(id);
    if (!asked || !ANSWERS.includes(answer)) return refuse(response, 404, "Nothing waits for this answer.");
    asked.finish(answer);
    response.writeHead(204).end();
  },
  "POST /cancel": async (_, response) => {
    if (busy) await session.cancel();
    response.writeHead(204).end();
  },
};

const server = createServer((request, response) => {
  handle(request, response).catch((error) => {
    console.error(error);
    if (response.headersSent) response.destroy();
    else refuse(response, 400, "The request failed.");
  });
});

async function handle(request, response) {
  // A page of another site may reach this port by a host name of its own.
  if (request.headers.host !== `127.0.0.1:${server.address().port}`) return refuse(response, 403, "Wrong host.");
  const path = `${request.method} ${request.url}`;
  if (path === "GET /") return sendPage(response);
  if (!hasToken(request)) return refuse(response, 401, "The address lacks the token that the program printed.");
  const route = routes[path];
  return route ? route(request, response) : refuse(response, 404, "There is no such page.");
}

function sendPage(response) {
  const nonce = randomBytes(16).toString("base64");
  response.writeHead(200, {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    // No script but the page's own runs, and no other page can frame this one to steal a click.
    "content-security-policy": `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    "referrer-policy": "no-referrer",
  });
  response.end(page.replaceAll("NONCE", nonce));
}

function hasToken({ headers }) {
  const digest = (text) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(headers.authorization ?? ""), digest(`Bearer ${TOKEN}`));
}

async function body(request) {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) {
    text += chunk;
    if (text.length > 1_000_000) throw new Error("the request is too long");
  }
  return JSON.parse(text);
}

function refuse(response, status, reason) {
  response.writeHead(status, { "content-type": "text/plain" }).end(reason);
}

server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/#${TOKEN}`);
});
process.on("SIGINT", async () => {
  await session.close();
  process.exit();
});
