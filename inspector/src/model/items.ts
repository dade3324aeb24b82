/** The items that the inspector shows: a recording becomes a tree of them. */

import { member, textOf, type Json, type JsonObject } from "../json";

interface Base {
  id: number;
  /** The number of subagents around it. */
  depth: number;
  turn: number | null;
  step: number;
  /** In seconds since the beginning of the recording. */
  start: number;
  end: number | null;
  /** The indexes of the entries that it was made of. */
  entries: number[];
  parent: Item | null;
  children: Item[];
}

/** A decision about a request of the agent: an entry `decision`. */
export interface Decision {
  time: number;
  by: string;
  duration: number | null;
  answer: Json | undefined;
  rule: string | undefined;
  error: string | undefined;
}

export interface Usage {
  inputOther: number;
  cacheRead: number;
  cacheCreation: number;
  output: number;
}

export interface TurnItem extends Base {
  kind: "turn";
  input: Json;
  /** `finished`, `cancelled` and so on; `failed`; undefined if the recording ends before the turn. */
  status: string | undefined;
  result: JsonObject | undefined;
  steps: number;
}

export interface StepItem extends Base {
  kind: "step";
  n: number;
  usage: Usage | undefined;
  interrupted: boolean;
}

export interface TextItem extends Base {
  kind: "text" | "thought";
  text: string;
  /** The id of the message, if the agent sends it. */
  message: string | undefined;
}

export interface MediaItem extends Base {
  kind: "media";
  part: JsonObject;
}

export interface ToolItem extends Base {
  kind: "tool";
  callId: string;
  name: string;
  /** JSON text as the model wrote it, or as the SDK has it. */
  input: string;
  result: JsonObject | undefined;
  /** Requests and decisions about this call. They are shown inside of it. */
  attached: RequestItem[];
}

/** A request that waits for an answer, or a decision about one. */
export interface RequestItem extends Base {
  kind: "approval" | "question" | "hook" | "request" | "policy";
  /** The name of the event, for example `ApprovalRequest`. */
  type: string;
  requestId: string | undefined;
  payload: JsonObject;
  decision: Decision | undefined;
  /** The response in the event of the agent: `ApprovalResponse`, `HookResolved`, or the entry `tool_result`. */
  response: JsonObject | undefined;
  tool: ToolItem | undefined;
}

export interface SubagentItem extends Base {
  kind: "subagent";
  agentId: string | undefined;
  agentType: string | undefined;
}

export interface NoteItem extends Base {
  kind: "note" | "call" | "error";
  title: string;
  text: string;
  /** Further data, shown as JSON. */
  data: Json | undefined;
}

export type Item = TurnItem | StepItem | TextItem | MediaItem | ToolItem | RequestItem | SubagentItem | NoteItem;
export type Kind = Item["kind"];
/** The item of a kind. */
export type ItemOf<K extends Kind> = Item extends infer Each
  ? Each extends Item
    ? K extends Each["kind"]
      ? Each
      : never
    : never
  : never;

/** A value of the context or the tokens at a time. */
export interface Sample {
  time: number;
  contextTokens: number | undefined;
  maxContextTokens: number | undefined;
  contextUsage: number | undefined;
}

/** Returns the items in the order in which they are shown: each before its children. */
export function flatten(roots: readonly Item[]): Item[] {
  const flat: Item[] = [];
  const stack: Item[] = [...roots].reverse();
  for (let item = stack.pop(); item; item = stack.pop()) {
    flat.push(item);
    for (let at = item.children.length - 1; at >= 0; at--) {
      const child = item.children[at];
      if (child) stack.push(child);
    }
  }
  return flat;
}

/** The result of a decision or a rule about an action. */
export type Verdict = "approved" | "rejected" | "answered" | "pending";

export function verdictOf(item: RequestItem): Verdict {
  const response = textOf(item.decision?.answer, "response") ?? textOf(item.response, "response");
  const action = textOf(item.decision?.answer, "action") ?? textOf(item.response, "action");
  if (item.kind === "policy") {
    const decision = textOf(item.payload, "decision");
    return decision === "deny" ? "rejected" : decision === "allow" ? "approved" : "pending";
  }
  if (item.kind === "approval") {
    if (response === "approve" || response === "approve_for_session") return "approved";
    return response === undefined && item.decision?.by !== "cancelled" ? "pending" : "rejected";
  }
  if (item.kind === "hook" && action === "block") return "rejected";
  return item.decision || item.response ? "answered" : "pending";
}

/** Whether something failed: an error, a turn with an error, a tool call whose result is an error. */
export function isFailed(item: Item): boolean {
  if (item.kind === "error") return true;
  if (item.kind === "turn") return item.status === "failed";
  if (item.kind === "tool") return member(item.result, "is_error") === true;
  if ("decision" in item) return item.decision?.by === "handler_failed";
  return false;
}

/** Whether an approval, a rule or a hook stopped an action. */
export function isRejected(item: Item): boolean {
  if (item.kind === "tool") return item.attached.some(isRejected);
  return "decision" in item && verdictOf(item) === "rejected";
}
