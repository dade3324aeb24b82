/** Adds the events of the SDK to the tree of items. */

import { idOf, listOf, member, numberOf, objectOf, textOf, type Json, type JsonObject } from "../json";
import { readEvent, type Entry, type SourceEvent } from "./input";
import type { Item, RequestItem, ToolItem, Usage } from "./items";
import { touch, type Scope, type Tree } from "./tree";

type Handle = (tree: Tree, scope: Scope, entry: Entry, payload: JsonObject, event: SourceEvent) => void;

export function addEvent(tree: Tree, entry: Entry, event: SourceEvent): void {
  let scope = tree.scopeOf(event.turn, entry);
  let current = event;
  // Events of subagents can be nested as deeply as the agent wants, so this is a loop.
  while (current.type === "SubagentEvent") {
    const inner = readEvent(objectOf(current.payload, "event"), event.turn, event.step);
    if (!inner) break;
    const { payload } = current;
    const names = {
      parent: idOf(payload, "parent_tool_call_id"),
      agentId: idOf(payload, "agent_id"),
      agentType: textOf(payload, "subagent_type"),
    };
    scope = tree.subagentScope(scope, names, entry);
    if (scope.owner) touch(scope.owner, entry);
    current = inner;
  }
  const handle = HANDLERS.get(current.type) ?? addUnknown;
  handle(tree, scope, entry, current.payload, current);
}

const addUnknown: Handle = (tree, scope, entry, payload, event) => {
  const type = event.type === "UnknownEvent" ? (textOf(payload, "type") ?? "UnknownEvent") : event.type;
  tree.note("note", scope, entry, { title: `Unknown event ${type}`, text: textOf(payload, "error"), data: payload });
};

const beginTurn: Handle = (tree, scope, entry, payload) => {
  if (scope.turn === null || scope.depth > 0) return;
  const turn = tree.turnOf(scope.turn, entry);
  touch(turn, entry);
  const input = member(payload, "user_input");
  if (input !== undefined && (turn.input === "" || turn.input === null)) turn.input = input;
};

const beginStep: Handle = (tree, scope, entry, payload) => {
  endStep(scope, entry);
  const n = numberOf(payload, "n") ?? (scope.step?.n ?? 0) + 1;
  const item = tree.add("step", scope, entry, { n, usage: undefined, interrupted: false });
  item.step = n;
  scope.step = item;
  scope.tool = null;
  if (scope.owner?.kind === "turn") scope.owner.steps += 1;
};

function endStep(scope: Scope, entry: Entry): void {
  if (scope.step?.end === null) scope.step.end = entry.time;
}

const endTurnEvent: Handle = (_tree, scope, entry) => {
  if (scope.owner) touch(scope.owner, entry);
  endStep(scope, entry);
  if (scope.owner?.kind === "subagent") scope.owner.end = entry.time;
};

const interruptStep: Handle = (tree, scope, entry) => {
  if (scope.step) scope.step.interrupted = true;
  tree.note("note", scope, entry, { title: "Step interrupted" });
};

const addPart: Handle = (tree, scope, entry, payload) => {
  const type = textOf(payload, "type");
  const text = type === "text" ? textOf(payload, "text") : type === "think" ? textOf(payload, "think") : undefined;
  if (text === undefined) {
    tree.add("media", scope, entry, { part: payload });
    return;
  }
  const kind = type === "text" ? "text" : "thought";
  const message = textOf(payload, "message_id");
  if (scope.last?.kind === kind && (message ?? scope.last.message) === (scope.last.message ?? message)) {
    scope.last.message = message ?? scope.last.message;
    scope.last.text += text;
    scope.last.end = entry.time;
    touch(scope.last, entry);
  } else if (text !== "") tree.add(kind, scope, entry, { text, message });
};

const callTool: Handle = (tree, scope, entry, payload) => {
  const callee = objectOf(payload, "function");
  const callId = idOf(payload, "id") ?? "";
  const item = tree.add("tool", scope, entry, {
    callId,
    name: textOf(callee, "name") ?? "unknown tool",
    input: textOf(callee, "arguments") ?? "",
    result: undefined,
    attached: [],
  });
  scope.tool = item;
  scope.tools.set(callId, item);
  tree.tools.set(callId, item);
};

const addArguments: Handle = (_tree, scope, entry, payload) => {
  if (!scope.tool) return;
  scope.tool.input += textOf(payload, "arguments_part") ?? "";
  touch(scope.tool, entry);
};

function toolOf(tree: Tree, scope: Scope, id: string | undefined): ToolItem | undefined {
  return id === undefined ? undefined : (scope.tools.get(id) ?? tree.tools.get(id));
}

/** Takes the arguments from the SDK's own summary of a call, if the agent streamed none. */
function completeInput(tool: ToolItem, payload: JsonObject): void {
  const whole = member(objectOf(payload, "tool_call"), "arguments");
  if (tool.input.trim() === "" && whole !== undefined) tool.input = JSON.stringify(whole);
}

