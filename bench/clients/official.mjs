// The official Node SDK. It starts its agent with the first prompt, so there is one that is not measured.
import { createExternalTool, createSession } from "@moonshot-ai/kimi-agent-sdk";
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
