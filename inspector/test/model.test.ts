import assert from "node:assert/strict";
import { test } from "node:test";

import { compareRuns } from "../src/model/compare";
import { filterItems, matcherOf, parseQuery } from "../src/model/filter";
import { isFailed, isRejected, verdictOf, type Kind } from "../src/model/items";
import { filterEntries, summaryOfEntry } from "../src/model/messages";
import { contextOverTime, summarize, usageOfTurns } from "../src/model/summary";
import { argumentsOf, titleOf } from "../src/model/words";
import { event, kinds, only, prompt, runOf, toolCall, toolResult } from "./helpers";

const part = (type: string, text: string, time = 0) => event("ContentPart", { type, [type]: text }, { time });
const subagent = (
  inner: { type: string; payload: Record<string, string | number | Record<string, string>> },
  parent = "t1",
) => event("SubagentEvent", { parent_tool_call_id: parent, agent_id: "s1", subagent_type: "coder", event: inner });

test("pieces_of_text_are_joined", () => {
  const run = runOf([
    prompt("Hi"),
    event("StepBegin", { n: 1 }),
    part("think", "a"),
    part("think", "b"),
    part("text", "c", 1),
    part("text", "d", 2),
  ]);
  assert.deepEqual(kinds(run), ["turn", "step", "thought", "text"]);
  assert.equal(only(run, "thought").text, "ab");
  assert.deepEqual([only(run, "text").text, only(run, "text").start, only(run, "text").end], ["cd", 1, 2]);
});

test("text_ends_at_tool_call", () => {
  const run = runOf([prompt("Hi"), part("text", "a"), toolCall("t1", "Shell", "{}"), part("text", "b")]);
  assert.deepEqual(kinds(run), ["turn", "text", "tool", "text"]);
});

test("tool_call_has_streamed_arguments", () => {
  const run = runOf([
    prompt("Hi"),
    toolCall("t1", "Shell", '{"comm', { time: 1 }),
    event("ToolCallPart", { arguments_part: 'and": "ls"}' }),
    toolResult("t1", "out", { time: 3, failed: true }),
  ]);
  const tool = only(run, "tool");
  assert.deepEqual(argumentsOf(tool.input), [{ name: "command", text: "ls" }]);
  assert.deepEqual([tool.start, tool.end, isFailed(tool)], [1, 3, true]);
  assert.equal(titleOf(tool), "Shell ls");
  assert.deepEqual(tool.entries, [2, 3, 4]);
});

test("arguments_come_from_the_sdk", () => {
  const result = event("ToolResult", {
    tool_call_id: "t1",
    return_value: { is_error: false, output: "" },
    tool_call: { id: "t1", name: "Bash", arguments: { command: "ls" } },
  });
  assert.equal(only(runOf([prompt("Hi"), toolCall("t1", "Bash", ""), result]), "tool").input, '{"command":"ls"}');
});

test("messages_are_texts_of_their_own", () => {
  const text = (text: string, message?: string) =>
    event("ContentPart", { type: "text", text, ...(message !== undefined && { message_id: message }) });
  const run = runOf([prompt("Hi"), text("a", "m1"), text("b"), text("c", "m1"), text("d", "m2"), text("e", "m2")]);
  const texts = run.all.flatMap((item) => (item.kind === "text" ? [item.text] : []));
  assert.deepEqual(texts, ["abc", "de"]);
});

test("plan_is_note_with_its_entries", () => {
  const entries = [
    { content: "Look", status: "completed" },
    { content: "Fix", status: "postponed" },
  ];
  const run = runOf([prompt("Hi"), event("Plan", { entries }), event("Plan", { entries: [], removed: true })]);
  const notes = run.all.flatMap((item) => (item.kind === "note" ? [[item.title, item.text]] : []));
  assert.deepEqual(notes, [
    ["Plan: 1 of 2 done", "completed: Look\npostponed: Fix"],
    ["Plan removed", ""],
  ]);
});

test("repeated_ids_are_new_calls", () => {
  const run = runOf([
    prompt("Hi"),
    toolCall("t1", "A", "{}"),
    toolResult("t1", "1"),
    toolCall("t1", "B", "{}"),
    toolResult("t1", "2"),
  ]);
  assert.deepEqual(
    run.all.filter((item) => item.kind === "tool").map((item) => item.result?.["output"]),
    ["1", "2"],
  );
});

