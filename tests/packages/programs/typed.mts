import { createSession, type Event, Reject, tool } from "kimi-agent";
import { scriptedAgent } from "kimi-agent/testing";

function words(event: Event): string {
  return event.type === "ContentPart" && event.payload.type === "text" ? event.payload.text : "";
}

const greet = tool<{ whom: string }>({
  name: "greet",
  description: "Greets",
  parameters: { type: "object", properties: { whom: { type: "string" } } },
  handler: ({ whom }) => `hello ${whom}`,
});
const script = [[{ external_tool: { name: "greet", arguments: { whom: "world" } } }, { text: "{{last.output}}" }]];
await using session = await createSession({
  executable: scriptedAgent(script),
  tools: [greet],
  onApproval: () => new Reject("not today"),
});
for await (const event of session.prompt("go")) process.stdout.write(words(event));
