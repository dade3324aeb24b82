// Secrets stay secret, values arrive unchanged, and approvals fail closed; docs/evidence/security.md lists the promises.
import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { inspect } from "node:util";
import { runInNewContext } from "node:vm";

import { createSession, printable, prompt, reject, setLogger } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

const SECRETS = Object.fromEntries(["config", "mcp", "env"].map((name) => [name, `canary-of-${name}-${process.pid}`]));
const LINUX = process.platform === "linux" ? {} : { skip: "looks into /proc" };

const secretive = () => ({
  config: { providers: { p: { type: "kimi", api_key: SECRETS.config } } },
  mcpConfigs: [{ mcpServers: { docs: { command: "x", env: { TOKEN: SECRETS.mcp } } } }],
  env: { API_TOKEN: SECRETS.env },
});

const foundIn = (text) => Object.keys(SECRETS).filter((name) => text.includes(SECRETS[name]));

/** All that can be seen of an object by the means of the language. */
function shown(thing) {
  const views = [inspect(thing, { showHidden: true, depth: null, getters: true }), String(thing), JSON.stringify(thing) ?? ""];
  for (const name of Reflect.ownKeys(Object(thing))) views.push(inspect(thing[name], { showHidden: true, depth: null }));
  if (thing instanceof Error) views.push(thing.stack, thing.message, inspect(thing.cause, { depth: null }), thing.toString());
  try {
    views.push(inspect(structuredClone(thing), { showHidden: true, depth: null }));
  } catch (refused) {
    views.push(String(refused));
  }
  return views.join("\n");
}

async function failure(action) {
  try {
    await action();
  } catch (error) {
    return error;
  }
  assert.fail("nothing has failed");
}

let folder;
before(() => {
  folder = mkdtempSync(join(tmpdir(), "security-"));
});
after(() => {
  rmSync(folder, { recursive: true });
});

test("secrets appear in no output", LINUX, async () => {
  const records = [];
  setLogger((record) => void records.push(record), "trace");
  // What the agent echoes in lines that are no messages is logged without the values, and without control characters.
  const echo = `\u001b]52;c;aGk=\u0007 \u202e${Object.values(SECRETS).join(" and ")}`;
  const executable = scriptedAgent([[{ raw: echo }, { text: "fine" }, { exit: 3 }]]);
  const session = await createSession({ executable, ...secretive() });
  const argv = readFileSync(`/proc/${session.pid}/cmdline`, "utf8");
  assert.match(argv, /--config-file=/);
  assert.deepEqual(foundIn(argv), []);
  assert.deepEqual(foundIn(shown(session)), []);
  const turn = session.prompt("hi");
  assert.deepEqual(foundIn(shown(turn)), []);
  const errors = [await failure(() => turn.result()), await failure(() => session.prompt("more").result())];
  await session.close();
  errors.push(
    await failure(() => createSession({ executable: "/no/such", ...secretive() })),
    await failure(() => createSession({ executable: [process.execPath, "-e", "process.exit(4)"], ...secretive() })),
    await failure(() => createSession({ executable, ...secretive(), configFile: "/no/such" })),
    await failure(() => createSession({ executable, ...secretive(), model: 7 })),
    await failure(() => createSession({ executable, ...secretive(), wokrDir: "." })),
  );
  const [option, exited] = ["invalid_option", "agent_exited"];
  assert.deepEqual(
    errors.map(({ code }) => code),
    [exited, exited, "spawn_error", exited, option, option, option],
  );
  for (const error of errors) assert.deepEqual(foundIn(shown(error)), [], error.message);
  const once = prompt("hi", { executable, ...secretive() });
  assert.deepEqual(foundIn(shown(once)), []);
  await failure(() => once.result());
  setLogger(null);
  assert.ok(records.some(({ message }) => message.includes("agent started")), shown(records));
  assert.deepEqual(foundIn(shown(records)), []);
});