test("approval_belongs_to_its_call", () => {
  const run = runOf([
    prompt("Hi"),
    toolCall("t1", "Shell", "{}"),
    event("ApprovalRequest", { id: "r1", tool_call_id: "t1", action: "run command", description: "ls" }, { time: 1 }),
    {
      type: "decision",
      time: 3,
      request: "r1",
      kind: "approval",
      by: "handler",
      answer: { response: "reject", feedback: "no" },
      duration: 2,
    },
    event("ApprovalResponse", { request_id: "r1", response: "reject" }, { time: 3 }),
  ]);
  const approval = only(run, "approval");
  assert.equal(approval.tool, only(run, "tool"));
  assert.deepEqual(
    [approval.decision?.by, approval.decision?.duration, verdictOf(approval)],
    ["handler", 2, "rejected"],
  );
  assert.ok(isRejected(only(run, "tool")));
  assert.deepEqual(kinds(run), ["turn", "tool"]);
  assert.deepEqual(approval.entries, [3, 4, 5]);
});

test("approval_without_call_stands_alone", () => {
  const run = runOf([prompt("Hi"), event("ApprovalRequest", { id: "r1", tool_call_id: "t9", description: "Edit" })]);
  assert.deepEqual(kinds(run), ["turn", "approval"]);
  assert.equal(verdictOf(only(run, "approval")), "pending");
});

test("decision_without_request_is_shown", () => {
  const run = runOf([
    prompt("Hi"),
    toolCall("t1", "Shell", "{}"),
    {
      type: "decision",
      time: 1,
      request: "r1",
      kind: "approval",
      by: "policy",
      rule: "deny(rm)",
      tool_call: "t1",
      answer: { response: "reject" },
      duration: 0,
    },
  ]);
  assert.equal(only(run, "approval").tool, only(run, "tool"));
  assert.equal(only(run, "approval").decision?.rule, "deny(rm)");
});

for (const [decision, verdict] of [
  ["allow", "approved"],
  ["deny", "rejected"],
  ["ask", "pending"],
] as const) {
  test(`policy_that_says_${decision}_is_${verdict}`, () => {
    const run = runOf([
      prompt("Hi"),
      toolCall("t1", "Shell", "{}"),
      event("PolicyDecision", { tool_call: { id: "t1", name: "Shell" }, decision }),
    ]);
    assert.equal(verdictOf(only(run, "policy")), verdict);
    assert.equal(only(run, "policy").tool, only(run, "tool"));
  });
}

test("subagent_is_inside_its_call", () => {
  const run = runOf([
    prompt("Hi"),
    toolCall("t1", "Task", "{}"),
    subagent({ type: "StepBegin", payload: { n: 1 } }),
    subagent({ type: "ToolCall", payload: { id: "t1", function: { name: "Grep", arguments: "{}" } } }),
    part("text", "meanwhile"),
    subagent({ type: "ContentPart", payload: { type: "text", text: "found" } }),
    toolResult("t1", "done", { time: 5 }),
  ]);
  assert.deepEqual(
    run.items.map(({ kind, depth }) => [kind, depth]),
    [
      ["turn", 0],
      ["tool", 0],
      ["subagent", 0],
      ["step", 1],
      ["tool", 1],
      ["text", 1],
      ["text", 0],
    ],
  );
  const [outer, inner] = run.all.filter((item) => item.kind === "tool");
  assert.equal(outer?.result?.["output"], "done");
  assert.equal(inner?.result, undefined);
  assert.equal(only(run, "subagent").end, 5);
});

test("approval_of_subagent_finds_its_call", () => {
  const run = runOf([
    prompt("Hi"),
    toolCall("c1", "Task", "{}"),
    subagent({ type: "ToolCall", payload: { id: "c1", function: { name: "Shell", arguments: "{}" } } }, "c1"),
    event("ApprovalRequest", { id: "r1", tool_call_id: "c1", agent_id: "s1" }),
  ]);
  assert.equal(only(run, "approval").tool?.name, "Shell");
});

test("turn_has_result_of_the_program", () => {
  const run = runOf([
    prompt("Hi", { time: 1 }),
    event("StepBegin", { n: 1 }, { time: 2 }),
    {
      type: "turn",
      time: 6,
      turn: 1,
      result: {
        status: "cancelled",
        steps: 1,
        usage: { input_other: 1, output: 2, input_cache_read: 3, input_cache_creation: 4 },
      },
    },
  ]);
  const turn = only(run, "turn");
  assert.deepEqual([turn.status, turn.start, turn.end, only(run, "step").end], ["cancelled", 1, 6, 6]);
  assert.deepEqual(usageOfTurns(run).get(1), { inputOther: 1, output: 2, cacheRead: 3, cacheCreation: 4 });
});

test("failed_turn_has_an_error", () => {
  const run = runOf([
    prompt("Hi"),
    { type: "turn", time: 1, turn: 1, error: { code: "LlmServiceError", message: "busy" } },
  ]);
  assert.deepEqual([only(run, "error").title, only(run, "error").text], ["The turn failed: LlmServiceError", "busy"]);
  assert.ok(isFailed(only(run, "turn")));
});

