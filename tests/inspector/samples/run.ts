// Recordings that look like a real run: thoughts, tools, approvals, a policy, a subagent, a question, hooks, an image, an error.

import { Recorder, type Recording } from "./recorder";

const FAILED_TEST = [
  "\u001b[1m============================= test session starts ==============================\u001b[0m",
  "collected 42 items",
  "",
  "tests/test_parser.py \u001b[32m.\u001b[0m\u001b[32m.\u001b[0m\u001b[31mF\u001b[0m\u001b[32m.\u001b[0m\u001b[32m.\u001b[0m                                               \u001b[31m[100%]\u001b[0m",
  "",
  ...Array.from({ length: 6 }, (_, at) => `tests/test_fields_${String(at)}.py \u001b[32m......\u001b[0m`),
  "=================================== FAILURES ===================================",
  "\u001b[31m\u001b[1m_____________________________ test_empty_line ______________________________\u001b[0m",
  "    \u001b[94mdef\u001b[39;49;00m \u001b[92mtest_empty_line\u001b[39;49;00m():",
  '>       \u001b[94massert\u001b[39;49;00m parse(\u001b[33m""\u001b[39;49;00m) == []',
  "\u001b[1m\u001b[31mE       IndexError: string index out of range\u001b[0m",
  "\u001b[1m\u001b[31mtests/test_parser.py\u001b[0m:31: IndexError",
  "\u001b[36m\u001b[1m=========================== short test summary info ============================\u001b[0m",
  "\u001b[31mFAILED\u001b[0m tests/test_parser.py::\u001b[1mtest_empty_line\u001b[0m - IndexError: string index out of range",
  "\u001b[31m========================= \u001b[1m1 failed\u001b[0m, \u001b[32m41 passed\u001b[0m\u001b[31m in 0.84s\u001b[0m\u001b[31m =========================\u001b[0m",
].join("\n");

const OLD_TEXT = `def parse(line):
    """Splits a line into its fields."""
    fields = []
    start = 0
    if line[0] == "#":
        return fields
    for at, letter in enumerate(line):
        if letter == ",":
            fields.append(line[start:at])
            start = at + 1
    fields.append(line[start:])
    return fields
`;
const NEW_TEXT = OLD_TEXT.replace('if line[0] == "#":', 'if not line or line.startswith("#"):').replace(
  "Splits a line into its fields.",
  "Splits a line into its fields. An empty line has none.",
);

/** Blue and white, 48 by 24 pixels. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAADAAAAAYCAIAAAAzn+mLAAAAPUlEQVR42mN49uonQWQWuJUgopY5DKMOGnXQqINGHTTqoFEHkeggelpGjDmjDhp10KiDRh006qBRB5FoDgDWPgvIJK7VyQAAAABJRU5ErkJggg==";

export interface Variant {
  name?: string;
  /** A second run of the same prompts, which differs in some decisions and outputs. */
  second?: boolean;
}

function fixTest(run: Recorder, second: boolean): void {
  run.prompt("The test `test_empty_line` fails. Find the cause, fix it, and run the tests.");
  run
    .step(1)
    .stream(
      "think",
      "I should look at the test and at the function that it calls. The failure is an IndexError, so the parser probably reads the first character of an empty line.",
    );
  run.stream("text", "I read the parser first.").tool("call-1", "ReadFile", { path: "{{work_dir}}/src/parser.py" });
  run
    .policy("allow", { id: "call-1", name: "ReadFile" }, "read(**)", "policy.toml:2")
    .result("call-1", OLD_TEXT, { message: "12 lines read from file." })
    .status(9_120, 8_840, 280);
  run.step(2).tool("call-2", "Shell", { command: "pytest -q tests/test_parser.py", timeout: 120 });
  run.policy("allow", { id: "call-2", name: "Shell" }, "execute(pytest *)", "policy.toml:5");
  run
    .wait(1.6)
    .result("call-2", FAILED_TEST, { is_error: true, message: "Command failed with exit code: 1." })
    .status(11_480, 2_360, 190, 9_120);
  run
    .step(3)
    .stream(
      "text",
      '`line[0]` fails for an **empty line**. I change the condition:\n\n```python\nif not line or line.startswith("#"):\n```',
    );
  const change = {
    path: "{{work_dir}}/src/parser.py",
    edit: { old: 'if line[0] == "#":', new: 'if not line or line.startswith("#"):' },
  };
  run
    .tool("call-3", "StrReplaceFile", change)
    .policy("ask", { id: "call-3", name: "StrReplaceFile" }, "edit(src/**)", "policy.toml:8");
  const diff = {
    type: "diff",
    path: "src/parser.py",
    old_text: OLD_TEXT,
    new_text: NEW_TEXT,
    old_start: 1,
    new_start: 1,
  };
  const asked = run.request("ApprovalRequest", {
    tool_call_id: "call-3",
    sender: "StrReplaceFile",
    action: "edit file",
    description: "Edit file `src/parser.py`",
    display: [diff],
  });
  run.decide(asked, "approval", "handler", 4.2, { tool_call: "call-3", answer: { response: "approve" } });
  run.event("ApprovalResponse", { request_id: asked, response: "approve" });
  run
    .result("call-3", "", { message: "File successfully edited.", display: [diff] })
    .status(12_900, 1_420, 330, 11_480);
  delegate(run, second);
  finish(run, second);
}

