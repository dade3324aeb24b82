import { createSession } from "kimi-agent";
import { scriptedAgent } from "kimi-agent/testing";

const session = await createSession({ executable: scriptedAgent([[{ text: ["hello ", "{{prompt}}"] }]]) });
for await (const { type, payload } of session.prompt("world")) {
  if (type === "ContentPart") process.stdout.write(payload.text);
}
await session.close();
