// The same server with Hono, whose stream says when its client has left.
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { streamSSE } from "hono/streaming";
import { createSession, KimiAgentError } from "kimi-agent";

const app = new Hono();

app.get("/ask", (context) =>
  streamSSE(context, async (stream) => {
    const gone = new AbortController();
    stream.onAbort(() => gone.abort());
    const send = (event, data) => stream.writeSSE({ event, data: JSON.stringify(data) });
    let session;
    try {
      session = await createSession({ executable: JSON.parse(process.env.AGENT), signal: gone.signal });
      await send("open", { pid: session.pid });
      const turn = session.prompt(context.req.query("q"), { signal: gone.signal });
      for await (const { type, payload } of turn) {
        if (type === "ContentPart" && payload.type === "text") await send("text", payload.text);
      }
      await send("end", (await turn.result()).status);
    } catch (error) {
      if (error instanceof KimiAgentError) await send("error", error.code);
      else if (!gone.signal.aborted) throw error;
    } finally {
      await session?.close();
    }
  }),
);

serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) => console.log(port));