test("recording_without_end_is_incomplete", () => {
  const run = runOf([prompt("Hi"), toolCall("t1", "Shell", "{}", { time: 4 })]);
  assert.equal(summarize(run).status, "incomplete");
  assert.deepEqual([only(run, "turn").status, only(run, "turn").end, only(run, "tool").end], [undefined, 4, null]);
});

test("hooks_are_paired_with_their_end", () => {
  const hook = { event: "PreToolUse", target: "Shell" };
  const run = runOf([
    prompt("Hi"),
    event("HookTriggered", hook),
    event("HookResolved", { ...hook, action: "block", reason: "no" }),
  ]);
  assert.equal(verdictOf(only(run, "hook")), "rejected");
});

test("mcp_call_belongs_to_tool_call", () => {
  const run = runOf([
    prompt("Hi"),
    toolCall("t1", "mcp__program__lookup", "{}"),
    { type: "tool_call", time: 1, id: "m1", name: "lookup", arguments: { key: "a" } },
    { type: "tool_result", time: 2, id: "m1", result: { is_error: false, output: "b", message: "" } },
  ]);
  const request = only(run, "request");
  assert.deepEqual([request.tool?.callId, request.response?.["output"], request.end], ["t1", "b", 2]);
});

test("context_is_computed_from_its_part", () => {
  const run = runOf([
    prompt("Hi"),
    event("StatusUpdate", { context_usage: 0.5, max_context_tokens: 1000 }, { time: 1 }),
    event("StatusUpdate", { context_tokens: 700 }, { time: 2 }),
  ]);
  assert.deepEqual(contextOverTime(run.samples), {
    points: [
      { time: 1, tokens: 500 },
      { time: 2, tokens: 700 },
    ],
    limit: 1000,
  });
});

test("changes_of_plan_mode_are_shown", () => {
  const run = runOf([
    prompt("Hi"),
    ...[false, true, true, false].map((on) => event("StatusUpdate", { plan_mode: on })),
  ]);
  assert.deepEqual(
    run.all.flatMap((item) => (item.kind === "note" ? [item.title] : [])),
    ["Plan mode is on", "Plan mode is off"],
  );
});

test("failed_mcp_servers_are_shown", () => {
  const servers = [
    { name: "a", status: "connected" },
    { name: "b", status: "failed" },
  ];
  const run = runOf([
    prompt("Hi"),
    event("StatusUpdate", { mcp_status: { loading: false, connected: 1, total: 2, tools: 0, servers } }),
  ]);
  assert.equal(only(run, "note").text, "b: failed");
});

test("events_of_prototype_names_are_shown", () => {
  for (const name of ["__proto__", "constructor", "toString"]) {
    assert.equal(only(runOf([prompt("Hi"), event(name, {})]), "note").title, `Unknown event ${name}`);
  }
});

test("deeply_nested_subagents_are_read", () => {
  let inner: Record<string, unknown> = { type: "ContentPart", payload: { type: "text", text: "deep" } };
  for (let level = 0; level < 2000; level++)
    inner = { type: "SubagentEvent", payload: { agent_id: String(level), event: inner } };
  const run = runOf([prompt("Hi"), event("SubagentEvent", (inner as { payload: Record<string, string> }).payload)]);
  assert.equal(only(run, "text").depth, 2000);
});

test("query_has_words_with_meaning", () => {
  assert.deepEqual(parseQuery('one "two words" tool:Shell turn:3 is:error is:else "open'), {
    terms: ["one", "two words", "is:else", "open"],
    tools: ["shell"],
    turns: [3],
    states: ["error"],
  });
});

const searched = runOf([
  prompt("Find it"),
  event("StepBegin", { n: 1 }),
  part("think", "secret plan"),
  toolCall("t1", "Shell", '{"command": "ls \\"a b\\""}'),
  toolResult("t1", "\u001b[31mfail\u001b[0med (x*)", { failed: true }),
  part("text", "done"),
]);

for (const [query, expected] of [
  ["SECRET", ["turn", "step", "thought"]],
  ["failed", ["turn", "step", "tool"]],
  ['"(x*)"', ["turn", "step", "tool"]],
  ['"a b"', ["turn", "step", "tool"]],
  ["tool:shell", ["turn", "step", "tool"]],
  ["is:error", ["turn", "step", "tool"]],
  ["turn:1 done", ["turn", "step", "text"]],
  ["turn:2", []],
  ["secret done", []],
] as const) {
  test(`search_for_${query.replace(/\W+/g, "_").toLowerCase()}_finds`, () => {
    assert.deepEqual(
      filterItems(searched.items, parseQuery(query), new Set()).items.map(({ kind }) => kind),
      expected,
    );
  });
}

