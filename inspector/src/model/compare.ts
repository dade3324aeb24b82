/** Compares two runs: items that are the same, that differ, or that one run lacks. Times and ids do not count. */

import { member, objectOf, printJson, textOf } from "../json";
import { stripStyles } from "../text/ansi";
import type { Run } from "./build";
import { diffLists } from "./diff";
import { inputText } from "./events";
import { flatten, verdictOf, type Item, type RequestItem, type ToolItem } from "./items";
import { argumentsOf, KIND_NAMES, titleOf } from "./words";

export interface Field {
  name: string;
  text: string;
}

export interface Pair {
  left: Item | null;
  right: Item | null;
  same: boolean;
}

function decisionText(item: RequestItem): string {
  const feedback = textOf(item.decision?.answer, "feedback") ?? textOf(item.response, "feedback");
  const reason = [item.decision?.rule, item.decision?.error, feedback].filter((each) => each !== undefined);
  const by = item.decision ? ` by ${item.decision.by}` : "";
  return `${verdictOf(item)}${by}${reason.length > 0 ? `: ${reason.join(", ")}` : ""}`;
}

function policyText(item: RequestItem): string {
  return `${textOf(item.payload, "decision") ?? "unknown"} ${textOf(item.payload, "rule") ?? "(default)"}`;
}

function argumentText(input: string): string {
  const found = argumentsOf(input);
  return typeof found === "string" ? found : found.map(({ name, text }) => `${name}: ${text}`).join("\n");
}

function toolFields(item: ToolItem): Field[] {
  const { result } = item;
  const outcome = result === undefined ? "no result" : member(result, "is_error") === true ? "error" : "success";
  return [
    { name: "Tool", text: item.name },
    { name: "Arguments", text: argumentText(item.input) },
    ...item.attached.map((each) => ({
      name: KIND_NAMES[each.kind],
      text: each.kind === "policy" ? policyText(each) : decisionText(each),
    })),
    { name: "Result", text: outcome },
    { name: "Message", text: textOf(result, "message") ?? "" },
    { name: "Output", text: stripStyles(inputText(member(result, "output"))) },
  ];
}

/** Returns what counts when two items are compared. */
export function fieldsOf(item: Item): Field[] {
  switch (item.kind) {
    case "turn":
      return [
        { name: "Prompt", text: inputText(item.input) },
        { name: "Status", text: item.status ?? "incomplete" },
      ];
    case "text":
    case "thought":
      return [{ name: KIND_NAMES[item.kind], text: item.text }];
    case "tool":
      return toolFields(item);
    case "media":
      return [{ name: "Content", text: printJson(item.part) }];
    case "step":
    case "subagent":
      return [{ name: "Kind", text: item.kind === "subagent" ? (item.agentType ?? "") : "" }];
    case "note":
    case "call":
    case "error":
      return [
        { name: "Title", text: item.title },
        { name: "Text", text: item.text },
      ];
    case "policy":
      return [{ name: "Decision", text: policyText(item) }];
    default:
      return [
        { name: "Request", text: titleOf(item) },
        { name: "Decision", text: decisionText(item) },
      ];
  }
}

function wholeKey(item: Item): string {
  return JSON.stringify([item.kind, item.depth, ...fieldsOf(item).map(({ name, text }) => [name, text])]);
}

/** Items with this in common can be two forms of the same item. */
function roughKey(item: Item): string {
  if (item.kind === "tool") return `tool ${item.name}`;
  return item.kind;
}

function alignItems(left: Item[], right: Item[]): Pair[] {
  const pairs: Pair[] = [];
  let [leftGap, rightGap]: [Item[], Item[]] = [[], []];
  const closeGap = (): void => {
    for (const chunk of diffLists(leftGap, rightGap, roughKey)) {
      if (chunk.type === "same")
        chunk.left.forEach((item, at) => pairs.push({ left: item, right: chunk.right[at] ?? null, same: false }));
      else
        pairs.push(
          ...chunk.left.map((item) => ({ left: item, right: null, same: false })),
          ...chunk.right.map((item) => ({ left: null, right: item, same: false })),
        );
    }
    [leftGap, rightGap] = [[], []];
  };
  for (const chunk of diffLists(left, right, wholeKey)) {
    if (chunk.type === "same") {
      closeGap();
      chunk.left.forEach((item, at) => pairs.push({ left: item, right: chunk.right[at] ?? null, same: true }));
    } else {
      leftGap.push(...chunk.left);
      rightGap.push(...chunk.right);
    }
  }
  closeGap();
  return pairs;
}

/** The items in a turn. Steps only surround others, so they are left out. */
function contentOf(item: Item | null): Item[] {
  return item ? flatten(item.children).filter((each) => each.kind !== "step") : [];
}

function rootsOf(run: Run): Item[] {
  return run.items.filter((item) => item.parent === null);
}

/** Aligns the turns of two runs, and then the items in each pair of turns. */
export function compareRuns(left: Run, right: Run): Pair[] {
  return alignItems(rootsOf(left), rootsOf(right)).flatMap((pair) => [
    pair,
    ...alignItems(contentOf(pair.left), contentOf(pair.right)),
  ]);
}

/** The options of the session that differ, as JSON. */
export function headerFields(run: Run): Field[] {
  const { header } = run.recording;
  return Object.keys(objectOf(header, "options") ?? {}).map((name) => ({
    name,
    text: printJson(objectOf(header, "options")?.[name] ?? null),
  }));
}
