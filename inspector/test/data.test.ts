import assert from "node:assert/strict";
import { test } from "node:test";

import { member, printJson, textOf, type Json } from "../src/json";
import { Offsets } from "../src/list/offsets";
import { countChanges, foldRows, sideBySide, type Row } from "../src/model/diff";
import { buildRun } from "../src/model/build";
import { readInput } from "../src/model/input";
import { embedded, only } from "./helpers";

function lines(rows: Row[]): string[] {
  return rows.map((row) => {
    if (row.type === "fold") return `fold ${String(row.count)}`;
    const text = (side: typeof row.left): string =>
      side
        ? `${String(side.line)}${side.parts.map((part) => (part.changed ? `[${part.text}]` : part.text)).join("")}`
        : "";
    return `${row.type} ${text(row.left)}|${text(row.right)}`;
  });
}

test("prototype_names_are_own_members_only", () => {
  const value = JSON.parse('{"__proto__": "own"}') as Json;
  assert.equal(textOf(value, "__proto__"), "own");
  for (const name of ["__proto__", "constructor", "toString"]) assert.equal(member({}, name), undefined);
});

test("json_is_printed_with_indentation", () => {
  const value: Json = { a: [1, "x", null, true], b: {}, c: [], d: { "": "</script>" } };
  assert.equal(printJson(value), JSON.stringify(value, null, 2));
});

test("json_of_any_depth_is_printed", () => {
  let value: Json = 1;
  for (let level = 0; level < 200_000; level++) value = [value];
  assert.ok(printJson(value, 10_000_000).includes("1"));
});

test("printed_json_is_cut", () => {
  assert.equal(printJson(Array<Json>(1000).fill("text"), 50).length, 51);
});

test("offsets_agree_with_plain_sums", () => {
  const heights = Array.from({ length: 137 }, (_, at) => (at * 31) % 23);
  const offsets = new Offsets(heights);
  for (let change = 0; change < 200; change++) {
    const [index, height] = [(change * 53) % heights.length, (change * 17) % 40];
    heights[index] = height;
    offsets.set(index, height);
  }
  let sum = 0;
  heights.forEach((height, index) => {
    assert.equal(offsets.offsetOf(index), sum);
    if (height > 0) assert.equal(offsets.indexAt(sum), index);
    sum += height;
  });
  assert.equal(offsets.total, sum);
});

test("offsets_outside_give_first_or_last", () => {
  const offsets = new Offsets([10, 10, 10]);
  assert.deepEqual([offsets.indexAt(-5), offsets.indexAt(1000)], [0, 2]);
  assert.equal(new Offsets([]).indexAt(5), 0);
  assert.equal(offsets.set(7, 5), 0);
});

test("diff_pairs_changed_lines", () => {
  assert.deepEqual(lines(sideBySide("a\nb one c\nd\n", "a\nb two c\nd\ne\n")), [
    "same 1a|1a",
    "changed 2b [one] c|2b [two] c",
    "same 3d|3d",
    "added |4[e]".replace("[e]", "e"),
  ]);
});

test("diff_counts_from_given_lines", () => {
  assert.deepEqual(lines(sideBySide("a", "a\nb", { left: 10, right: 20 })), ["same 10a|20a", "added |21b"]);
});

test("diff_of_new_file_adds_all", () => {
  const rows = sideBySide("", "a\nb\n");
  assert.deepEqual(lines(rows), ["added |1a", "added |2b"]);
  assert.deepEqual(countChanges(rows), { added: 2, removed: 0 });
});

test("diff_of_unlike_lines_marks_whole", () => {
  assert.deepEqual(lines(sideBySide("completely other", "something else here")), [
    "changed 1[completely other]|1[something else here]",
  ]);
});

test("unchanged_lines_are_folded", () => {
  const before = Array.from({ length: 30 }, (_, at) => `line ${String(at)}`);
  const after = before.map((line, at) => (at === 15 ? "changed" : line));
  const folded = lines(foldRows(sideBySide(before.join("\n"), after.join("\n"))));
  assert.equal(folded[0], "fold 12");
  assert.equal(folded.at(-1), "fold 11");
  assert.equal(folded.length, 9);
});

test("diff_of_unlike_texts_ends", () => {
  const text = (seed: number): string =>
    Array.from({ length: 20_000 }, (_, at) => `${String(seed)} ${String((at * seed) % 9973)}`).join("\n");
  const rows = sideBySide(text(3), text(7));
  assert.equal(rows.length, 20_000);
});

for (const [name, text] of [
  ["empty", ""],
  ["truncated", '{"inspector": 1, "recordings": ['],
  ["newer", '{"inspector": 3, "recordings": []}'],
  ["other", "[1, 2]"],
  ["without_recordings", '{"inspector": 2}'],
] as const) {
  test(`${name}_input_is_explained`, () => {
    const input = readInput(text);
    assert.equal(input.recordings.length, 0);
    assert.ok(input.problem);
  });
}

test("malformed_entries_are_shown", () => {
  const end = { type: "end", time: "now", events: "none" };
  const entries = [null, { entry: [1] }, { entry: { type: 5 }, events: [null, {}] }, { entry: end, events: "none" }];
  const { recordings } = readInput(JSON.stringify({ inspector: 2, recordings: [{ name: 1, header: [], entries }, 7] }));
  assert.deepEqual(
    recordings.map(({ name }) => name),
    ["recording 1"],
  );
  assert.deepEqual(
    recordings[0]?.entries.map(({ type, time, data }) => [type, time, data]),
    [
      ["header", 0, {}],
      ["unknown", 0, { value: null }],
      ["unknown", 0, { value: [1] }],
      ["unknown", 0, { type: 5 }],
      ["end", 0, end],
    ],
  );
});

test("entry_of_newer_format_is_kept", () => {
  const mood = { type: "mood", events: [{ event: { type: "TurnBegin" } }] };
  const recordings = [{ name: "x", is_cut: true, header: {}, entries: [{ entry: mood }] }];
  const [recording] = readInput(JSON.stringify({ inspector: 2, recordings })).recordings;
  assert.equal(recording?.isCut, true);
  const [, entry] = recording.entries;
  assert.deepEqual([entry?.type, entry?.events, entry?.data], ["mood", [], mood]);
});

test("json_beyond_usual_values_is_read", () => {
  const nested = `${"[".repeat(5000)}1${"]".repeat(5000)}`;
  for (const [raw, shown] of [
    ["1e999", "1e999"],
    ["-1e999", "-1e999"],
    ['"\\ud800"', '"\\ud800"'],
    [nested, "["],
  ] as const) {
    const event = `{"turn":1,"step":1,"event":{"type":"ContentPart","payload":{"type":"text","text":"a","x":${raw}}}}`;
    const entry = `{"entry":{"time":1,"type":"message","message":{"x":${raw}}},"events":[${event}]}`;
    const [recording] = readInput(`{"inspector":2,"recordings":[{"header":{},"entries":[${entry}]}]}`).recordings;
    assert.ok(recording);
    assert.ok(printJson(recording.entries[1]?.data ?? null).includes(`"x": ${shown}`));
    assert.equal(only(buildRun(recording), "text").text, "a");
  }
});

test("times_never_run_back", () => {
  const entries = [
    { type: "a", time: 2 },
    { type: "b", time: 1 },
    { type: "c", time: 3 },
  ];
  const { recordings } = readInput(embedded([{ name: "x", header: {}, entries }]));
  assert.deepEqual(
    recordings[0]?.entries.map(({ time }) => time),
    [0, 2, 2, 3],
  );
});