test("printable() escapes control and bidirectional characters", () => {
  for (const [text, expected] of [
    ["ls\u001b[2J", "ls\\x1b[2J"],
    ["a\u202eb\u2066c\u061c\u2028\u007f\u009b", "a\\u202eb\\u2066c\\u061c\\u2028\\x7f\\x9b"],
    ["one\r\ntwo\tthree\rfour", "one\ntwo\tthree\\rfour"],
    ["übung 🦀 日本", "übung 🦀 日本"],
  ]) {
    assert.equal(printable(text), expected);
  }
  assert.throws(() => printable(7), { code: "invalid_option", option: "text" });
});

test("error about a secret leaves out its value", async () => {
  const circular = { key: SECRETS.config };
  circular.itself = circular;
  const wrong = [
    ["config", [SECRETS.config]],
    ["config", SECRETS.config],
    ["config", circular],
    ["config", { key: SECRETS.config, big: 1n }],
    ["mcpConfigs", SECRETS.mcp],
    ["mcpConfigs", [SECRETS.mcp]],
    ["mcpConfigs", { mcpServers: { a: SECRETS.mcp } }],
    ["env", [SECRETS.env]],
    ["env", SECRETS.env],
    ["env", { [`API_TOKEN=${SECRETS.env}`]: "x" }],
    ["env", { API_TOKEN: `${SECRETS.env}\0` }],
    ["env", { API_TOKEN: [SECRETS.env] }],
    ["env", { API_TOKEN: { a: SECRETS.env } }],
  ];
  for (const [option, value] of wrong) {
    const error = await failure(() => createSession({ [option]: value }));
    assert.equal(error.option, option, error.message);
    assert.deepEqual(foundIn(shown(error)), [], error.message);
  }
});

test("leak is found by these tests", () => {
  class Leaking {
    deep = { deeper: { deepest: { list: [secretive()] } } };
  }
  assert.deepEqual(foundIn(shown(new Leaking())), Object.keys(SECRETS));
  assert.deepEqual(foundIn(shown(new Error("harmless", { cause: new Error(SECRETS.env) }))), ["env"]);
  assert.deepEqual(foundIn(shown(Object.defineProperty({}, "hidden", { value: SECRETS.mcp }))), ["mcp"]);
});

test("private files are deleted when close() returns", LINUX, async () => {
  const mine = mkdtempSync(join(folder, "tmp-"));
  const executable = scriptedAgent([[{ text: "fine" }]]);
  const old = process.env.TMPDIR;
  process.env.TMPDIR = mine;
  try {
    const session = await createSession({ executable, ...secretive() });
    const mode = (path) => statSync(path).mode & 0o7777;
    // All stand in one folder.
    const [common] = readdirSync(mine);
    const [name] = readdirSync(join(mine, common));
    const place = join(mine, common, name);
    assert.equal(mode(place), 0o700);
    assert.deepEqual(readdirSync(place).sort(), ["config.json", "lock", "mcp-0.json"]);
    for (const file of readdirSync(place)) assert.equal(mode(join(place, file)), 0o600, file);
    assert.ok(readFileSync(join(place, "config.json"), "utf8").includes(SECRETS.config));
    await session.close();
    assert.deepEqual(readdirSync(mine), []);
  } finally {
    if (old === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = old;
  }
});

const ODD = "a b\n\"c\" 'd' $(touch owned) `touch owned` ;touch owned; & | * ? ~ \\ -- é 文";

test("unusual paths arrive unchanged", LINUX, async () => {
  const odd = join(folder, ODD);
  const skills = join(odd, "--yolo");
  mkdirSync(skills, { recursive: true });
  const program = join(odd, "pro gram");
  writeFileSync(program, '#!/bin/sh\nexec "$@"\n');
  chmodSync(program, 0o755);
  const file = join(odd, "-x");
  writeFileSync(file, "");
  const session = await createSession({
    executable: [program, ...scriptedAgent([[{ text: "fine" }]])],
    workDir: odd,
    skillsDir: skills,
    configFile: file,
    agentFile: file,
    model: "--yolo",
    extraArgs: ["--", "-x", "$HOME"],
  });
  const words = readFileSync(`/proc/${session.pid}/cmdline`, "utf8").split("\0").slice(0, -1);
  assert.equal(session.workDir, odd);
  assert.equal((await session.prompt("hi").result()).text, "fine");
  await session.close();
  const given = words.slice(words.indexOf("--wire")).filter((word) => !word.startsWith("--session="));
  assert.deepEqual(given, [
    "--wire",
    `--work-dir=${odd}`,
    "--model=--yolo",
    `--config-file=${file}`,
    `--agent-file=${file}`,
    `--skills-dir=${skills}`,
    "--",
    "-x",
    "$HOME",
  ]);
  assert.ok(!existsSync(join(odd, "owned")) && !existsSync("owned"));
});

test("environment of the agent is inherited and extended by env", LINUX, async () => {
  process.env.KIMI_SDK_TEST_SET_AT_RUN_TIME = ODD;
  process.env.KIMI_SDK_TEST_CHANGED = "before";
  const mine = { KIMI_SDK_TEST_CHANGED: `after ${ODD}`, KIMI_SDK_TEST_NEW: "= é", KIMI_SDK_TEST_UNSET: undefined };
  const session = await createSession({ executable: scriptedAgent([]), env: mine });
  const words = readFileSync(`/proc/${session.pid}/environ`, "utf8").split("\0").slice(0, -1);
  await session.close();
  const found = Object.fromEntries(words.map((word) => [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)]));
  const given = Object.fromEntries(Object.entries(mine).filter(([, value]) => value !== undefined));
  assert.deepEqual(found, { ...process.env, ...given });
});

