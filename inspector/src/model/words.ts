/** The words of items: their titles, and the texts that search looks through. */

import { isObject, listOf, member, objectOf, parseJson, printJson, textOf, type Json } from "../json";
import { excerpt } from "../format";
import { stripStyles } from "../text/ansi";
import { inputText } from "./events";
import type { Item, Kind, RequestItem, ToolItem } from "./items";

export const KIND_NAMES: Record<Kind, string> = {
  turn: "Turn",
  step: "Step",
  text: "Text",
  thought: "Thought",
  media: "Media",
  tool: "Tool call",
  approval: "Approval",
  policy: "Policy",
  question: "Question",
  hook: "Hook",
  request: "Request",
  subagent: "Subagent",
  call: "Program",
  note: "Session",
  error: "Error",
};

/** Arguments that say the most about a call, in the order of preference. */
const TELLING = [
  "command",
  "cmd",
  "path",
  "file_path",
  "filePath",
  "pattern",
  "query",
  "url",
  "description",
  "prompt",
  "title",
  "name",
];

/** Returns the most telling argument of a call in one line. */
export function summaryOfInput(input: string): string {
  const value = input.length < 200_000 ? parseJson(input) : undefined;
  for (const name of TELLING) {
    const text = textOf(value, name);
    if (text !== undefined && text.trim() !== "") return excerpt(text);
  }
  return input.trim() === "" || input.trim() === "{}" ? "" : excerpt(input);
}

const REQUEST_TITLES = new Map<string, (item: RequestItem) => string>([
  ["ReadFileRequest", ({ payload }) => `Read ${textOf(payload, "path") ?? "a file"}`],
  ["WriteFileRequest", ({ payload }) => `Write ${textOf(payload, "path") ?? "a file"}`],
  [
    "TerminalRequest",
    ({ payload }) =>
      ["Run", textOf(payload, "command"), ...listOf(payload, "args")].filter((each) => typeof each === "string").join(" "),
  ],
  ["ToolCallRequest", ({ payload }) => `Tool of the program ${textOf(payload, "name") ?? ""}`],
]);

function titleOfRequest(item: RequestItem): string {
  const { kind, payload } = item;
  if (kind === "approval") return textOf(payload, "description") ?? textOf(payload, "action") ?? "Approval";
  if (kind === "policy") return textOf(payload, "rule") ?? "Default of the policy";
  if (kind === "question") {
    const first = listOf(payload, "questions")[0];
    return textOf(first, "question") ?? "Question";
  }
  if (kind === "hook")
    return [textOf(payload, "event"), textOf(payload, "target")].filter(Boolean).join(": ") || "Hook";
  return REQUEST_TITLES.get(item.type)?.(item) ?? item.type;
}

/** Returns the title of an item in one line. */
export function titleOf(item: Item): string {
  switch (item.kind) {
    case "turn":
      return excerpt(inputText(item.input)) || "(prompt without text)";
    case "step":
      return `Step ${String(item.n)}`;
    case "text":
    case "thought":
      return excerpt(item.text);
    case "media":
      return mediaTitle(item.part);
    case "tool":
      return [item.name, summaryOfInput(item.input)].filter((each) => each !== "").join(" ");
    case "subagent":
      return ["Subagent", item.agentType, item.agentId].filter((each) => each !== undefined && each !== "").join(" ");
    case "note":
    case "call":
    case "error":
      return item.title;
    default:
      return excerpt(titleOfRequest(item));
  }
}

function mediaTitle(part: Json): string {
  const type = textOf(part, "type") ?? "";
  if (type === "image_url") return "Image";
  if (type === "audio_url") return "Audio";
  if (type === "video_url") return "Video";
  if (type === "resource") return `Resource ${textOf(part, "uri") ?? ""}`;
  return `Content of the unknown type ${type}`;
}

/** The address of an image, an audio recording or a video. */
export function mediaUrl(part: Json): string | undefined {
  for (const name of ["image_url", "audio_url", "video_url"]) {
    const url = textOf(objectOf(part, name), "url");
    if (url !== undefined) return url;
  }
  return undefined;
}

function wordsOfDisplay(blocks: Json[]): string[] {
  return blocks.flatMap((block) => {
    const own = ["text", "path", "old_text", "new_text", "command", "description"].map(
      (name) => textOf(block, name) ?? "",
    );
    return [...own, ...listOf(block, "items").map((each) => textOf(each, "title") ?? "")];
  });
}

function wordsOfTool(item: ToolItem): string[] {
  const { result } = item;
  const output = stripStyles(inputText(member(result, "output")));
  return [
    item.name,
    readable(item.input),
    output,
    textOf(result, "message") ?? "",
    ...wordsOfDisplay(listOf(result, "display")),
  ];
}

export interface Argument {
  name: string;
  text: string;
}

function isScalar(value: Json): boolean {
  return typeof value !== "object" || value === null;
}

/** Prints JSON, a short list or object in one line. */
function shortJson(value: Json): string {
  if (isScalar(value) || !Object.values(value ?? {}).every(isScalar)) return printJson(value);
  const line = JSON.stringify(value);
  return line.length <= 100 ? line : printJson(value);
}

/** Returns the arguments of a call with the text of each, or the whole text if it is not a JSON object. */
export function argumentsOf(input: string): Argument[] | string {
  const value = parseJson(input);
  if (!isObject(value)) return input;
  return Object.keys(value).map((name) => {
    const each = value[name] ?? null;
    return { name, text: typeof each === "string" ? each : shortJson(each) };
  });
}

function readable(input: string): string {
  const found = argumentsOf(input);
  return typeof found === "string" ? found : found.map(({ name, text }) => `${name} ${text}`).join("\n");
}

function wordsOfRequest(item: RequestItem): string[] {
  const { decision, payload } = item;
  const answer = decision?.answer === undefined ? "" : printJson(decision.answer, 100_000);
  return [
    titleOfRequest(item),
    printJson(payload, 100_000),
    decision?.by ?? "",
    decision?.rule ?? "",
    decision?.error ?? "",
    answer,
  ];
}

/** Returns all text of an item that search looks through. */
export function wordsOf(item: Item): string {
  return partsOf(item)
    .filter((part) => part !== "")
    .join("\n");
}

function partsOf(item: Item): string[] {
  switch (item.kind) {
    case "turn":
      return [inputText(item.input), item.status ?? ""];
    case "text":
    case "thought":
      return [item.text];
    case "tool":
      return [...wordsOfTool(item), ...item.attached.flatMap(wordsOfRequest)];
    case "note":
    case "call":
    case "error":
      return [item.title, item.text, item.data === undefined ? "" : printJson(item.data, 100_000)];
    case "step":
    case "media":
    case "subagent":
      return [titleOf(item)];
    default:
      return wordsOfRequest(item);
  }
}
