/** The entries of a recording, each in one line. */

import { excerpt } from "../format";
import { idOf, member, numberOf, objectOf, printJson, textOf } from "../json";
import type { Run } from "./build";
import { isEmpty, matcherOf, type Query } from "./filter";
import type { Entry, Recording } from "./input";
import type { Item } from "./items";

/** `→` for messages to the agent, `←` for messages from it. */
export function directionOf(entry: Entry): "to" | "from" | "inside" {
  if (entry.type !== "message") return "inside";
  return textOf(entry.data, "from") === "agent" ? "from" : "to";
}

function summaryOfMessage(entry: Entry): string {
  const line = textOf(entry.data, "line");
  if (line !== undefined) return `line that is not JSON: ${excerpt(line, 60)}`;
  const message = objectOf(entry.data, "message");
  const [method, id] = [textOf(message, "method"), idOf(message, "id")];
  const params = objectOf(message, "params");
  const detail = textOf(params, "type") ?? textOf(objectOf(params, "update"), "sessionUpdate");
  if (method !== undefined)
    return [method, detail, id === undefined ? undefined : `#${id}`].filter((each) => each !== undefined).join(" ");
  const kind = member(message, "error") === undefined ? "result" : "error";
  return id === undefined ? kind : `${kind} #${id}`;
}

/** Returns an entry in one line. */
export function summaryOfEntry(entry: Entry): string {
  const { data } = entry;
  const turn = numberOf(data, "turn");
  switch (entry.type) {
    case "message":
      return summaryOfMessage(entry);
    case "header":
      return `header, format ${idOf(data, "format") ?? "unknown"}`;
    case "call":
      return `call of ${textOf(data, "call") ?? "a function"}${turn === undefined ? "" : `, turn ${String(turn)}`}`;
    case "decision":
      return `decision: ${textOf(data, "kind") ?? "request"} by ${textOf(data, "by") ?? "unknown"}`;
    case "turn":
      return `end of turn ${turn === undefined ? "" : String(turn)}`;
    case "tool_call":
    case "tool_result":
      return `${entry.type.replace("_", " ")} ${textOf(data, "name") ?? idOf(data, "id") ?? ""}`;
    default:
      return entry.type;
  }
}

/** Returns the entries of an item, with those of the requests that are shown inside of it. */
export function entriesOf(recording: Recording, item: Item): Entry[] {
  const indexes = new Set(
    item.kind === "tool" ? [...item.entries, ...item.attached.flatMap((each) => each.entries)] : item.entries,
  );
  return [...indexes].sort((a, b) => a - b).flatMap((index) => recording.entries[index] ?? []);
}

/**
 * Returns the entries that have all words of a query. An entry itself has no tool and no state: with `tool:` or `is:`, the
 * entries are those of the items that fit the query.
 */
export function filterEntries({ recording, items }: Run, query: Query): Entry[] {
  const { entries } = recording;
  if (isEmpty(query)) return [...entries];
  if (query.tools.length > 0 || query.states.length > 0) {
    const found = new Set(items.filter(matcherOf(query)).flatMap((item) => entriesOf(recording, item)));
    return entries.filter((entry) => found.has(entry));
  }
  const terms = query.terms.map((term) => term.toLowerCase());
  return entries.filter((entry) => {
    if (
      query.turns.length > 0 &&
      !query.turns.includes(numberOf(entry.data, "turn") ?? -1) &&
      !entry.events.some(({ turn }) => turn !== null && query.turns.includes(turn))
    )
      return false;
    if (terms.length === 0) return true;
    const text = printJson(entry.data).toLowerCase();
    return terms.every((term) => text.includes(term));
  });
}
