/** Makes the items of a recording. */

import { idOf, member, numberOf, objectOf, textOf, type Json } from "../json";
import { addEvent, inputText } from "./events";
import type { Entry, Recording } from "./input";
import { flatten, type Decision, type Item, type RequestItem, type Sample, type TurnItem } from "./items";
import { touch, Tree } from "./tree";

export interface Run {
  recording: Recording;
  /** All items in the order in which they are shown. */
  items: Item[];
  /** All items with those that are shown inside of tool calls, in the order of the recording. */
  all: Item[];
  turns: TurnItem[];
  samples: Sample[];
  /** The time of the last entry. */
  duration: number;
}

type Handle = (tree: Tree, entry: Entry, header: Entry) => void;

/** Makes the items of a recording. It reads each entry once, and raises no error for malformed entries. */
export function buildRun(recording: Recording): Run {
  const tree = new Tree();
  const [header] = recording.entries;
  for (const entry of recording.entries) {
    for (const event of entry.events) addEvent(tree, entry, event);
    if (header) HANDLERS.get(entry.type)?.(tree, entry, header);
  }
  const duration = recording.entries.at(-1)?.time ?? 0;
  for (const turn of tree.turns.values()) tree.endTurn(turn.turn ?? 0, turn.end ?? duration);
  const turns = [...tree.turns.values()];
  return { recording, items: flatten(tree.roots), all: tree.all, turns, samples: tree.samples, duration };
}

const addOpened: Handle = (tree, entry, header) => {
  const agent = objectOf(entry.data, "agent");
  const name = [textOf(agent, "name"), textOf(agent, "version")].filter(Boolean).join(" ");
  const session = textOf(entry.data, "session_id");
  const protocol = `protocol ${idOf(entry.data, "protocol_version") ?? "unknown"}`;
  const text = [name, protocol, session === undefined ? "" : `session ${session}`]
    .filter((each) => each !== "")
    .join(", ");
  const item = tree.note("note", tree.scopeOf(null, entry), entry, {
    title: "Session opened",
    text,
    data: settingsOf(header),
  });
  item.entries.unshift(header.index);
};

/** The parts of the header that say how the session was set up. */
function settingsOf({ data }: Entry): Json | undefined {
  const shown = ["executable", "options", "policy", "tools"].flatMap((name): [string, Json][] => {
    const value = member(data, name);
    return value === undefined ? [] : [[name, value]];
  });
  return shown.length > 0 ? Object.fromEntries(shown) : undefined;
}

const CALLS = new Map<string, string>([
  ["cancel", "Cancel"],
  ["steer", "Steer"],
  ["set_plan_mode", "Set plan mode"],
  ["set_config_option", "Set a configuration option"],
  ["undo", "Undo turns"],
  ["replay", "Replay the session"],
  ["respond", "Respond to a request"],
  ["close", "Close the session"],
  ["kill", "Kill the agent"],
]);

const addCall: Handle = (tree, entry) => {
  const call = textOf(entry.data, "call") ?? "unknown call";
  const turn = numberOf(entry.data, "turn") ?? null;
  const given = objectOf(entry.data, "arguments");
  if (call === "prompt" && turn !== null) {
    const item = tree.turnOf(turn, entry);
    touch(item, entry);
    item.start = Math.min(item.start, entry.time);
    item.input = member(given, "input") ?? item.input;
    return;
  }
  const request = call === "respond" ? tree.requests.get(idOf(given, "request") ?? "") : undefined;
  if (request) touch(request, entry);
  const place = turn ?? request?.turn ?? (call === "cancel" || call === "steer" ? runningTurn(tree) : null);
  const text = call === "steer" ? inputText(member(given, "input")) : "";
  const data: Json | undefined = text === "" ? given : undefined;
  tree.note("call", tree.scopeOf(place, entry), entry, { title: `${CALLS.get(call) ?? call} (program)`, text, data });
};

function runningTurn(tree: Tree): number | null {
  const last = [...tree.turns.values()].at(-1);
  return last?.end === null ? last.turn : null;
}

const DECIDED = new Map<string, [RequestItem["kind"], string]>([
  ["approval", ["approval", "ApprovalRequest"]],
  ["question", ["question", "QuestionRequest"]],
  ["hook", ["hook", "HookRequest"]],
  ["tool", ["request", "ToolCallRequest"]],
  ["read_file", ["request", "ReadFileRequest"]],
  ["write_file", ["request", "WriteFileRequest"]],
  ["terminal", ["request", "TerminalRequest"]],
]);

