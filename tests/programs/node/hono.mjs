// A server with Hono that streams each answer as server-sent events. A client that disconnects cancels its turn.
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { streamSSE } from "hono/streaming";
import { createSession, isKimiAgentError } from "kimi-agent";

const app = new Hono();
// Pages of other sites cannot reach the server: neither by a host name of their own, nor by a request that is not JSON.
app.use(async (context, next) => {
  const { hostname } = new URL(context.req.url);
  if (!["127.0.0.1", "localhost"].includes(hostname)) return context.body(null, 403);
  if (context.req.header("content-type") !== "application/json") return context.body(null, 415);
  return next();
});

app.post("/ask", async (context) => {
  const { question } = await context.req.json();
  if (typeof question !== "string") return context.body(null, 400);
  return streamSSE(context, async (stream) => {
    const disconnected = new AbortController();
    const { signal } = disconnected;
    stream.onAbort(() => disconnected.abort());
    const send = (event, data) => stream.writeSSE({ event, data: JSON.stringify(data) });
    let session;
    try {
      session = await createSession({ workDir: ".", signal });
      const turn = session.prompt(question, { signal });
      for await (const text of turn.textStream) await send("text", text);
      await send("end", (await turn.result()).status);
    } catch (error) {
      if (signal.aborted) return;
      if (!isKimiAgentError(error)) throw error;
      await send("error", error.code);
    } finally {
      await session?.close();
    }
  });
});

serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000), hostname: "127.0.0.1" }, ({ port }) => {
  console.log(`http://127.0.0.1:${port}`);
});
