// A server with Express that streams each answer as server-sent events. A client that disconnects cancels its turn.
import express from "express";
import { createSession, isKimiAgentError } from "kimi-agent";

const app = express();
// Pages of other sites cannot reach the server: neither by a host name of their own, nor by a request that is not JSON.
app.use((request, response, next) => (["127.0.0.1", "localhost"].includes(request.hostname) ? next() : response.sendStatus(403)));
app.use(express.json());

app.post("/ask", async (request, response) => {
  const question = request.body?.question;
  if (typeof question !== "string") return response.sendStatus(400);
  const disconnected = new AbortController();
  const { signal } = disconnected;
  response.on("close", () => disconnected.abort());
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" }).flushHeaders();
  const send = (event, data) => response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  let session;
  try {
    session = await createSession({ workDir: ".", signal });
    const turn = session.prompt(question, { signal });
    for await (const text of turn.textStream) send("text", text);
    send("end", (await turn.result()).status);
  } catch (error) {
    if (signal.aborted) return;
    if (!isKimiAgentError(error)) throw error;
    send("error", error.code);
  } finally {
    await session?.close();
    response.end();
  }
});

const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