function readDecision(entry: Entry): Decision {
  return {
    time: entry.time,
    by: textOf(entry.data, "by") ?? "unknown",
    duration: numberOf(entry.data, "duration") ?? null,
    answer: member(entry.data, "answer"),
    rule: textOf(entry.data, "rule"),
    error: textOf(entry.data, "error"),
  };
}

const addDecision: Handle = (tree, entry) => {
  const requestId = idOf(entry.data, "request");
  const [kind, type] = DECIDED.get(textOf(entry.data, "kind") ?? "") ?? ["request", "Request"];
  const known = requestId === undefined ? undefined : tree.requests.get(requestId);
  const tool = tree.tools.get(idOf(entry.data, "tool_call") ?? "");
  const place = tree.scopeOf(tool?.turn ?? runningTurn(tree), entry);
  const request =
    known && !known.decision ? known : tree.addRequest(kind, place, entry, { type, payload: {}, requestId, tool });
  request.decision = readDecision(entry);
  request.end = entry.time;
  touch(request, entry);
  if (request.tool) touch(request.tool, entry);
};

/** A call over the MCP server of the SDK has its own id. It belongs to the oldest running tool call with its name. */
const addToolCall: Handle = (tree, entry) => {
  const name = textOf(entry.data, "name") ?? "";
  const turn = runningTurn(tree);
  const tool = [...tree.tools.values()].find(
    (each) =>
      each.turn === turn &&
      !each.result &&
      each.name.endsWith(name) &&
      !each.attached.some(({ type }) => type === "ToolCallRequest"),
  );
  const payload = { name, arguments: member(entry.data, "arguments") ?? null };
  tree.addRequest("request", tree.scopeOf(turn, entry), entry, {
    type: "ToolCallRequest",
    payload,
    requestId: idOf(entry.data, "id"),
    tool,
  });
};

const addToolResult: Handle = (tree, entry) => {
  const request = tree.requests.get(idOf(entry.data, "id") ?? "");
  if (!request) return;
  request.response = objectOf(entry.data, "result") ?? {};
  request.end = entry.time;
  touch(request, entry);
  if (request.tool) touch(request.tool, entry);
};

const endTurn: Handle = (tree, entry) => {
  const number = numberOf(entry.data, "turn");
  if (number === undefined) return;
  const turn = tree.turnOf(number, entry);
  touch(turn, entry);
  turn.end = entry.time;
  turn.result = objectOf(entry.data, "result");
  const error = objectOf(entry.data, "error");
  turn.status = error ? "failed" : (textOf(turn.result, "status") ?? "finished");
  tree.endTurn(number, entry.time);
  if (error) addError(tree, entry, number, `The turn failed: ${textOf(error, "code") ?? "error"}`, error);
};

function addError(tree: Tree, entry: Entry, turn: number | null, title: string, error: Json): void {
  const scope = { ...tree.scopeOf(turn, entry), step: null };
  tree.note("error", scope, entry, { title, text: textOf(error, "message") });
}

const addGap: Handle = (tree, entry) => {
  const [entries, bytes] = [numberOf(entry.data, "entries") ?? 0, numberOf(entry.data, "bytes") ?? 0];
  const text = `${String(entries)} entries with ${String(bytes)} bytes are missing, because the disk was too slow.`;
  tree.note("note", tree.scopeOf(runningTurn(tree), entry), entry, { title: "Gap in the recording", text });
};

const endSession: Handle = (tree, entry) => {
  const error = objectOf(entry.data, "error");
  if (error) addError(tree, entry, null, `The session failed: ${textOf(error, "code") ?? "error"}`, error);
  else
    tree.note("note", tree.scopeOf(null, entry), entry, {
      title: `Session ended: ${textOf(entry.data, "reason") ?? "unknown reason"}`,
    });
};

const addLine: Handle = (tree, entry) => {
  const line = textOf(entry.data, "line");
  if (line === undefined) return;
  tree.note("note", tree.scopeOf(runningTurn(tree), entry), entry, { title: "Line that is not JSON", text: line });
};

const HANDLERS = new Map<string, Handle>([
  ["message", addLine],
  ["opened", addOpened],
  ["call", addCall],
  ["decision", addDecision],
  ["tool_call", addToolCall],
  ["tool_result", addToolResult],
  ["turn", endTurn],
  ["gap", addGap],
  ["end", endSession],
]);
