// Compiled, never run: the surface of the package as programs write it.
import {
  Block,
  createSession,
  type ExternalTool,
  Hook,
  hook,
  KimiAgentError,
  openAgent,
  prompt,
  type PromptResult,
  Reject,
  RpcError,
  type Session,
  setLogger,
  tool,
  type Turn,
} from "kimi-agent";
import { scriptedAgent } from "kimi-agent/testing";
import { z } from "zod";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_: Equal<A, B>): void {
  // Nothing: the argument's type is the assertion.
}

const search = tool({
  name: "search",
  description: "Searches",
  parameters: z.object({ query: z.string(), limit: z.number().default(10), tags: z.array(z.enum(["a", "b"])).optional() }),
  timeout: 5000,
  async handler(args, { signal }) {
    same<typeof args, { query: string; limit: number; tags?: ("a" | "b")[] | undefined }>(true);
    same<typeof signal, AbortSignal>(true);
    return Promise.resolve({ found: args.limit });
  },
});
same<typeof search, ExternalTool>(true);

tool({
  name: "when",
  description: "Transforms",
  parameters: z.object({ at: z.string().transform((text) => new Date(text)) }),
  handler: ({ at }) => at.getTime(),
});

tool({
  name: "wrong",
  description: "Takes a number for text",
  // @ts-expect-error -- the handler takes a number where the schema says text
  parameters: z.object({ query: z.string() }),
  handler: ({ query }: { query: number }) => query,
});

// A wrong key is one error at its own place, not at the call with a list of overloads.
tool({
  name: "wrong",
  description: "Has a misspelt key",
  parameters: z.object({ query: z.string() }),
  // @ts-expect-error -- a misspelt key
  handlr: () => "",
});
tool({
  name: "wrong",
  // @ts-expect-error -- a number for a text
  description: 3,
  parameters: z.object({ query: z.string() }),
  handler: ({ query }) => query.length,
});
tool({
  name: "wrong",
  description: "Has a wrong timeout",
  parameters: { type: "object" },
  handler: () => "",
  // @ts-expect-error -- text for a number
  timeout: "3",
});

const plain = tool({
  name: "plain",
  description: "JSON Schema",
  parameters: { type: "object", properties: { a: { type: "number" } } },
  handler: (args) => {
    same<typeof args, Record<string, unknown>>(true);
    return "text";
  },
});

const typed = tool<{ a: number }>({
  name: "typed",
  description: "JSON Schema, and a type",
  parameters: { type: "object" },
  handler: ({ a }) => ({ is_error: a > 1, output: "x" }),
});

export async function main(): Promise<void> {
  await using session = await createSession({
    workDir: ".",
    signal: AbortSignal.timeout(1000),
    executable: scriptedAgent([[{ text: "hello" }]]),
    env: process.env,
    tools: [
      search,
      plain,
      typed,
      { name: "o", description: "", parameters: {}, handler: ({ a }: { a: number }) => a },
    ],
    onApproval: ({ action }) => (action === "x" ? "approve" : new Reject("no")),
    onQuestion: (request) => ({ [request.questions[0]?.question ?? ""]: ["A", "B"] }),
    onEvent: async (event) => {
      await Promise.resolve(event.type);
    },
    onStderr: (line) => line.length,
    hooks: [
      hook({ event: "PreToolUse", matcher: "Shell", handler: () => new Block("no"), timeout: 100, onError: "block" }),
      new Hook({ event: "Stop", handler: () => "allow" }),
      {
        event: "UserPromptSubmit",
        handler: () => {
          // Nothing is as good as "allow".
        },
      },
    ],
  });
  same<typeof session, Session<undefined>>(true);

  await using turn = session.prompt("hi", { signal: AbortSignal.timeout(1000) });
  same<typeof turn, Turn<undefined>>(true);
  for await (const event of turn) {
    if (event.type === "ApprovalRequest") await turn.respond(event, "approve_for_session");
    if (event.type === "QuestionRequest") await turn.respond(event.payload, { "Which?": "A" });
    // @ts-expect-error -- an approval cannot be answered like a question
    if (event.type === "ApprovalRequest") await turn.respond(event, { "Which?": "A" });
    // @ts-expect-error -- a question cannot be answered like an approval
    if (event.type === "QuestionRequest") await session.respond(event.payload, "approve");
  }
  const result = await turn.result();
  same<typeof result, PromptResult<undefined>>(true);
  same<typeof result.status, "finished" | "cancelled" | "max_steps_reached" | "truncated" | "refused">(true);
  result.raiseForStatus().usage.output.toFixed();

  for await (const step of session.prompt([{ type: "text", text: "hi" }]).steps) {
    step.n.toFixed();
    for await (const event of step) event.type.trim();
  }
  for await (const event of session.replay()) event.type.trim();

  const { text } = await prompt("hi", { workDir: ".", yolo: true, signal: AbortSignal.timeout(1000) }).result();
  text.trim();
  const agent = await openAgent({ dialect: "acp", signal: AbortSignal.timeout(1000) });
  const { id } = await agent.createSession({ signal: AbortSignal.timeout(1000) });
  await Promise.all([agent.resume(id, { signal: AbortSignal.timeout(1000) }), agent.fork(id, { signal: undefined })]);
  await agent.close();
  setLogger(({ level, message }) => {
    console.log(level, message);
  }, "debug");
}

export function explain(error: unknown): number {
  if (error instanceof RpcError) return error.rpcCode ?? 0;
  if (error instanceof KimiAgentError && error.code === "timeout") return 1;
  return 0;
}

// @ts-expect-error -- unknown option
await createSession({ wrokDir: "." });
// @ts-expect-error -- a handler cannot answer like this
await createSession({ onApproval: () => "yes" });
// @ts-expect-error -- an event of a hook is required
hook({ handler: () => "allow" });
