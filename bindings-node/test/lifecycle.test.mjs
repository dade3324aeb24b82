// How programs end while the package is at work: no crash, no hang, no agent that is left behind.
import assert from "node:assert/strict";
import { getEventListeners, once } from "node:events";
import { describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Worker } from "node:worker_threads";

import ts from "typescript";

import { createSession } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";
import { dist, isThere, repeat, run, start, temporary } from "./programs.mjs";

/** Waits until a process is gone. One that stays makes the test run into its limit. */
async function gone(pid) {
  assert.ok(pid > 0, String(pid));
  while (isThere(pid)) await pause(5);
}

describe("a program", { timeout: 240_000, concurrency: 2 }, () => {
  test("ends with a session that is open and idle, and so does the agent", async () => {
    const { status, stdout, stderr } = await run(`
      globalThis.session = await createSession({ executable: scriptedAgent([[{ text: "a" }]]) });
      await session.prompt("hi").result();
      console.log(session.pid);`);
    assert.equal(status, 0, stderr);
    assert.equal(isThere(Number(stdout)), false);
  });

  test("stays alive in the middle of a turn, until its handlers are done", async () => {
    const { status, stdout, stderr } = await run(`
      const turn = [{ external_tool: { id: "t", name: "t", arguments: {} } }, { text: "end" }];
      const handler = () => new Promise((resolve) => setImmediate(() => resolve("x")));
      const tools = [{ name: "t", description: "", parameters: { type: "object" }, handler }];
      const session = await createSession({ executable: scriptedAgent([turn]), tools });
      session.prompt("hi").result().then(({ text }) => console.log(text));`);
    assert.equal(status, 0, stderr);
    assert.equal(stdout, "end\n");
  });

  test("that only began a turn lives until the turn is over", async () => {
    const { status, stdout, stderr } = await run(`
      const script = [[{ external_tool: { id: "t", name: "t", arguments: {} } }]];
      const tools = [{ name: "t", description: "", parameters: { type: "object" }, handler: () => console.log("called") }];
      globalThis.session = await createSession({ executable: scriptedAgent(script), tools });
      globalThis.turn = session.prompt("hi");
      process.once("beforeExit", () => console.log(turn.id !== "", session.state));`);
    assert.equal(status, 0, stderr);
    assert.equal(stdout, "called\ntrue idle\n");
  });

  test("may exit in the middle of a turn, ten times", async () => {
    const pids = [];
    await repeat(10, async () => {
      const { status, signal, stdout, stderr } = await run(`
        const busy = { repeat: { times: 100000, actions: [{ text: "busy" }] } };
        const session = await createSession({ executable: scriptedAgent([[busy]]) });
        let seen = 0;
        for await (const event of session.prompt("hi")) {
          seen += 1;
          if (seen === 100) {
            console.log(session.pid);
            process.exit(7);
          }
        }`);
      assert.deepEqual({ status, signal, stderr }, { status: 7, signal: null, stderr: "" });
      pids.push(Number(stdout));
    });
    await Promise.all(pids.map(gone));
  });

  for (const signal of ["SIGINT", "SIGTERM", "SIGKILL"]) {
    const skip = process.platform === "win32" && "there are no signals";
    test(`that dies by ${signal} takes its agent along, even a stubborn one`, { skip }, async (t) => {
      const { child, ended } = start(`
        const script = [[{ ignore_eof: true }, { text: "a" }, { wait_cancel: true }]];
        const session = await createSession({ executable: scriptedAgent(script) });
        for await (const event of session.prompt("hi")) {
          if (event.type === "ContentPart") console.log(session.pid);
        }`, [], temporary(t));
      const [line] = await once(child.stdout, "data");
      child.kill(signal);
      assert.equal((await ended).signal, signal);
      await gone(Number(line));
    });
  }

  test("written with `await using`, and compiled for this Node, closes in the right order", async () => {
    const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
    const { outputText } = ts.transpileModule(
      `
        let mine, running;
        try {
          await using session = await createSession({ executable: scriptedAgent([[{ text: "a" }, { wait_cancel: true }]]) });
          await using turn = session.prompt("hi");
          [mine, running] = [session, turn];
          await turn.next();
          throw new Error("left");
        } catch (error) {
          console.log(error.message, mine.state, (await running.result()).status);
        }`,
      { compilerOptions },
    );
    assert.doesNotMatch(outputText, /await using/);
    const { stdout, stderr } = await run(outputText);
    assert.equal(stdout, "left closed cancelled\n", stderr);
  });

  const failures = {
    "the agent dies in the middle of a turn that nobody awaits": `
      const session = await createSession({ executable: scriptedAgent([[{ text: "a" }, { exit: 3 }]]) });
      globalThis.turn = session.prompt("hi");`,
    "the agent dies, and the turn has been forgotten": `
      (await createSession({ executable: scriptedAgent([[{ text: "a" }, { signal: "KILL" }]]) })).prompt("hi");`,
    "the agent dies while a signal cancels": `
      const session = await createSession({ executable: scriptedAgent([[{ text: "a" }, { wait_cancel: true }]]) });
      const controller = new AbortController();
      globalThis.turn = session.prompt("hi", { signal: controller.signal });
      await turn.next();
      controller.abort();
      process.kill(session.pid, "SIGKILL");`,
    "handlers throw, now and later": `
      const approve = { action: "run", description: "ls" };
      const result = { output: "", message: "", is_error: false };
      const script = [[
        { stderr: "noise" },
        { event: { type: "Notification", payload: {} } },
        { tool_call: { id: "c", name: "Shell", arguments: {}, approve, result } },
        { external_tool: { id: "t", name: "t", arguments: {} } },
        { external_tool: { id: "u", name: "u", arguments: {} } },
        { question: { questions: [{ question: "?", options: [{ label: "A" }, { label: "B" }] }] } },
      ]];
      const now = () => { throw new Error("now"); };
      const later = async () => { throw undefined; };
      const tool = { description: "", parameters: { type: "object" } };
      const session = await createSession({
        executable: scriptedAgent(script),
        onApproval: now, onQuestion: later, onEvent: now, onStderr: later,
        tools: [{ ...tool, name: "t", handler: now }, { ...tool, name: "u", handler: later }],
        hooks: [{ event: "Stop", handler: now }, { event: "PreToolUse", handler: later }],
      });
      await session.setPlanMode(true);
      await session.prompt("hi").result();`,
    "a session is closed while it opens": `
      const controller = new AbortController();
      const executable = scriptedAgent({ before_handshake: [{ stall: true }] });
      const turn = prompt("hi", { executable, signal: controller.signal });
      controller.abort();
      await turn.result().catch(() => undefined);`,
    "an opening is given up by a signal": `
      const controller = new AbortController();
      const executable = scriptedAgent({ before_handshake: [{ stall: true }] });
      const opening = createSession({ executable, closeTimeout: 50, signal: controller.signal });
      controller.abort();
      await opening.catch(() => undefined);`,
    "a session cannot be opened for a prompt that is forgotten": `
      prompt("hi", { executable: "/no/such/agent" });
      prompt("hi", { executable: scriptedAgent({ before_handshake: [{ exit: 1 }] }) });`,
    "a session is closed in the middle of everything": `
      const hang = () => new Promise(() => undefined);
      const tools = [{ name: "t", description: "", parameters: { type: "object" }, handler: hang }];
      const script = [[{ external_tool: { id: "t", name: "t", arguments: {} } }]];
      const session = await createSession({ executable: scriptedAgent(script), tools });
      const turn = session.prompt("hi");
      for await (const event of turn) {
        if (event.type !== "ToolCallRequest") continue;
        turn.steer("more").catch(() => undefined);
        session.close();
      }`,
    "a loop is left, twice, and the turn is cancelled as well": `
      const session = await createSession({ executable: scriptedAgent([[{ text: "a" }, { wait_cancel: true }]]) });
      const turn = session.prompt("hi");
      for await (const event of turn) break;
      await turn.return();
      await turn.throw(new Error("left")).catch(() => undefined);
      turn.cancel();
      session.close();
      await session.close();`,
    "the logger throws, now or later": `
      let records = 0;
      const later = async () => { throw new Error("later"); };
      const now = () => { throw new Error("now"); };
      setLogger(() => ((records += 1) % 2 ? later() : now()), "trace");
      process.removeAllListeners("warning");
      const session = await createSession({ executable: scriptedAgent([[{ raw: "nonsense" }, { text: "a" }]]) });
      await session.prompt("hi").result();
      await session.close();`,
  };
  for (const [what, code] of Object.entries(failures)) {
    test(`sees no unhandled rejection when ${what}`, async () => {
      const { status, signal, stdout, stderr } = await run(code, ["--unhandled-rejections=strict", "--no-warnings"]);
      assert.deepEqual({ status, signal, stdout, stderr }, { status: 0, signal: null, stdout: "", stderr: "" });
    });
  }
});

