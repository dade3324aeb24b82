// This SDK.
import { createSession, openAgent, runBatch, tool } from "kimi-agent";

import { Measure } from "./measure.mjs";

const executable = process.argv[2];
const lookUp = tool({
  name: "look_up",
  description: "Looks an item up.",
  parameters: { type: "object", properties: { item: { type: "string" } } },
  handler: async () => "12",
});

async function turn(options) {
  const session = await createSession(options);
  const measure = new Measure();
  for await (const _ of session.prompt("go")) measure.event();
  measure.end();
  await session.close();
}

const tasks = {
  turn: () => turn({ executable, onApproval: async () => "approve", tools: [lookUp] }),
  acp: () => turn({ executable: [executable, "acp"], dialect: "acp" }),
  server: () => turn({ executable: [executable], dialect: "kimi-web", onApproval: async () => "approve" }),
  async "server sessions"() {
    const agent = await openAgent({ executable: [executable], dialect: "kimi-web" });
    const measure = new Measure();
    const opened = [];
    for (let n = Number(process.env.BENCH_SESSIONS); n > 0; n -= 1) {
      const session = await agent.createSession();
      for await (const _ of session.prompt("go"));
      opened.push(session);
    }
    measure.end(opened.length);
    await agent.close();
  },
  async batch() {
    const measure = new Measure();
    const jobs = Array.from({ length: Number(process.env.BENCH_JOBS) }, (_, number) => `job ${number}`);
    const texts = [];
    const concurrency = Number(process.env.BENCH_CONCURRENCY);
    for await (const { text } of runBatch(jobs, { concurrency, executable })) texts.push(text);
    measure.end(texts.filter((text) => text === "Hello").length);
  },
  async sessions() {
    const measure = new Measure();
    const opened = [];
    for (let n = Number(process.env.BENCH_SESSIONS); n > 0; n -= 1) {
      const session = await createSession({ executable });
      for await (const _ of session.prompt("go"));
      opened.push(session);
    }
    measure.end(opened.length);
    await Promise.all(opened.map((session) => session.close()));
  },
};
await (tasks[process.env.BENCH_TASK] ?? tasks.turn)();