function delegate(run: Recorder, second: boolean): void {
  const subagent: [string, string, string] = ["call-4", "a34bd503e", "coder"];
  run
    .step(4)
    .tool("call-4", "Task", {
      description: "Add a test for comments",
      subagent_name: "coder",
      prompt: "Add a test that a line which begins with # has no fields.",
    });
  run
    .wait(0.2)
    .event("StepBegin", { n: 1 }, { subagent })
    .stream("think", "A short test in the same file.", { subagent });
  run
    .tool("call-1", "Grep", { pattern: "def test_", path: "tests" }, { subagent })
    .result(
      "call-1",
      "tests/test_parser.py:12:def test_fields():\ntests/test_parser.py:28:def test_empty_line():",
      {},
      { subagent },
    );
  run.wait(0.4).event("StepBegin", { n: 2 }, { subagent });
  const file = { path: "tests/test_parser.py", content: 'def test_comment():\n    assert parse("# a, b") == []\n' };
  run.tool("call-2", "WriteFile", file, { subagent });
  const asked = run.request("ApprovalRequest", {
    tool_call_id: "call-2",
    sender: "WriteFile",
    action: "edit file",
    description: "Append to `tests/test_parser.py`",
    agent_id: "a34bd503e",
    subagent_type: "coder",
  });
  run.decide(asked, "approval", "handler", second ? 9.4 : 2.8, {
    tool_call: "call-2",
    answer: { response: "approve_for_session" },
  });
  run
    .result("call-2", "", { message: "Appended 2 lines." }, { subagent })
    .stream("text", "I added `test_comment`.", { subagent });
  run.event("TurnEnd", {}, { subagent });
  run.result("call-4", "I added `test_comment` to tests/test_parser.py.").status(14_050, 1_150, 120, 12_900);
}

function finish(run: Recorder, second: boolean): void {
  run.step(5).stream("text", "Now the tests, and the old build.").tool("call-5", "Shell", { command: "rm -rf build" });
  run.request(
    "ApprovalRequest",
    {
      tool_call_id: "call-5",
      sender: "Shell",
      action: "run command",
      description: "Run command `rm -rf build`",
      display: [{ type: "shell", language: "bash", command: "rm -rf build" }],
    },
    "request-deny",
  );
  run.policy(
    "deny",
    { id: "call-5", name: "Shell", arguments: { command: "rm -rf build" } },
    "execute(rm *)",
    "policy.toml:11",
    { reason: "the rule `execute(rm *)` denies `rm -rf build`", part: "rm -rf build" },
  );
  run.decide("request-deny", "approval", "policy", 0.001, {
    tool_call: "call-5",
    rule: "execute(rm *)",
    answer: { response: "reject", feedback: "The rule execute(rm *) denies it." },
  });
  run.result("call-5", "", {
    is_error: true,
    message: "The tool call is rejected by the user. User feedback: The rule execute(rm *) denies it.",
    display: [{ type: "brief", text: "Rejected" }],
  });
  run.tool("call-6", "Shell", { command: "git push --force origin main" });
  const push = run.request("ApprovalRequest", {
    tool_call_id: "call-6",
    sender: "Shell",
    action: "run command",
    description: "Run command `git push --force origin main`",
  });
  run.decide(push, "approval", "handler", 6.1, {
    tool_call: "call-6",
    answer: second ? { response: "approve" } : { response: "reject", feedback: "Do not push. Commit only." },
  });
  if (second)
    run.wait(1.1).result("call-6", "To github.com:example/parser\n + 1f3a0c2...9be01d4 main -> main (forced update)");
  else
    run.result("call-6", "", {
      is_error: true,
      message: "The tool call is rejected by the user. User feedback: Do not push. Commit only.",
    });
  run
    .status(15_300, 1_250, 210, 14_050)
    .step(6)
    .tool("call-7", "Shell", { command: "pytest -q" })
    .policy("allow", { id: "call-7", name: "Shell" }, "execute(pytest *)", "policy.toml:5");
  run.wait(1.4).result("call-7", `\u001b[32m${second ? "43" : "42"} passed\u001b[0m in ${second ? "0.91" : "0.79"}s`);
  run.tool("call-8", "SetTodoList", { todos: ["Fix the parser", "Add a test", "Run all tests"] });
  run.result("call-8", "Todo list updated", {
    display: [
      {
        type: "todo",
        items: [
          { title: "Fix the parser", status: "done" },
          { title: "Add a test", status: "done" },
          { title: "Commit", status: "pending" },
        ],
      },
    ],
  });
  run
    .stream(
      "text",
      second
        ? "The parser accepts empty lines now, and all 43 tests pass. I pushed the change."
        : "The parser accepts empty lines now, and all 42 tests pass. Nothing was pushed.",
    )
    .status(16_020, 720, 160, 15_300);
  run.endTurn({
    result: {
      status: "finished",
      steps: 6,
      text: "The parser accepts empty lines now.",
      usage: { input_other: 15_740, output: 1_290, input_cache_read: 62_850, input_cache_creation: 0 },
      tool_calls: [],
      rejected: [],
      handler_failures: [],
    },
  });
}

