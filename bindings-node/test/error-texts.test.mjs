// The texts of errors: every row of tests/errors/table.json, as a program in Node meets it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";

import { createSession, openAgent, output, Policy, Reject } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

const table = JSON.parse(readFileSync(new URL("../../tests/errors/table.json", import.meta.url), "utf8"));
const rows = table.rows.filter((row) => row.skip?.node === undefined);
const camel = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());

const camelKeys = (limits) => Object.fromEntries(Object.entries(limits).map(([name, limit]) => [camel(name), limit]));

const inMilliseconds = (name, value) => (name.endsWith("_timeout") || name === "timeout") && typeof value === "number";

function optionsOf({ options = {}, shell, script, output: schema }) {
  const named = Object.entries(options).map(([name, value]) => [
    camel(name),
    inMilliseconds(name, value) ? value * 1000 : name.endsWith("budget") ? camelKeys(value) : value,
  ]);
  const executable = script ? scriptedAgent(script) : shell ? ["sh", "-c", shell] : undefined;
  return { ...Object.fromEntries(named), ...(executable && { executable }), ...(schema && { output: schema }) };
}

/** Opens something, uses it, and closes it. */
async function using(opening, use) {
  const opened = await opening;
  try {
    return await use(opened);
  } finally {
    await opened.close();
  }
}

async function provoke(how) {
  const options = optionsOf(how);
  if (how.do === "list_sessions") return using(openAgent(options), (agent) => agent.listSessions());
  if (how.do === "session_with_env") {
    return using(openAgent(options), (agent) => agent.createSession({ env: { A: "b" } }));
  }
  return using(createSession(options), (session) => provokeIn(session, how));
}

async function provokeIn(session, how) {
  switch (how.do) {
    case "set_plan_mode":
      return await session.setPlanMode(true);
    case "respond_unknown":
      return await session.respond("nope", "approve");
    case "prompt_after_close":
      await session.close();
      return await session.prompt("go").result();
  }
  const turn = session.prompt("go");
  switch (how.do) {
    case "prompt":
      return await turn.result();
    case "prompt_twice":
      return await session.prompt("again").result();
    case "steer":
      return await turn.steer("more");
    case "steer_in_loop":
      for await (const { type } of turn) if (type === "ContentPart") return await turn.steer("more");
      break;
    case "steer_after_end":
      await turn.result();
      return await turn.steer("more");
    case "raise_for_status":
      return (await turn.result()).raiseForStatus();
  }
  throw new Error(`cannot do ${how.do}`);
}

async function prompted(...content) {
  return using(createSession({ executable: scriptedAgent([]) }), (session) => session.prompt(...content).result());
}

const approval = [[{ tool_call: { name: "Shell", approve: { action: "run command", description: "Run it" } } }]];

/** The report of an approval handler that returns this. */
async function answered(answer) {
  const opening = createSession({ executable: scriptedAgent(approval), onApproval: () => answer });
  return using(opening, async (session) => {
    for await (const { type, payload } of session.prompt("go")) {
      if (type === "HandlerFailed") throw new Error(payload.message);
    }
  });
}

async function responded() {
  return using(createSession({ executable: scriptedAgent([]) }), (session) => session.respond(undefined, "approve"));
}

const valibot = { "~standard": { version: 1, vendor: "valibot", validate: (value) => ({ value }) } };
const executable = () => scriptedAgent([]);

const failing = {
  version: 1,
  vendor: "test",
  validate: () => {
    throw new Error("the database is closed");
  },
};

async function checkFailed() {
  const opening = createSession({ executable: scriptedAgent(Array(3).fill([{ text: "1" }])) });
  const wanted = output({ type: "integer" }, { validate: { "~standard": failing } });
  return using(opening, (session) => session.prompt("go", { output: wanted }).result());
}

const MADE = {
  misspelt_option_with_a_function: () => createSession({ executable: executable(), onapproval: () => "approve" }),
  option_of_a_wrong_type: () => createSession({ executable: executable(), workDir: () => "." }),
  options_as_text: () => createSession("."),
  options_as_null: () => createSession(null),
  options_as_list: () => createSession([]),
  scripted_agent_without_script: async () => scriptedAgent(),
  prompt_nothing: () => prompted(),
  prompt_bytes: () => prompted(new Uint8Array([1])),
  prompt_chat_messages: () => prompted([{ role: "user", content: "hi" }]),
  prompt_number_in_list: () => prompted(["a", 5]),
  prompt_part_without_text: () => prompted([{ type: "text" }]),
  respond_to_nothing: responded,
  handler_returns_the_class: () => answered(Reject),
  handler_returns_nothing: () => answered(undefined),
  handler_returns_a_wrong_word: () => answered("yes"),
  budget_that_is_infinite: () => prompted("go", { budget: { seconds: Infinity } }),
  output_check_that_fails: checkFailed,
  output_in_an_output: async () => output(output({ type: "integer" })),
  policy_of_a_path: async () => new Policy("x.toml"),
  valibot_without_its_converter: () =>
    createSession({
      executable: executable(),
      tools: [{ name: "t", description: "d", parameters: valibot, handler: () => 1 }],
    }),
};

function check(row, error) {
  const { message } = error;
  if (row.code !== null) assert.equal(error.code, row.code, message);
  if (row.retryable !== undefined) assert.equal(error.retryable, row.retryable, message);
  if (row.option !== undefined) assert.equal(error.option, camel(row.option), message);
  if (row.rpc_code !== undefined) assert.equal(error.rpcCode, row.rpc_code, message);
  // Elsewhere the number is a part of the text.
  const text = typeof error.rpcCode === "number" ? `${message} (${error.rpcCode})` : message;
  const spelled = (word) => word.replace(/\{(\w+)\}/g, (_, name) => camel(name));
  for (const word of row.words) assert.ok(text.includes(spelled(word)), `no ${spelled(word)} in ${text}`);
  for (const word of row.never ?? []) assert.ok(!text.includes(spelled(word)), `${spelled(word)} in ${text}`);
  const [first] = message.split("\n");
  const words = first.split(/[^A-Za-z0-9_]+/);
  assert.deepEqual(table.names.filter((name) => words.includes(name)), [], "names as Python spells them");
}

/** Some rows start programs of Unix, or quote a path as Unix writes it. */
const needsUnix = ({ how }) => how?.shell !== undefined || String(how?.options?.executable).startsWith("/");

describe("errors say what the table demands", { concurrency: 4 }, () => {
  test("every row is played, or skipped with a reason", () => {
    const special = rows.filter((row) => !row.how).map((row) => row.name);
    assert.deepEqual(special.sort(), Object.keys(MADE).sort());
  });

  for (const row of rows) {
    const skip = process.platform === "win32" && needsUnix(row) && "the row is for Unix";
    test(row.name, { skip }, async () => {
      const provoked = row.how ? provoke(row.how) : MADE[row.name]();
      const error = await provoked.then(
        () => assert.fail("no error"),
        (thrown) => thrown,
      );
      check(row, error);
    });
  }
});
