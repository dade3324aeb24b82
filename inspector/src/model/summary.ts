/** Counts of a run, and its tokens and context over time. */

import { numberOf, objectOf, textOf } from "../json";
import type { Run } from "./build";
import { readUsage } from "./events";
import { isFailed, verdictOf, type Item, type RequestItem, type Sample, type StepItem, type Usage } from "./items";

export interface Summary {
  name: string;
  agent: string;
  sdk: string;
  dialect: string;
  model: string | undefined;
  started: string;
  /** `closed`, `failed`, or `incomplete` if the recording has no end. */
  status: "closed" | "failed" | "incomplete";
  /** Whether the file ends in the middle of a line. */
  isCut: boolean;
  duration: number;
  turns: number;
  steps: number;
  tools: number;
  failedTools: number;
  approvals: number;
  /** Approvals that were rejected. */
  rejected: number;
  subagents: number;
  errors: number;
  usage: Usage;
  /** The time that requests of the agent waited for an answer, in seconds. */
  waiting: number;
}

function words(...parts: (string | undefined)[]): string {
  return parts.filter((part) => part !== undefined && part !== "").join(" ");
}

function addUsage(sum: Usage, more: Usage | undefined): Usage {
  if (!more) return sum;
  return {
    inputOther: sum.inputOther + more.inputOther,
    cacheRead: sum.cacheRead + more.cacheRead,
    cacheCreation: sum.cacheCreation + more.cacheCreation,
    output: sum.output + more.output,
  };
}

const NOTHING: Usage = { inputOther: 0, cacheRead: 0, cacheCreation: 0, output: 0 };

export function totalOf(usage: Usage): number {
  return usage.inputOther + usage.cacheRead + usage.cacheCreation + usage.output;
}

/** The tokens of each turn: those of its result, or the sum of those of its steps. */
export function usageOfTurns(run: Run): Map<number, Usage> {
  const found = new Map<number, Usage>();
  const reported = new Set<number>();
  for (const turn of run.turns) {
    const usage = readUsage(objectOf(turn.result, "usage"));
    if (!usage || turn.turn === null) continue;
    found.set(turn.turn, usage);
    reported.add(turn.turn);
  }
  for (const item of run.all) {
    if (item.kind !== "step" || item.turn === null || reported.has(item.turn)) continue;
    found.set(item.turn, addUsage(found.get(item.turn) ?? NOTHING, item.usage));
  }
  return found;
}

function statusOf(run: Run): Summary["status"] {
  const end = run.recording.entries.findLast((entry) => entry.type === "end");
  if (!end) return "incomplete";
  return textOf(end.data, "reason") === "failed" ? "failed" : "closed";
}

function isRequest(item: Item): item is RequestItem {
  return "decision" in item;
}

export function summarize(run: Run): Summary {
  const { header, entries, name } = run.recording;
  const agent = objectOf(entries.find((entry) => entry.type === "opened")?.data, "agent");
  const sdk = objectOf(header, "sdk");
  const tools = run.all.filter((item) => item.kind === "tool");
  const requests = run.all.filter(isRequest);
  const usages = [...usageOfTurns(run).values()];
  return {
    name,
    agent: words(textOf(agent, "name"), textOf(agent, "version")),
    sdk: words(textOf(sdk, "name"), textOf(sdk, "version"), textOf(sdk, "language")),
    dialect: textOf(header, "dialect") ?? "",
    model: textOf(objectOf(header, "options"), "model"),
    started: textOf(header, "started") ?? "",
    status: statusOf(run),
    isCut: run.recording.isCut,
    duration: run.duration,
    turns: run.turns.length,
    steps: run.turns.reduce((sum, turn) => sum + (numberOf(turn.result, "steps") ?? turn.steps), 0),
    tools: tools.length,
    failedTools: tools.filter(isFailed).length,
    approvals: requests.filter((item) => item.kind === "approval").length,
    rejected: requests.filter((item) => item.kind === "approval" && verdictOf(item) === "rejected").length,
    subagents: run.all.filter((item) => item.kind === "subagent").length,
    errors: run.all.filter((item) => item.kind === "error").length,
    usage: usages.reduce((sum, each) => addUsage(sum, each), NOTHING),
    waiting: requests.reduce((sum, item) => sum + (item.decision?.duration ?? 0), 0),
  };
}

export interface ContextPoint {
  time: number;
  tokens: number;
}

/** The tokens in the context over time. For a fraction, the size of the context can be in another sample. */
export function contextOverTime(samples: readonly Sample[]): { points: ContextPoint[]; limit: number | undefined } {
  const limit = samples.findLast((sample) => sample.maxContextTokens !== undefined)?.maxContextTokens;
  const points = samples.flatMap(({ time, contextTokens, contextUsage }) => {
    const tokens =
      contextTokens ?? (contextUsage !== undefined && limit !== undefined ? contextUsage * limit : undefined);
    return tokens === undefined ? [] : [{ time, tokens }];
  });
  return { points, limit };
}

/** The steps of the agent and its subagents that reported their tokens. */
export function stepsWithUsage(run: Run): (StepItem & { usage: Usage })[] {
  return run.all.filter(
    (item): item is StepItem & { usage: Usage } => item.kind === "step" && item.usage !== undefined,
  );
}
