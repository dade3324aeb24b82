// Asks the agent one question in a container. The key of the model's service is a file, which only the agent gets.
import { readFileSync } from "node:fs";
import { createSession, isKimiAgentError, printable } from "kimi-agent";

const stopped = new AbortController();
const { signal } = stopped;
// `docker stop` sends SIGTERM. The session is then closed, and its agent with it.
process.on("SIGTERM", () => stopped.abort());

function approve({ description }) {
  console.error(`[${printable(description)}]`);
  return "approve";
}

let session;
try {
  session = await createSession({
    workDir: ".",
    env: {
      KIMI_MODEL_NAME: "kimi-k2",
      KIMI_MODEL_BASE_URL: "https://api.moonshot.ai/v1",
      KIMI_MODEL_API_KEY: readFileSync(process.env.KEY_FILE ?? "/run/secrets/model_key", "utf8").trim(),
    },
    onApproval: approve,
    signal,
  });
  const turn = session.prompt(process.argv[2], { signal });
  for await (const text of turn.textStream) process.stdout.write(text);
  (await turn.result()).raiseForStatus();
} catch (error) {
  process.exitCode = 1;
  if (signal.aborted) process.exitCode = 143;
  else if (isKimiAgentError(error)) console.error(`${error.code}: ${error.message}`);
  else throw error;
} finally {
  await session?.close();
}
