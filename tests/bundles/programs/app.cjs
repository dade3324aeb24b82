const { createSession, tool } = require("kimi-agent");
const { scriptedAgent } = require("kimi-agent/testing");

async function main() {
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
  console.log((await session.prompt("How much tea is left?").result()).text);
  await session.close();
}

void main();
