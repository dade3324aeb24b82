import { createSession, tool } from "kimi-agent";
import { scriptedAgent } from "kimi-agent/testing";

export const dynamic = "force-dynamic";

export async function GET() {
  const stock = tool({
    name: "stock",
    description: "Says how many pieces of an item there are.",
    parameters: { type: "object", properties: { item: { type: "string" } } },
    handler: ({ item }) => (item === "tea" ? 12 : 0),
  });
  const executable = scriptedAgent([
    [{ external_tool: { name: "stock", arguments: { item: "tea" } } }, { text: "{{last.output}} left" }],
  ]);
  const session = await createSession({ executable, tools: [stock] });
  try {
    return new Response((await session.prompt("How much tea is left?").result()).text);
  } finally {
    await session.close();
  }
}
