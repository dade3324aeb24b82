/** Reads the recordings from the text that is embedded in the page. Malformed events are left out. */

import { isObject, listOf, member, numberOf, objectOf, parseJson, textOf, type Json, type JsonObject } from "../json";

export interface SourceEvent {
  turn: number | null;
  step: number;
  type: string;
  payload: JsonObject;
}

/** An entry of a recording: a message, a call, a decision and so on. */
export interface Entry {
  /** Its place in the recording. The header is 0. */
  index: number;
  time: number;
  type: string;
  data: JsonObject;
  /** The events that the SDK made of it. They are not part of the recording. */
  events: SourceEvent[];
}

export interface Recording {
  name: string;
  /** Whether the file ends in the middle of a line. */
  isCut: boolean;
  header: JsonObject;
  /** All entries, with the header. */
  entries: Entry[];
}

export function readEvent(value: Json | undefined, turn: number | null, step: number): SourceEvent | undefined {
  const type = textOf(value, "type");
  if (type === undefined) return undefined;
  return { turn, step, type, payload: objectOf(value, "payload") ?? {} };
}

function readEvents(entry: JsonObject): SourceEvent[] {
  return listOf(entry, "events").flatMap((each) => {
    const event = isObject(each)
      ? readEvent(objectOf(each, "event"), numberOf(each, "turn") ?? null, numberOf(each, "step") ?? 0)
      : undefined;
    return event ? [event] : [];
  });
}

function readRecording(value: Json, place: number): Recording | undefined {
  if (!isObject(value)) return undefined;
  const header = objectOf(value, "header") ?? {};
  const entries: Entry[] = [{ index: 0, time: 0, type: "header", data: header, events: [] }];
  let time = 0;
  for (const each of listOf(value, "entries")) {
    const entry = member(each, "entry");
    const data = isObject(entry) ? entry : { value: entry ?? null };
    time = Math.max(time, numberOf(data, "time") ?? 0);
    entries.push({
      index: entries.length,
      time,
      type: textOf(data, "type") ?? "unknown",
      data,
      events: isObject(each) ? readEvents(each) : [],
    });
  }
  const name = textOf(value, "name") ?? `recording ${String(place + 1)}`;
  return { name, isCut: member(value, "is_cut") === true, header, entries };
}

export interface Input {
  recordings: Recording[];
  problem?: string;
}

/** Reads the embedded text. */
export function readInput(text: string): Input {
  if (text.trim() === "")
    return {
      recordings: [],
      problem: "This page contains no recording. The command `kimi-agent inspect run.jsonl` makes a page with one.",
    };
  const value = parseJson(text);
  if (value === undefined)
    return { recordings: [], problem: "The recordings in this page are not valid JSON. The file may be incomplete." };
  if (numberOf(value, "inspector") !== 2)
    return {
      recordings: [],
      problem: "The recordings in this page have a format that this version of the inspector does not know.",
    };
  const recordings = listOf(value, "recordings").flatMap((each, place) => readRecording(each, place) ?? []);
  return recordings.length > 0 ? { recordings } : { recordings, problem: "This page contains no recording." };
}
