const { createSession, tool } = require("kimi-agent");
const { scriptedAgent } = require("kimi-agent/testing");
const { z } = require("zod");

async function main() {
  const stock = tool({
    name: "stock",
    description: "Says how many pieces of an item there are.",
    parameters: z.object({ item: z.string().describe("the item's name") }),
    handler: ({ item }) => (item === "tea" ? 12 : 0),
  });
  if (stock.parameters.properties.item.description !== "the item's name") throw new Error("the description is lost");
  const executable = scriptedAgent([
    [{ external_tool: { name: "stock", arguments: { item: "tea" } } }, { text: "{{last.output}} left" }],
  ]);
  const session = await createSession({ executable, tools: [stock] });
  console.log((await session.prompt("How much tea is left?").result()).text);
  await session.close();
}

void main();