test("hidden_kinds_are_left_out", () => {
  const hidden = new Set<Kind>(["thought", "tool", "request"]);
  assert.deepEqual(
    filterItems(searched.items, parseQuery(""), hidden).items.map(({ kind }) => kind),
    ["turn", "step", "text"],
  );
});

test("call_is_shown_for_its_approval", () => {
  const run = runOf([
    prompt("Hi"),
    toolCall("t1", "A", "{}"),
    event("ApprovalRequest", { id: "r", tool_call_id: "t1" }),
    toolCall("t2", "B", "{}"),
  ]);
  const shown = filterItems(run.items, parseQuery(""), new Set<Kind>(["tool", "request"])).items;
  assert.deepEqual(
    shown.flatMap((item) => (item.kind === "tool" ? [item.name] : [])),
    ["A"],
  );
});

test("search_takes_expressions_as_text", () => {
  for (const text of ["(", "[a", "a{2", "\\", "a-b", "$^"]) assert.doesNotThrow(() => matcherOf(parseQuery(text)));
});

const same = [
  prompt("Hi"),
  event("StepBegin", { n: 1 }),
  toolCall("t1", "Shell", '{"command": "ls"}'),
  toolResult("t1", "a"),
];

test("runs_that_differ_in_times_are_equal", () => {
  const later = same.map((entry) => ({ ...entry, time: 9 }));
  assert.ok(compareRuns(runOf(same), runOf(later)).every((pair) => pair.same));
});

test("changed_call_is_paired", () => {
  const changed = [...same.slice(0, 3), toolResult("t1", "b"), part("text", "more")];
  const pairs = compareRuns(runOf(same), runOf(changed));
  assert.deepEqual(
    pairs.map(({ left, right, same: equal }) => [left?.kind, right?.kind, equal]),
    [
      ["turn", "turn", true],
      ["tool", "tool", false],
      [undefined, "text", false],
    ],
  );
});

test("turns_of_long_runs_are_paired", () => {
  const long = (seed: number) =>
    runOf(
      Array.from({ length: 400 }, (_, at) => [
        prompt(`Prompt ${String(at)}`, { turn: at + 1 }),
        event("ContentPart", { type: "text", text: `${String(seed)} ${String(at)}` }, { turn: at + 1 }),
      ]).flat(),
    );
  const pairs = compareRuns(long(1), long(2));
  assert.equal(pairs.filter((pair) => pair.same).length, 400);
  assert.equal(pairs.filter((pair) => pair.left && pair.right).length, 800);
});

test("entries_have_a_line_each", () => {
  const entries = runOf([
    { type: "message", from: "sdk", message: { method: "prompt", id: 3 } },
    { type: "message", from: "agent", message: { id: 3, error: { code: 1 } } },
    { type: "message", from: "agent", line: "oops" },
    { type: "decision", kind: "approval", by: "policy" },
    { type: "__proto__" },
  ]).recording.entries;
  assert.deepEqual(entries.slice(1).map(summaryOfEntry), [
    "prompt #3",
    "error #3",
    "line that is not JSON: oops",
    "decision: approval by policy",
    "__proto__",
  ]);
});

test("short_lists_are_in_one_line", () => {
  assert.deepEqual(argumentsOf('{"a": [1, "b"], "c": {"d": [1]}, "__proto__": null}'), [
    { name: "a", text: '[1,"b"]' },
    { name: "c", text: '{\n  "d": [\n    1\n  ]\n}' },
    { name: "__proto__", text: "null" },
  ]);
});

test("words_for_items_find_their_messages", () => {
  const run = runOf([
    prompt("Hi"),
    toolCall("t1", "Shell", '{"comm'),
    event("ToolCallPart", { arguments_part: 'and": "ls"}' }),
    event("ApprovalRequest", { id: "r1", tool_call_id: "t1", description: "ls" }),
    { type: "decision", time: 0, request: "r1", kind: "approval", by: "handler", answer: { response: "reject" } },
    toolResult("t1", "out", { failed: true }),
    toolCall("t2", "Read", '{"path": "ls"}'),
    toolResult("t2", "text"),
    { type: "end", time: 1, reason: "failed", error: { code: "timeout", message: "slow" } },
  ]);
  const found = (query: string): number[] => filterEntries(run, parseQuery(query)).map(({ index }) => index);
  assert.deepEqual(found("tool:read"), [7, 8]);
  assert.deepEqual(found("tool:shell ls"), [2, 3, 4, 5, 6]);
  assert.deepEqual(found("is:rejected"), [2, 3, 4, 5, 6]);
  assert.deepEqual(found("is:error"), [2, 3, 4, 5, 6, 9]);
  assert.deepEqual(found("is:error tool:read"), []);
  assert.deepEqual(found("slow"), [9]);
  assert.equal(found("").length, run.recording.entries.length);
});
