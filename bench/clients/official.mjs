// The official Node SDK. It starts its agent with the first prompt, so there is one that is not measured.
import { createExternalTool, createSession } from "@moonshot-ai/kimi-agent-sdk";
import pLimit from "p-limit";
import { z } from "zod";

import { Measure } from "./measure.mjs";

const executable = process.argv[2];
const workDir = process.cwd();
const lookUp = createExternalTool({
  name: "look_up",
  description: "Looks an item up.",
  parameters: z.object({ item: z.string() }),
  handler: async () => ({ output: "12", message: "" }),
});

async function textOf(prompt) {
  const session = createSession({ workDir, executable });
  let text = "";
  for await (const { type, payload } of session.prompt(prompt)) {
    if (type === "ContentPart" && payload.type === "text") text += payload.text;
  }
  await session.close();
  return text;
}

const tasks = {
  async turn(warmUp = true) {
    const session = createSession({ workDir, executable, externalTools: [lookUp] });
    if (warmUp) for await (const _ of session.prompt("warm up"));
    const measure = new Measure();
    const turn = session.prompt("go");
    for await (const event of turn) {
      measure.event();
      if (event.type === "ApprovalRequest") await turn.approve(event.payload.id, "approve");
    }
    measure.end();
    await session.close();
  },
  start: () => tasks.turn(false),
  async batch() {
    const measure = new Measure();
    const limit = pLimit(Number(process.env.BENCH_CONCURRENCY));
    const jobs = Array.from({ length: Number(process.env.BENCH_JOBS) }, (_, number) => `job ${number}`);
    const texts = await Promise.all(jobs.map((job) => limit(textOf, job)));
    measure.end(texts.filter((text) => text === "Hello").length);
  },
  async sessions() {
    const measure = new Measure();
    const opened = [];
    for (let n = Number(process.env.BENCH_SESSIONS); n > 0; n -= 1) {
      const session = createSession({ workDir, executable });
      for await (const _ of session.prompt("go"));
      opened.push(session);
    }
    measure.end(opened.length);
    await Promise.all(opened.map((session) => session.close()));
  },
};
await (tasks[process.env.BENCH_TASK] ?? tasks.turn)();