describe("worker threads", { timeout: 240_000 }, () => {
  const work = (rest) => `
    const { parentPort, workerData } = require("node:worker_threads");
    const { createSession } = require(${dist("index.js")});
    createSession(workerData).then(async (session) => {
      globalThis.session = session;
      ${rest}
    });`;
  const executable = scriptedAgent([[{ text: "a" }, { wait_cancel: true }], [{ text: "b" }]]);
  const readOn = work(`
    for await (const event of session.prompt("hi")) if (event.type === "ContentPart") parentPort.postMessage(session.pid);`);

  test("may be ended during turns with their agents while others continue", async () => {
    const mine = await createSession({ executable });
    const turn = mine.prompt("hi");
    await turn.next();
    await repeat(8, async () => {
      const worker = new Worker(readOn, { eval: true, workerData: { executable } });
      const [pid] = await once(worker, "message");
      await worker.terminate();
      await gone(pid);
    }, 2);
    await turn.cancel();
    assert.equal((await mine.prompt("more").result()).text, "b");
    await mine.close();
  });

  test("may be ended while they open a session, and while their handlers run", async () => {
    const opening = `
      require("node:worker_threads").parentPort.postMessage("opening");
      require(${dist("index.js")}).createSession(require("node:worker_threads").workerData);`;
    const stalled = scriptedAgent({ before_handshake: [{ stall: true }] });
    const calling = `
      const { parentPort, workerData } = require("node:worker_threads");
      const handler = () => { parentPort.postMessage("called"); return new Promise(() => undefined); };
      const tools = [{ name: "t", description: "", parameters: { type: "object" }, handler }];
      require(${dist("index.js")}).createSession({ ...workerData, tools }).then((session) => session.prompt("hi").result());`;
    const calls = scriptedAgent([[{ external_tool: { id: "t", name: "t", arguments: {} } }]]);
    for (const [code, agent] of [[opening, stalled], [calling, calls]]) {
      const worker = new Worker(code, { eval: true, workerData: { executable: agent } });
      await once(worker, "message");
      await worker.terminate();
    }
  });

  test("end by themselves when nothing is left to do", async () => {
    const code = work(`parentPort.postMessage([session.pid, (await session.prompt("hi").result()).text]);`);
    const worker = new Worker(code, { eval: true, workerData: { executable: scriptedAgent([[{ text: "b" }]]) } });
    const exit = once(worker, "exit");
    const [[pid, text]] = await once(worker, "message");
    assert.equal(text, "b");
    assert.deepEqual(await exit, [0]);
    await gone(pid);
  });

  test("may be left running when the process exits", async () => {
    const { status, signal, stderr, stdout } = await run(`
      import { Worker } from "node:worker_threads";
      const workerData = { executable: ${JSON.stringify(executable)} };
      const worker = new Worker(${JSON.stringify(readOn)}, { eval: true, execArgv: [], workerData });
      worker.once("message", (pid) => { console.log(pid); process.exit(5); });`);
    assert.deepEqual({ status, signal, stderr }, { status: 5, signal: null, stderr: "" });
    await gone(Number(stdout));
  });
});

describe("signals", () => {
  test("have no listener left after a thousand turns", async () => {
    const session = await createSession({ executable: scriptedAgent([]) });
    const one = new AbortController();
    const signals = [];
    for (let round = 0; round < 500; round += 1) {
      const controller = new AbortController();
      signals.push(controller.signal);
      await session.prompt("hi", { signal: controller.signal }).result();
      await session.prompt("hi", { signal: one.signal }).result();
    }
    assert.deepEqual([...signals, one.signal].filter((signal) => getEventListeners(signal, "abort").length > 0), []);
    one.abort();
    assert.equal(session.state, "idle");
    await session.close();
  });
});