const addToolResult: Handle = (tree, scope, entry, payload) => {
  const id = idOf(payload, "tool_call_id");
  let tool = toolOf(tree, scope, id);
  if (!tool || tool.result) {
    const name = textOf(objectOf(payload, "tool_call"), "name") ?? "unknown tool";
    tool = tree.add("tool", scope, entry, { callId: id ?? "", name, input: "", result: undefined, attached: [] });
  }
  completeInput(tool, payload);
  tool.result = objectOf(payload, "return_value") ?? {};
  tool.end = entry.time;
  touch(tool, entry);
  for (const child of tool.children) child.end ??= entry.time;
};

function addRequestOf(kind: RequestItem["kind"], type: string): Handle {
  return (tree, scope, entry, payload) => {
    const requestId = idOf(payload, "id");
    const toolId =
      kind === "request" ? (type === "ToolCallRequest" ? requestId : undefined) : idOf(payload, "tool_call_id");
    const tool = toolOf(tree, scopeOfAgent(tree, scope, payload), toolId);
    if (tool) completeInput(tool, payload);
    tree.addRequest(kind, scope, entry, { type, payload, requestId, tool });
  };
}

/** An approval of a subagent comes without `SubagentEvent`. The id of the subagent leads to its tool call. */
function scopeOfAgent(tree: Tree, scope: Scope, payload: JsonObject): Scope {
  const agentId = idOf(payload, "agent_id");
  const toolId = idOf(payload, "tool_call_id");
  if (agentId === undefined || toolId === undefined) return scope;
  for (let at = tree.all.length - 1; at >= 0; at--) {
    const item: Item | undefined = tree.all[at];
    if (item?.kind !== "tool" || item.callId !== toolId) continue;
    const agent = agentOf(item);
    if (agent === agentId) return { ...scope, tools: new Map([[toolId, item]]) };
  }
  return scope;
}

function agentOf(item: Item): string | undefined {
  for (let each: Item | null = item; each; each = each.parent) if (each.kind === "subagent") return each.agentId;
  return undefined;
}

const respondToApproval: Handle = (tree, scope, entry, payload) => {
  const id = idOf(payload, "request_id");
  const request = id === undefined ? undefined : tree.requests.get(id);
  if (!request) {
    tree.note("note", scope, entry, {
      title: "Approval resolved by the agent",
      text: textOf(payload, "response"),
      data: payload,
    });
    return;
  }
  request.response = payload;
  request.end ??= entry.time;
  touch(request, entry);
  if (request.tool) touch(request.tool, entry);
};

const decideByPolicy: Handle = (tree, scope, entry, payload) => {
  const call = objectOf(payload, "tool_call");
  const tool = toolOf(tree, scope, idOf(call, "id"));
  tree.addRequest("policy", scope, entry, { type: "PolicyDecision", payload, tool }).end = entry.time;
};

const triggerHook: Handle = (tree, scope, entry, payload) => {
  const key = hookKey(scope, payload);
  tree.addRequest("hook", scope, entry, { type: "HookTriggered", payload, requestId: key });
};

const resolveHook: Handle = (tree, scope, entry, payload) => {
  const key = hookKey(scope, payload);
  const begun = tree.requests.get(key);
  const hook = begun ?? tree.addRequest("hook", scope, entry, { type: "HookResolved", payload });
  tree.requests.delete(key);
  hook.response = payload;
  hook.end = entry.time;
  touch(hook, entry);
};

/** Hooks have no ids in events: the next end of the same event and target belongs to them. No id has a line feed. */
function hookKey(scope: Scope, payload: JsonObject): string {
  return `hook\n${scope.key}\n${textOf(payload, "event") ?? ""}\n${textOf(payload, "target") ?? ""}`;
}

export function readUsage(value: Json | undefined): Usage | undefined {
  const [inputOther, output] = [numberOf(value, "input_other"), numberOf(value, "output")];
  if (inputOther === undefined && output === undefined) return undefined;
  return {
    inputOther: inputOther ?? 0,
    cacheRead: numberOf(value, "input_cache_read") ?? 0,
    cacheCreation: numberOf(value, "input_cache_creation") ?? 0,
    output: output ?? 0,
  };
}

const updateStatus: Handle = (tree, scope, entry, payload) => {
  const usage = readUsage(objectOf(payload, "token_usage"));
  if (scope.step) touch(scope.step, entry);
  if (usage && scope.step) scope.step.usage = usage;
  if (scope.depth === 0) {
    const sample = {
      time: entry.time,
      contextTokens: numberOf(payload, "context_tokens"),
      maxContextTokens: numberOf(payload, "max_context_tokens"),
      contextUsage: numberOf(payload, "context_usage"),
    };
    if (sample.contextTokens !== undefined || sample.contextUsage !== undefined) tree.samples.push(sample);
  }
  const planMode = member(payload, "plan_mode") === true;
  if (member(payload, "plan_mode") !== undefined && planMode !== tree.planMode) {
    tree.note("note", scope, entry, { title: `Plan mode is ${planMode ? "on" : "off"}` });
    tree.planMode = planMode;
  }
  const failed = listOf(objectOf(payload, "mcp_status"), "servers").filter((each) =>
    ["failed", "unauthorized"].includes(textOf(each, "status") ?? ""),
  );
  if (failed.length > 0) {
    const names = failed.map((each) => `${textOf(each, "name") ?? "a server"}: ${textOf(each, "status") ?? ""}`);
    tree.note("note", scope, entry, {
      title: "MCP servers are not connected",
      text: names.join("\n"),
      data: payload["mcp_status"],
    });
  }
};