const call = {
  name: "WriteFile",
  approve: { action: "edit file", description: "Write out.txt" },
  effect: { write_file: "out.txt", content: "x" },
};
const ASKS = [[{ tool_call: call }, { text: "{{last.response}}" }]];

/** The outcome of calling this handler: the answer, the number of reported failures, whether it was done. */
async function asked(onApproval) {
  const workDir = mkdtempSync(join(folder, "work-"));
  const session = await createSession({ executable: scriptedAgent(ASKS), workDir, onApproval });
  const events = [];
  for await (const event of session.prompt("go")) events.push(event);
  await session.close();
  const answers = events.filter(({ type }) => type === "ApprovalResponse").map(({ payload }) => payload.response);
  const failures = events.filter(({ type }) => type === "HandlerFailed").length;
  return { answers, failures, done: existsSync(join(workDir, "out.txt")) };
}

test("ambiguous approval is rejected", async () => {
  const thrower = (thrown) => () => {
    throw thrown;
  };
  const hostile = new Proxy({}, { get: thrower(new Error("get")), ownKeys: thrower(new Error("keys")) });
  const ambiguous = {
    nothing: () => undefined,
    null: () => null,
    true: () => true,
    one: () => 1,
    "an unknown word": () => "yes",
    "in capitals": () => "Approve",
    "with a space": () => "approve ",
    empty: () => "",
    "in a list": () => ["approve"],
    "in an object": () => ({ response: "approve" }),
    "an object of that text": () => ({ toString: () => "approve" }),
    "a function": () => () => "approve",
    "a symbol": () => Symbol("approve"),
    "not a number": () => NaN,
    "the function that rejects": () => reject,
    "a promise of nonsense": () => Promise.resolve("yes"),
    "a promise that rejects": () => Promise.reject(new Error("approve")),
    "a generator": function* () {
      yield "approve";
    },
    throws: thrower(new Error("approve")),
    "throws a text": thrower("approve"),
    "throws nothing": thrower(undefined),
    "throws what has no text": thrower(Object.create(null)),
    "throws what throws": thrower(hostile),
    "a thing that throws": () => hostile,
    "JSON that approves": () => ({ toJSON: () => "approve" }),
    "a String object": () => new String("approve"),
    "a String object of another realm": () => runInNewContext('new String("approve")'),
    "a String object that lies": () => runInNewContext('Object.assign(new String("reject"), { toString: () => "approve" })'),
    "a Boolean object of another realm": () => runInNewContext("new Boolean(true)"),
    "JSON that approves later": () => Promise.resolve({ toJSON: () => "approve" }),
    "an object of a text": () => new String("approve"),
    "an approval in feedback's clothes": () => ({ reject: { toJSON: () => "no" } }),
    "JSON that throws": () => ({ toJSON: thrower(new Error("json")) }),
    "is aborted": () => AbortSignal.abort().throwIfAborted(),
  };
  for (const [name, answer] of Object.entries(ambiguous)) {
    assert.deepEqual(await asked(answer), { answers: ["reject"], failures: 1, done: false }, name);
  }
});

