// Warnings of the process about handlers, while no logger is set.
import assert from "node:assert/strict";
import { test } from "node:test";

import { dist, run } from "./programs.mjs";

const ASKING = `[[{ request: { type: "ApprovalRequest", payload: { id: "a", tool_call_id: "t", sender: "Shell", action: "run command", description: "ls", display: [] } } }]]`;

/** Collects the warnings of a program that prompts `times` times, and prints them as a line of JSON. */
const program = (options, { before = "", times = 1 } = {}) => `
  const warnings = [];
  process.on("warning", ({ name, code, message, detail }) => warnings.push({ name, code, message, detail }));
  ${before}
  for (let i = 0; i < ${times}; i += 1) {
    const session = await createSession({ executable: scriptedAgent(${ASKING}), ...${options} });
    await session.prompt("hi").result();
    await session.close();
  }
  await new Promise((resolve) => setImmediate(resolve));
  console.log(JSON.stringify(warnings));
`;

async function warningsOf(...given) {
  const { status, stdout, stderr } = await run(program(...given), ["--no-warnings"]);
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

const THROWS = '{ onApproval: function decide() { throw new Error(\'the "approver" is out\') } }';

test("failed handler causes one warning with its stack", async () => {
  const warnings = await warningsOf(THROWS, { times: 2 });
  assert.equal(warnings.length, 1, JSON.stringify(warnings));
  const [{ name, code, message, detail }] = warnings;
  assert.deepEqual([name, code], ["KimiAgentWarning", "KIMI_AGENT_HANDLER"]);
  assert.match(message, /^a handler failed;.*handler="approval".*the \\"approver\\" is out/);
  assert.match(detail, /^Error: the "approver" is out\n\s+at .*decide/);
});

test("session that is closed during an unread turn causes one warning", async () => {
  const { status, stdout, stderr } = await run(`
    const warnings = [];
    process.on("warning", ({ message }) => warnings.push(message));
    const held = [];
    for (const read of [false, true]) {
      const session = await createSession({ executable: scriptedAgent([[{ text: "a" }, { wait_cancel: true }]]) });
      const turn = session.prompt("hi");
      held.push(turn);
      if (read) await turn.next();
      await session.close();
    }
    await new Promise((resolve) => setImmediate(resolve));
    console.log(JSON.stringify(warnings));
  `, ["--no-warnings"]);
  assert.equal(status, 0, stderr);
  const [warning, ...others] = JSON.parse(stdout);
  assert.match(warning, /closed during a turn that was not read/);
  assert.deepEqual(others, []);
});

test("failed turns that were not read cause warnings at the close of their session", async () => {
  const { status, stdout, stderr } = await run(`
    const warnings = [];
    process.on("warning", ({ message }) => warnings.push(message));
    const failing = [{ error: { code: -32003, message: "the model is down" } }];
    const held = [];
    for (const read of [false, true]) {
      const session = await createSession({ executable: scriptedAgent([failing]) });
      for (const options of [{ timeout: "soon" }, {}]) {
        const turn = session.prompt("hi", options);
        held.push(turn);
        while (session.state === "active") await new Promise((resolve) => setImmediate(resolve));
        if (read) await turn.result().catch(() => undefined);
      }
      await session.close();
      await session.close();
    }
    await new Promise((resolve) => setImmediate(resolve));
    console.log(JSON.stringify(warnings));
  `, ["--no-warnings"]);
  assert.equal(status, 0, stderr);
  const [first, second, ...others] = JSON.parse(stdout).sort();
  assert.match(first, /^failed turn dropped unread; .*`timeout`/);
  assert.match(second, /the error of a turn was not read; .*the model is down/);
  assert.deepEqual(others, []);
});

test("turns that have ended and were not read cause warnings at the close of their session", async () => {
  const { status, stdout, stderr } = await run(`
    const warnings = [];
    process.on("warning", ({ message }) => warnings.push(message));
    const held = [];
    const readers = [() => undefined, (turn) => turn.result(), (turn) => turn.next(), (turn) => turn.return(), (turn) => turn.cancel()];
    for (const read of readers) {
      const session = await createSession({ executable: scriptedAgent([[{ text: "a" }]]) });
      const turn = session.prompt("hi");
      held.push(turn);
      while (session.state === "active") await new Promise((resolve) => setImmediate(resolve));
      await read(turn);
      await session.close();
      await session.close();
    }
    await new Promise((resolve) => setImmediate(resolve));
    console.log(JSON.stringify(warnings));
  `, ["--no-warnings"]);
  assert.equal(status, 0, stderr);
  const [warning, ...others] = JSON.parse(stdout);
  assert.match(warning, /a turn that has ended was not read; .*turn-1/);
  assert.deepEqual(others, []);
});

test("batch that was not read causes one warning", async () => {
  const { status, stdout, stderr } = await run(`
    const { runBatch } = await import(${dist("index.mjs")});
    const warnings = [];
    process.on("warning", ({ message }) => warnings.push(message));
    const gc = globalThis.gc;
    const alive = setInterval(() => undefined, 1000);
    const executable = scriptedAgent([[{ error: { code: -32003, message: "the model is down" } }]]);
    const held = new Set();
    const failed = async (signal) => {
      // A batch that is collected while it runs is cancelled.
      await new Promise((resolve) => {
        const onProgress = ({ running, done }) => running === 0 && done === 1 && resolve();
        held.add(runBatch(["a"], { executable, retry: 1, signal, onProgress }));
      });
      held.clear();
    };
    await failed();
    // Cancelled on purpose.
    const controller = new AbortController();
    await failed(controller.signal);
    controller.abort();
    while (warnings.length === 0) {
      gc();
      await new Promise((resolve) => setImmediate(resolve));
    }
    clearInterval(alive);
    console.log(JSON.stringify(warnings));
  `, ["--no-warnings", "--expose-gc"]);
  assert.equal(status, 0, stderr);
  const [warning, ...others] = JSON.parse(stdout);
  assert.match(warning, /^failed batch dropped unread; .*the model is down/);
  assert.deepEqual(others, []);
});

test("warning has the names of options in Node", async () => {
  const { status, stdout, stderr } = await run(`
    const warnings = [];
    process.on("warning", ({ message }) => warnings.push(message));
    const options = { executable: scriptedAgent([[{ text: "x".repeat(100_000) }]]), maxLineBytes: 65_536 };
    const session = await createSession(options);
    const error = await session.prompt("hi").result().catch((error) => error);
    await session.close();
    await new Promise((resolve) => setImmediate(resolve));
    console.log(JSON.stringify([error.message, ...warnings]));
  `, ["--no-warnings"]);
  assert.equal(status, 0, stderr);
  const texts = JSON.parse(stdout);
  assert.deepEqual(texts.map((text) => text.match(/max.?line.?bytes/i)?.[0]), ["maxLineBytes", "maxLineBytes"], stdout);
});

test("failed onProgress causes one warning with its stack", async () => {
  const { status, stdout, stderr } = await run(`
    const { runBatch } = await import(${dist("index.mjs")});
    const warnings = [];
    process.on("warning", ({ name, code, message, detail }) => warnings.push({ name, code, message, detail }));
    const onProgress = async function report() { throw new Error("no disk"); };
    for await (const _ of runBatch(["a", "b"], { executable: scriptedAgent([[{ text: "x" }]]), onProgress }));
    await new Promise((resolve) => setImmediate(resolve));
    console.log(JSON.stringify(warnings));
  `, ["--no-warnings"]);
  assert.equal(status, 0, stderr);
  const [{ name, code, message, detail }, ...others] = JSON.parse(stdout);
  assert.deepEqual(others, []);
  assert.deepEqual([name, code], ["KimiAgentWarning", "KIMI_AGENT_HANDLER"]);
  assert.match(message, /^a handler failed;.*handler="progress" error="no disk"$/);
  assert.match(detail, /^Error: no disk\n\s+at report/);
});

test("failed onStderr causes one warning with its stack", async () => {
  const { status, stdout, stderr } = await run(`
    const warnings = [];
    process.on("warning", ({ code, message, detail }) => warnings.push({ code, message, detail }));
    let failed;
    const twice = new Promise((resolve) => (failed = resolve));
    let lines = 0;
    const onStderr = function lost() { if ((lines += 1) === 2) failed(); throw new Error("no disk"); };
    const session = await createSession({ executable: scriptedAgent([[{ stderr: "a\\nb" }, { text: "x" }]]), onStderr });
    await session.prompt("hi").result();
    await twice;
    await session.close();
    await new Promise((resolve) => setImmediate(resolve));
    console.log(JSON.stringify(warnings));
  `, ["--no-warnings"]);
  assert.equal(status, 0, stderr);
  const [{ code, message, detail }, ...others] = JSON.parse(stdout);
  assert.deepEqual(others, []);
  assert.equal(code, "KIMI_AGENT_HANDLER");
  assert.match(message, /^a handler failed; it gets the next line\..* handler="stderr" error="no disk"$/);
  assert.match(detail, /^Error: no disk\n\s+at .*lost/);
});

test("failing logger causes one warning", async () => {
  const [warning, ...others] = await warningsOf(THROWS, { before: 'setLogger(() => { throw new Error("full"); }, "trace");', times: 2 });
  assert.deepEqual(others, []);
  assert.deepEqual([warning.code, warning.message], ["KIMI_AGENT_LOGGER", "the logger of kimi-agent failed: Error: full"]);
});

test("one-shot prompt warns about its handlers", async () => {
  const { status, stdout, stderr } = await run(`
    const warnings = [];
    process.on("warning", ({ message }) => warnings.push(message));
    for (const onApproval of [undefined, () => true]) await prompt("hi", { executable: scriptedAgent(${ASKING}), onApproval }).result();
    await new Promise((resolve) => setImmediate(resolve));
    console.log(JSON.stringify(warnings));
  `, ["--no-warnings"]);
  assert.equal(status, 0, stderr);
  const [missing, failed, ...others] = JSON.parse(stdout);
  assert.deepEqual(others, []);
  assert.match(missing, /set `onApproval`/);
  assert.match(failed, /the handler returned true/);
});

test("wrong result of a handler causes a warning", async () => {
  const [warning, ...others] = await warningsOf('{ onApproval: () => "yes" }');
  assert.deepEqual(others, []);
  assert.equal(warning.code, "KIMI_AGENT_HANDLER");
  assert.match(warning.message, /^a handler failed;.*the handler returned .*yes/);
  assert.equal(warning.detail, undefined);
});

test("missing handler causes one warning that names the option", async () => {
  const [warning, ...others] = await warningsOf("{}", { times: 2 });
  assert.deepEqual(others, []);
  assert.match(warning.message, /rejected because no handler answers: set `onApproval`/);
});

test("logger gets the records instead, and null turns them off", async () => {
  const records = "const records = []; setLogger(({ target }) => records.push(target), 'warn');";
  assert.deepEqual(await warningsOf(THROWS, { before: records }), []);
  assert.deepEqual(await warningsOf(THROWS, { before: "setLogger(null);" }), []);
});

test("warning is printed on stderr with its code", async () => {
  const { stderr } = await run(program("{}"));
  assert.match(stderr, /^\(node:\d+\) \[KIMI_AGENT_HANDLER\] KimiAgentWarning: the agent asked for an approval/);
});

const WAITING = 'scriptedAgent([[{ text: "a" }, { wait_cancel: true }]])';

for (const [about, body, expected] of [
  ["prompt in a closed session", `
    const session = await createSession({ executable: scriptedAgent([[{ text: "a" }]]) });
    await session.close();
    globalThis.held = session.prompt("hi");
    if (isRead) await held.result().catch(() => undefined);`, /^failed turn dropped unread; .*the session is closed/],
  ["agent that dies during a turn", `
    const session = await createSession({ executable: ${WAITING} });
    globalThis.held = session.prompt("hi");
    process.kill(session.pid, "SIGKILL");
    await session.closed;
    if (isRead) await held.result().catch(() => undefined);`, /^failed turn dropped unread; .*SIGKILL/],
  ["batch that is awaited", `
    const batch = await runBatch(["a"], { executable: ${WAITING} });
    if (isRead) await batch.cancel();`, /^batch dropped unread, and cancelled; iterate over its results/],
]) {
  test(`${about} and is not read causes one warning at exit`, async () => {
    for (const isRead of [false, true]) {
      const { status, stdout, stderr } = await run(`
        const { runBatch } = await import(${dist("index.mjs")});
        const isRead = ${isRead};
        process.on("warning", ({ name, code, message }) => console.log(JSON.stringify([name, code, message])));
        ${body}
      `, ["--no-warnings"]);
      assert.equal(status, 0, stderr);
      const warnings = stdout.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
      assert.equal(warnings.length, isRead ? 0 : 1, stdout);
      if (isRead) continue;
      assert.deepEqual(warnings[0].slice(0, 2), ["KimiAgentWarning", "KIMI_AGENT_WARNING"]);
      assert.match(warnings[0][2], expected);
    }
  });
}

test("program that fails has no warnings about what it did not read", async () => {
  const { status, stderr } = await run(`
    const session = await createSession({ executable: scriptedAgent([[{ text: "a" }]]) });
    await session.close();
    globalThis.held = session.prompt("hi");
    throw new Error("on purpose");
  `);
  assert.equal(status, 1);
  assert.doesNotMatch(stderr, /dropped unread/);
});
