// Compiled, never run: the types of structured output.
import {
  type AgentSessionOptions,
  createSession,
  openAgent,
  type Output,
  output,
  type OutputInvalid,
  prompt,
  type PromptOptions,
  type PromptResult,
  type Session,
  type SessionOptions,
  type StandardSchema,
  type Turn,
} from "kimi-agent";
import { z } from "zod";
import { z as z3 } from "zod-3-25";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_: Equal<A, B>): void {
  // Nothing: the argument's type is the assertion.
}

interface Review {
  approved: boolean;
  at: Date;
}
const review = z.object({ approved: z.boolean(), at: z.string().transform((text) => new Date(text)) });
const json = { type: "object", properties: { n: { type: "integer" } } } as const;

export async function prompts(session: Session<undefined>): Promise<void> {
  const turn = session.prompt("hi", { output: review, timeout: 1 });
  same<typeof turn, Turn<Review>>(true);
  const result = await turn.result();
  same<typeof result, PromptResult<Review>>(true);
  same<typeof result.output, Review | undefined>(true);
  same<ReturnType<typeof result.raiseForStatus>["output"], Review>(true);
  const { output: value } = result.raiseForStatus();
  value.at.getTime();

  const none = session.prompt("hi", { signal: AbortSignal.timeout(1) });
  same<typeof none, Turn<undefined>>(true);
  same<Awaited<ReturnType<typeof none.result>>["output"], undefined>(true);
  const given: PromptOptions = {};
  same<ReturnType<Turn["result"]>, Promise<PromptResult>>(true);
  const unknown = session.prompt("hi", given);
  same<typeof unknown, Turn>(true);
  const unset = session.prompt("hi", { output: undefined });
  same<typeof unset, Turn<undefined>>(true);
  // @ts-expect-error -- unknown option
  session.prompt("hi", { output: review, outptu: review });
  // @ts-expect-error -- text is not a schema
  session.prompt("hi", { output: "review" });
}

export async function sessions(options: SessionOptions): Promise<void> {
  const session = await createSession({ output: review, onApproval: ({ action }) => (action === "x" ? "approve" : "reject") });
  same<typeof session, Session<Review>>(true);
  const turn = session.prompt("hi");
  same<typeof turn, Turn<Review>>(true);
  const other = session.prompt("hi", { output: z.array(z.number()) });
  same<typeof other, Turn<number[]>>(true);
  // A typed session is one of any type.
  const any: Session = session;
  const anyTurn: Turn = turn;
  same<Awaited<ReturnType<typeof anyTurn.result>>["output"], unknown>(true);
  const plain = await createSession({ workDir: "." });
  same<typeof plain, Session<undefined>>(true);
  const loose = await createSession(options);
  same<typeof loose, Session>(true);
  await any.close();

  const agent = await openAgent();
  const [made, resumed, forked] = await Promise.all([
    agent.createSession({ output: review }),
    agent.resume(plain.id, { output: z.string() }),
    agent.fork(plain.id, { workDir: "." }),
  ]);
  same<typeof made, Session<Review>>(true);
  same<typeof resumed, Session<string>>(true);
  same<typeof forked, Session<undefined>>(true);
  const sessionOptions: AgentSessionOptions = { output: review };
  await agent.createSession(sessionOptions);
}

export async function oneShots(): Promise<void> {
  const turn = prompt("hi", { workDir: ".", timeout: 1, output: z.enum(["a", "b"]) });
  same<typeof turn, Turn<"a" | "b">>(true);
  const plain = prompt("hi", { workDir: "." });
  same<typeof plain, Turn<undefined>>(true);
  const { output: value } = await prompt("hi", { output: json }).result();
  same<typeof value, unknown>(true);
}

export function outputs(standard: StandardSchema<string, number>): void {
  const detailed = output(review, { name: "submit", description: "A review", mode: "tool", retries: 1 });
  same<typeof detailed, Output<Review>>(true);
  const turn = prompt("hi", { output: detailed });
  same<typeof turn, Turn<Review>>(true);
  const typed = output<{ n: number }>(json, { retries: undefined });
  same<typeof typed, Output<{ n: number }>>(true);
  const unknown = output(json);
  same<typeof unknown, Output>(true);
  const validated = output(json, { validate: z3.object({ n: z3.number().transform(String) }) });
  same<typeof validated, Output<{ n: string }>>(true);
  const other = output(standard);
  same<typeof other, Output<number>>(true);
  // @ts-expect-error -- no such mode
  output(review, { mode: "json" });
  // @ts-expect-error -- unknown option
  output(review, { retry: 1 });
  // @ts-expect-error -- outputs of other types
  same<typeof typed, Output<Review>>(true);
}

export function invalid(error: OutputInvalid): string {
  same<typeof error.attempts, number>(true);
  same<typeof error.result, PromptResult>(true);
  return error.errors.map(({ pointer, message }) => `${pointer}: ${message}`).join();
}
