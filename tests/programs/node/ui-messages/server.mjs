// A chat server for `useChat` of the AI SDK: each chat is a session of the agent.
import { serve } from "@hono/node-server";
import { createUIMessageStreamResponse } from "ai";
import { Hono } from "hono";
import { createSession } from "kimi-agent";

import { uiMessageChunks } from "./chunks.mjs";

// The last turn of each chat, and the session that it belongs to.
const chats = new Map();

/** Begins a turn when the last one has ended. A chat gets a new session if its agent has died. */
async function begin(last, text, signal) {
  let { session, turn } = await last.catch(() => ({}));
  await turn?.result().catch(() => {});
  if (!session || session.state === "closed") session = await createSession({ workDir: "." });
  return { session, turn: session.prompt(text, { signal }) };
}

/** A request handler of the Web, as frameworks such as Next.js use it as well. */
async function POST(request) {
  const { id, messages } = await request.json();
  const { parts } = messages.at(-1);
  const text = parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
  // The signal is aborted when the client disconnects, for example by `stop()` of `useChat`.
  const begun = begin(chats.get(id) ?? Promise.resolve({}), text, request.signal);
  chats.set(id, begun);
  const { turn } = await begun;
  return createUIMessageStreamResponse({ stream: ReadableStream.from(uiMessageChunks(turn)) });
}

const app = new Hono();
// Pages of other sites cannot reach the server: neither by a host name of their own, nor by a request that is not JSON.
app.use(async (context, next) => {
  const { hostname } = new URL(context.req.url);
  if (!["127.0.0.1", "localhost"].includes(hostname)) return context.body(null, 403);
  if (context.req.header("content-type") !== "application/json") return context.body(null, 415);
  return next();
});
app.post("/api/chat", (context) => POST(context.req.raw));

serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000), hostname: "127.0.0.1" }, ({ port }) => {
  console.log(`http://127.0.0.1:${port}`);
});
