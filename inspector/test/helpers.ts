/** Recordings for unit tests, of few entries. */

import type { Json, JsonObject } from "../src/json";
import { buildRun, type Run } from "../src/model/build";
import { readInput } from "../src/model/input";
import type { Item, ItemOf, Kind } from "../src/model/items";

type Entry = Record<string, Json>;

/** The text in a page: entries as they were recorded, each with the events of the SDK. */
export function embedded(recordings: Record<string, Json>[]): string {
  const wrapped = recordings.map(({ entries, ...more }) => ({
    ...more,
    entries: (entries as Entry[]).map(({ events, ...entry }) => (events ? { entry, events } : { entry })),
  }));
  return JSON.stringify({ inspector: 2, recordings: wrapped });
}

/** An entry with an event of the agent in turn 1. */
export function event(type: string, payload: JsonObject, { time = 0, turn = 1 } = {}): Entry {
  return {
    type: "message",
    from: "agent",
    time,
    message: { method: "event" },
    events: [{ turn, step: 1, event: { type, payload } }],
  };
}

export function prompt(input: Json, { time = 0, turn = 1 } = {}): Entry {
  return { type: "call", call: "prompt", turn, time, arguments: { input } };
}

export function toolCall(id: string, name: string, input: string, more: { time?: number } = {}): Entry {
  return event("ToolCall", { type: "function", id, function: { name, arguments: input } }, more);
}

export function toolResult(id: string, output: Json, { time = 0, failed = false } = {}): Entry {
  return event("ToolResult", { tool_call_id: id, return_value: { is_error: failed, output, message: "" } }, { time });
}

export function runOf(entries: Entry[], header: JsonObject = {}): Run {
  const input = readInput(embedded([{ name: "run.jsonl", header, entries }]));
  const recording = input.recordings[0];
  if (!recording) throw new Error(input.problem);
  return buildRun(recording);
}

export function only<K extends Kind>(run: Run, kind: K): ItemOf<K> {
  const found = run.all.filter((item): item is ItemOf<K> & Item => item.kind === kind);
  const [first] = found;
  if (!first || found.length > 1) throw new Error(`${String(found.length)} items of the kind ${kind}`);
  return first;
}

export function kinds(run: Run): Kind[] {
  return run.items.map(({ kind }) => kind);
}