function noteOf(title: string | ((payload: JsonObject) => string), text?: string): Handle {
  return (tree, scope, entry, payload) => {
    const body = text === undefined ? undefined : textOf(payload, text);
    tree.note("note", scope, entry, { title: typeof title === "string" ? title : title(payload), text: body });
  };
}

const showPlan: Handle = (tree, scope, entry, payload) => {
  const entries = listOf(payload, "entries");
  const statusOf = (each: Json): string => textOf(each, "status") ?? "";
  const done = entries.filter((each) => statusOf(each) === "completed").length;
  const isRemoved = member(payload, "removed") === true;
  const lines = entries.slice(0, 200).map((each) => `${statusOf(each)}: ${textOf(each, "content") ?? ""}`);
  const title = isRemoved ? "Plan removed" : `Plan: ${String(done)} of ${String(entries.length)} done`;
  tree.note("note", scope, entry, { title, text: lines.join("\n") });
};

const failHandler: Handle = (tree, scope, entry, payload) => {
  const name = textOf(payload, "name");
  const handler = [textOf(payload, "handler") ?? "a request", name === undefined ? "" : ` (${name})`].join("");
  const title = `The handler for ${handler} failed`;
  tree.note("error", scope, entry, { title, text: textOf(payload, "message") });
};

const retryStep: Handle = (tree, scope, entry, payload) => {
  const status = numberOf(payload, "status_code");
  const type = textOf(payload, "error_type") ?? "unknown error";
  const error = status === undefined ? type : `${type} (HTTP ${String(status)})`;
  const [next, most] = ["next_attempt", "max_attempts"].map((name) => String(numberOf(payload, name) ?? "?"));
  const attempt = `Attempt ${next ?? ""} of ${most ?? ""}`;
  tree.note("note", scope, entry, {
    title: `Call of the model failed: ${error}`,
    text: `${attempt} after ${String(numberOf(payload, "wait_s") ?? 0)} s`,
  });
};

const steer: Handle = (tree, scope, entry, payload) => {
  tree.note("call", scope, entry, {
    title: "Message of the user reached the model",
    text: inputText(member(payload, "user_input")),
  });
};

/** The text of a prompt or of an output: a text, or a list of content parts. */
export function inputText(input: Json | undefined): string {
  if (typeof input === "string") return input;
  if (!Array.isArray(input)) return "";
  return input
    .map((part) => (typeof part === "string" ? part : (textOf(part, "text") ?? "")))
    .filter((each) => each !== "")
    .join("\n");
}

const HANDLERS = new Map<string, Handle>([
  ["TurnBegin", beginTurn],
  ["TurnEnd", endTurnEvent],
  ["SteerInput", steer],
  ["StepBegin", beginStep],
  ["StepInterrupted", interruptStep],
  ["StepRetry", retryStep],
  ["ContentPart", addPart],
  ["Plan", showPlan],
  ["PlanDisplay", noteOf((payload) => `Plan ${textOf(payload, "file_path") ?? ""}`, "content")],
  ["ToolCall", callTool],
  ["ToolCallPart", addArguments],
  ["ToolResult", addToolResult],
  ["ApprovalRequest", addRequestOf("approval", "ApprovalRequest")],
  ["ApprovalResponse", respondToApproval],
  ["QuestionRequest", addRequestOf("question", "QuestionRequest")],
  ["ToolCallRequest", addRequestOf("request", "ToolCallRequest")],
  ["HookRequest", addRequestOf("hook", "HookRequest")],
  ["ReadFileRequest", addRequestOf("request", "ReadFileRequest")],
  ["WriteFileRequest", addRequestOf("request", "WriteFileRequest")],
  ["TerminalRequest", addRequestOf("request", "TerminalRequest")],
  ["StatusUpdate", updateStatus],
  ["CompactionBegin", noteOf("Compaction of the context begins")],
  ["CompactionEnd", noteOf("Compaction of the context ends")],
  ["MCPLoadingBegin", noteOf("MCP servers are being connected")],
  ["MCPLoadingEnd", noteOf("MCP servers have been connected")],
  ["HookTriggered", triggerHook],
  ["HookResolved", resolveHook],
  ["Notification", noteOf((payload) => `Notification: ${textOf(payload, "title") ?? ""}`, "body")],
  ["BtwBegin", noteOf("Side question", "question")],
  ["BtwEnd", noteOf("Answer to the side question", "response")],
  ["PolicyDecision", decideByPolicy],
  ["HandlerFailed", failHandler],
]);