function askQuestion(run: Recorder): void {
  run.wait(3).prompt([
    { type: "text", text: "Compare the result with this picture, and propose a name for the release." },
    { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
  ]);
  run
    .event("HookTriggered", { event: "UserPromptSubmit", target: "", hook_count: 1 })
    .wait(0.04)
    .event("HookResolved", { event: "UserPromptSubmit", target: "", action: "allow", duration_ms: 38 });
  run.step(1).tool("call-1", "AskUserQuestion", {});
  const question = "Which name shall the release have?";
  const asked = run.request("QuestionRequest", {
    tool_call_id: "call-1",
    questions: [
      {
        question,
        header: "Name",
        options: [
          { label: "Heron", description: "as the last one" },
          { label: "Kingfisher", description: "new" },
        ],
        multi_select: false,
      },
    ],
  });
  run.decide(asked, "question", "handler", 5.5, {
    tool_call: "call-1",
    answer: { answers: { [question]: "Kingfisher" } },
  });
  run.result("call-1", `{"${question}": "Kingfisher"}`);
  run.tool("call-2", "lookup_version", { name: "Kingfisher" });
  const lookup = run.request(
    "ToolCallRequest",
    { name: "lookup_version", arguments: '{"name": "Kingfisher"}' },
    "call-2",
  );
  run
    .decide(lookup, "tool", "handler", 0.02, {
      tool_call: "call-2",
      answer: { is_error: false, output: "2.4.0", message: "" },
    })
    .result("call-2", "2.4.0");
  const hook = run.request("HookRequest", {
    subscription_id: "hook-1",
    event: "Stop",
    target: "",
    input_data: { hook_event_name: "Stop" },
  });
  run.decide(hook, "hook", "handler", 0.01, { answer: { action: "block", reason: "The changelog is missing." } });
  run.event("HookResolved", {
    event: "Stop",
    target: "",
    action: "block",
    reason: "The changelog is missing.",
    duration_ms: 12,
  });
  run.stream("text", "The release is **Kingfisher 2.4.0**.").status(18_220, 2_200, 240, 16_020);
  run.endTurn({
    result: {
      status: "finished",
      steps: 1,
      text: "The release is Kingfisher 2.4.0.",
      output: { name: "Kingfisher", version: "2.4.0" },
      usage: { input_other: 2_200, output: 240, input_cache_read: 16_020, input_cache_creation: 0 },
      tool_calls: [],
      rejected: [],
    },
  });
}

function failTurn(run: Recorder): void {
  run
    .wait(1)
    .prompt("Write the changelog.")
    .step(1)
    .event("CompactionBegin", {})
    .wait(0.8)
    .event("CompactionEnd", {})
    .status(6_040, 900, 80, 0);
  run
    .event("StepRetry", {
      n: 1,
      next_attempt: 2,
      max_attempts: 3,
      wait_s: 1.5,
      error_type: "APIStatusError",
      status_code: 529,
    })
    .wait(1.5);
  run
    .entry("call", { call: "steer", turn: run.turn, arguments: { input: "Only the last release." } })
    .event("SteerInput", { user_input: "Only the last release." });
  run.event("HandlerFailed", { handler: "event", message: "KeyError: 'changelog'" });
  run
    .wait(0.6)
    .endTurn({
      error: {
        code: "LlmServiceError",
        message: "The service of the model is overloaded (HTTP 529). Send the prompt again later.",
      },
    });
}

/** A run with three turns; the last one fails. */
export function ordinaryRun({ name = "run.jsonl", second = false }: Variant = {}): Recording {
  const run = new Recorder(name, {
    options: { work_dir: "{{work_dir}}", model: second ? "kimi-k2-turbo" : "kimi-k2", thinking: true },
    policy: { allow: ["read(**)", "execute(pytest *)"], ask: ["edit(src/**)"], deny: ["execute(rm *)"] },
  });
  run.open("kimi-cli", second ? "1.51.0" : "1.49.0");
  fixTest(run, second);
  askQuestion(run);
  if (!second) failTurn(run);
  return run.close().recording();
}

/** A run that was killed: no end, a tool call without a result. */
export function killedRun(): Recording {
  const run = new Recorder("killed.jsonl").open();
  run.prompt("Build it.").step(1).tool("call-1", "Shell", { command: "make" }).wait(2);
  return run.recording();
}
