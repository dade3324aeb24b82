// Compiled, never run: the same types for programs that use require().
import kimi = require("kimi-agent");
import testing = require("kimi-agent/testing");

export async function main(): Promise<void> {
  const executable: string[] = testing.scriptedAgent("script.json");
  const session: kimi.Session = await kimi.createSession({ executable });
  for await (const event of session.prompt("hi")) {
    if (event.type === "ContentPart" && event.payload.type === "text") console.log(event.payload.text);
  }
  await session.close();
}
