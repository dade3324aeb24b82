// Compiled, never run: types with `exactOptionalPropertyTypes`, literals, interfaces, errors, scripts.
import type { MeterProvider, TracerProvider } from "@opentelemetry/api";
import {
  type AgentSessionOptions,
  type ApprovalRequest,
  createSession,
  type Dialect,
  hook,
  type HookEvent,
  isKimiAgentError,
  openAgent,
  type Session,
  tool,
  type ToolOutcome,
} from "kimi-agent";
import { type Script, scriptedAgent, type ScriptTurn } from "kimi-agent/testing";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_: Equal<A, B>): void {
  // Nothing: the argument's type is the assertion.
}

// As in TypeBox and in `JSONSchema7`: interfaces, without index signatures.
interface SchemaInterface {
  type?: "object" | "string";
  properties?: Record<string, SchemaInterface>;
  readonly required?: readonly string[];
}
interface SettingsInterface {
  default_model: string;
}

export async function literals(session: Session): Promise<void> {
  const dialects: Dialect[] = ["auto", "acp", "legacy", "1.0", "1.10"];
  const events: HookEvent[] = ["PreToolUse", "Notification"];
  hook({ event: "Stop", handler: () => "allow" });
  // @ts-expect-error -- a misspelt event
  hook({ event: "PreTooluse", handler: () => "allow" });
  await createSession({ dialect: "1.9" });
  // @ts-expect-error -- a version that there is not
  await createSession({ dialect: "1.11" });
  same<typeof session.usage.total, number>(true);
  same<typeof session.status.plan_mode, boolean | undefined>(true);
  void [dialects, events];
}

export async function interfaces(schema: SchemaInterface, config: SettingsInterface): Promise<void> {
  tool({ name: "a", description: "", parameters: schema, handler: () => "" });
  const handler = (): ToolOutcome => ({ is_error: false, output: "", message: undefined, display: undefined });
  await createSession({ config, mcpConfigs: [config], tools: [{ name: "a", description: "", parameters: schema, handler }] });
}

export async function optional(none: undefined): Promise<void> {
  const session = await createSession({ workDir: none, tools: none, onApproval: none, signal: none, env: { A: none } });
  session.prompt([{ type: "image_url", image_url: { url: "", id: none } }], { signal: none });
  scriptedAgent({ turns: none, wire: none });
}

export async function agents(): Promise<void> {
  const agent = await openAgent({ executable: "kimi" });
  const options: AgentSessionOptions = { workDir: ".", handshakeTimeout: 1 };
  await agent.createSession(options);
  // @ts-expect-error -- an option of the process
  await agent.createSession({ executable: "kimi" });
  // @ts-expect-error -- an option of the process
  await agent.resume("id", { env: {} });
  // @ts-expect-error -- the session is named once
  await agent.fork("id", { sessionId: "other" });
}

export function frozen(request: ApprovalRequest): void {
  // @ts-expect-error -- events are read-only
  request.id = "other";
  // @ts-expect-error -- and so are their lists
  request.display[0] = { type: "brief", text: "" };
}

export function errors(error: unknown): string | number | null | undefined {
  if (!isKimiAgentError(error)) return undefined;
  switch (error.code) {
    case "agent_exited":
      return error.exitCode;
    case "invalid_option":
      return error.option;
    case "llm_service_error":
    case "rpc_error":
      return error.rpcCode;
    case "budget_exceeded":
      return error.result.text;
    case "output_invalid":
      return error.errors[0]?.message ?? error.attempts;
    case "max_steps_reached":
      return error.steps;
    default:
      // @ts-expect-error -- other errors have no such field
      return error.exitCode;
  }
}

const script: ScriptTurn[] = [
  [{ text: ["a", "b"], delay_between: 0.1 }, { tool_call: { name: "Shell", approve: true, result: "ok" } }],
  { actions: [{ delay: 1 }, { exit: 3 }], status: "cancelled" },
];
scriptedAgent({ wire: "acp", turns: script, cut: { lines: 2, actions: [{ stall: true }] } });
const whole: Script = script;
scriptedAgent(whole);
// @ts-expect-error -- there is no such action
scriptedAgent([[{ txt: "a" }]]);
// @ts-expect-error -- seconds, not text
scriptedAgent([[{ text: "a", delay: "1" }]]);
// @ts-expect-error -- no such field
scriptedAgent({ turn: [] });

export async function telemetry(tracerProvider: TracerProvider, meterProvider: MeterProvider): Promise<void> {
  await createSession({ telemetry: true });
  await createSession({ telemetry: { tracerProvider, meterProvider, captureContent: false } });
  // @ts-expect-error -- a provider of tracers makes no meters
  await createSession({ telemetry: { meterProvider: tracerProvider } });
}