test("exact approval is carried out", async () => {
  for (const answer of ["approve", "approve_for_session"]) {
    assert.deepEqual(await asked(() => answer), { answers: [answer], failures: 0, done: true });
  }
});

test("invalid manual answer is refused, and an unanswered request is not carried out", async () => {
  const workDir = mkdtempSync(join(folder, "work-"));
  const session = await createSession({ executable: scriptedAgent(ASKS), workDir, onApproval: "manual" });
  const turn = session.prompt("go");
  let request;
  while (request === undefined) {
    const { value } = await turn.next();
    if (value.type === "ApprovalRequest") request = value;
  }
  for (const answer of [undefined, null, true, "yes", "Approve", ["approve"], { approve: true }, 7, 1n, Symbol("approve"), { toJSON: () => "approve" }]) {
    await assert.rejects(turn.respond(request, answer), (error) => error.code === "invalid_option" || error instanceof TypeError);
  }
  await session.close();
  await failure(() => turn.respond(request, "approve"));
  assert.ok(!existsSync(join(workDir, "out.txt")));
});

test("answer to a request of another session is refused", async () => {
  const open = async () => {
    const workDir = mkdtempSync(join(folder, "work-"));
    const session = await createSession({ executable: scriptedAgent(ASKS), workDir, onApproval: "manual" });
    const turn = session.prompt("go");
    for (;;) {
      const { value } = await turn.next();
      if (value.type === "ApprovalRequest") return { session, turn, workDir, request: value };
    }
  };
  const [first, second] = [await open(), await open()];
  for (const wrong of [second.turn, second.session]) {
    for (const request of [first.request, first.request.payload, { type: "ApprovalRequest", payload: first.request.payload }]) {
      await assert.rejects(wrong.respond(request, "approve"), (error) => {
        assert.equal(error.code, "invalid_option");
        assert.equal(error.option, "request");
        return /is a request of another session/.test(error.message);
      });
    }
  }
  // Nothing of it is seen.
  assert.deepEqual(Object.keys(first.request), ["type", "payload"]);
  await second.turn.respond(second.request, "reject");
  // A copy names its request by the id.
  await first.turn.respond(structuredClone(first.request), "approve");
  await Promise.all([first.turn.result(), second.turn.result()]);
  await Promise.all([first.session.close(), second.session.close()]);
  assert.deepEqual([existsSync(join(first.workDir, "out.txt")), existsSync(join(second.workDir, "out.txt"))], [true, false]);
});

test("close during an approval rejects it", async () => {
  const workDir = mkdtempSync(join(folder, "work-"));
  let tell;
  const isAsked = new Promise((resolve) => (tell = resolve));
  const onApproval = (_, { signal }) =>
    new Promise((resolve) => {
      signal.addEventListener("abort", () => resolve("approve"));
      tell();
    });
  const session = await createSession({ executable: scriptedAgent(ASKS), workDir, onApproval });
  // Waiting for the result keeps the session from being collected: nothing else refers to this function until it is asked.
  const result = session.prompt("go").result();
  await isAsked;
  await session.close();
  assert.equal((await result).status, "cancelled");
  assert.ok(!existsSync(join(workDir, "out.txt")));
});
