// A server with Express: each request is a session, its events are streamed, and a client that leaves ends its turn.
import express from "express";
import { createSession, KimiAgentError } from "kimi-agent";

const app = express();

app.get("/ask", async (request, response) => {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (event, data) => response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  let session;
  try {
    session = await createSession({ executable: JSON.parse(process.env.AGENT), signal: gone.signal });
    send("open", { pid: session.pid });
    const turn = session.prompt(String(request.query.q), { signal: gone.signal });
    for await (const { type, payload } of turn) {
      if (type === "ContentPart" && payload.type === "text") send("text", payload.text);
    }
    send("end", (await turn.result()).status);
  } catch (error) {
    if (error instanceof KimiAgentError) send("error", error.code);
    else if (!gone.signal.aborted) throw error;
  } finally {
    await session?.close();
    response.end();
  }
});

const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
