// Openings that a signal gives up: before, while they are under way, and when they are through.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setImmediate as tick } from "node:timers/promises";

import agentModule from "../dist/agent.js";
import bridgeModule from "../dist/bridge.js";
import { createSession, openAgent, prompt } from "../dist/index.mjs";
import sessionModule from "../dist/session.js";
import { fakeModule, nativeError } from "./fake-native.mjs";
import { holder, start, temporary as temporaryFolder } from "./programs.mjs";

const { Agent } = agentModule;
const { Bridge } = bridgeModule;
const { Session, promptOnce } = sessionModule;

const listeners = (signal) => getEventListeners(signal, "abort").length;

function controlled() {
  const controller = new AbortController();
  return { signal: controller.signal, abort: (reason) => void controller.abort(reason) };
}

/** The error of a rejected promise. */
const rejection = (promise) => promise.then(() => assert.fail("it was not rejected"), (reason) => reason);

/** An agent whose side of the addon, and its sessions', is the fake one's. */
function fakeAgent(module, bridge) {
  const createSession = (_resume, _fork, ...options) => module.NativeSession.open(module.bridge, ...options);
  return new Agent(bridge, { key: 0, createSession, abandon: () => undefined }, {});
}

describe("an opening call", () => {
  const ways = {
    createSession: (_, bridge, options) => Session.open(bridge, options),
    openAgent: async (_, bridge, options) => Agent.open(bridge, options),
    "agent.createSession": (module, bridge, options) => fakeAgent(module, bridge).createSession(options),
    "agent.resume": (module, bridge, options) => fakeAgent(module, bridge).resume("old", options),
    "agent.fork": (module, bridge, options) => fakeAgent(module, bridge).fork("old", options),
    prompt: async (_, bridge, options) => promptOnce(bridge, "hi", options).result(),
  };
  for (const [name, open] of Object.entries(ways)) {
    test(`${name}: signal aborted before the call prevents it and gives its reason`, async () => {
      const module = fakeModule();
      const bridge = new Bridge(module);
      const reason = { my: "reason" };
      assert.equal(await rejection(open(module, bridge, { signal: AbortSignal.abort(reason) })), reason);
      const plain = await rejection(open(module, bridge, { signal: AbortSignal.abort() }));
      assert.equal(plain.name, "AbortError");
      assert.equal(module.opened, undefined);
    });

    test(`${name}: signal of a wrong type is named`, async () => {
      const module = fakeModule();
      for (const signal of [5, "now", {}, new AbortController()]) {
        const error = await rejection(open(module, new Bridge(module), { signal }));
        assert.deepEqual([error.code, error.option], ["invalid_option", "signal"]);
      }
      assert.equal(module.opened, undefined);
    });
  }

  test("missing signal is accepted", async () => {
    const module = fakeModule();
    for (const signal of [undefined, null]) await Session.open(new Bridge(module), { signal });
    assert.deepEqual(module.opened.options, {});
  });
});

describe("a session that is being opened", () => {
  test("is abandoned at once with the signal's reason", async () => {
    const module = fakeModule();
    module.openStalls = true;
    const bridge = new Bridge(module);
    const { signal, abort } = controlled();
    const opening = rejection(Session.open(bridge, { signal }));
    assert.equal(module.bridge.keepsAlive, true);
    assert.deepEqual([listeners(signal), module.abandoned], [1, []]);
    const reason = new Error("no more");
    abort(reason);
    assert.deepEqual(module.abandoned, [module.session.key]);
    assert.equal(await opening, reason);
    assert.deepEqual([listeners(signal), module.bridge.keepsAlive], [0, false]);
  });

  test("is closed if it opened just before the abort", async () => {
    const module = fakeModule();
    const { signal, abort } = controlled();
    const opening = rejection(Session.open(new Bridge(module), { signal }));
    // The addon has left word that it is open.
    assert.equal(module.bridge.queue.length, 1);
    abort();
    assert.equal((await opening).name, "AbortError");
    assert.deepEqual(module.abandoned, [module.session.key]);
  });

  test("leaves no listener on a signal that a thousand of them share", async () => {
    const module = fakeModule();
    const bridge = new Bridge(module);
    const { signal, abort } = controlled();
    const sessions = [];
    for (let n = 0; n < 1000; n += 1) {
      module.openFailure = n % 2 ? nativeError("spawn_error", "no such program") : undefined;
      const opening = Session.open(bridge, { signal });
      assert.equal(listeners(signal), 1);
      if (n % 2) assert.equal((await rejection(opening)).code, "spawn_error");
      else sessions.push(await opening);
      assert.equal(listeners(signal), 0);
    }
    module.openStalls = true;
    const warnings = [];
    const onWarning = (warning) => warnings.push(warning);
    process.on("warning", onWarning);
    const more = Array.from({ length: 1000 }, () => rejection(Session.open(bridge, { signal })));
    abort("enough");
    assert.deepEqual([...new Set(await Promise.all(more))], ["enough"]);
    assert.equal(listeners(signal), 0);
    // As of a leak, Node warns of more than ten listeners.
    process.off("warning", onWarning);
    assert.deepEqual(warnings, []);
    // Those that were open stay so.
    assert.equal(sessions.length, 500);
    assert.equal(module.abandoned.length, 1000);
  });
});

/** Opens one session at a time, and never that in a directory named `stuck`. Says on stderr when it has been asked. */
const ACP = `
  import { createInterface } from "node:readline";
  import { basename } from "node:path";

  const able = { sessionCapabilities: { resume: {}, fork: {}, close: {} } };
  let count = 0;
  for await (const line of createInterface({ input: process.stdin })) {
    const { method, id, params = {} } = JSON.parse(line);
    const say = (result) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n");
    if (method === "initialize") say({ protocolVersion: 1, agentCapabilities: able });
    else if (basename(params.cwd ?? "") === "stuck") process.stderr.write(method + "\\n");
    else if (method === "session/new") say({ sessionId: "s" + ++count });
    else if (method === "session/prompt") say({ stopReason: "end_turn" });
    else if (id !== undefined) say({});
  }
`;

test("process.exit() while a session opens deletes its private files", { timeout: 240_000 }, async (t) => {
  const env = temporaryFolder(t);
  // The exit comes at different points of the opening.
  for (const rounds of [0, 10, 100, 300, 1000, 3000]) {
    const { ended } = start(`
      const executable = scriptedAgent([[{ text: "x" }]]);
      let left = ${rounds};
      const next = () => (left-- === 0 ? process.exit(3) : setImmediate(next));
      createSession({ executable, config: { key: "canary" } });
      next();`, [], env);
    const { status, stderr } = await ended;
    assert.deepEqual({ status, stderr }, { status: 3, stderr: "" });
    assert.deepEqual(readdirSync(env.TMPDIR, { recursive: true }), [], `after ${rounds} rounds`);
  }
});

const skip = process.platform === "win32" && "there are no named pipes of this kind";

describe("with an agent that runs", { timeout: 240_000, skip }, () => {
  let folder, held, temporary;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), "opening-"));
    held = holder(folder);
    temporary = process.env.TMPDIR;
  });
  after(() => {
    if (temporary === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = temporary;
    rmSync(folder, { recursive: true });
  });

  const stalled = { before_handshake: [{ stderr: "up" }, { stall: true }], turns: [] };
  /** Short, as the agent does not go by itself. */
  const closeTimeout = 50;

  test("aborted opening ends the agent with its processes and deletes its private files", async () => {
    const agent = held("given-up", stalled);
    const { signal, abort } = controlled();
    // Made by the program; what is made from here on is the session's.
    process.env.TMPDIR = mkdtempSync(join(folder, "tmp-"));
    let kept;
    const onStderr = () => {
      kept = readdirSync(process.env.TMPDIR).length;
      abort("changed my mind");
    };
    const config = { providers: {} };
    const { executable } = agent;
    assert.equal(await rejection(createSession({ executable, config, closeTimeout, onStderr, signal })), "changed my mind");
    assert.equal(kept, 1);
    await agent.gone;
    while (readdirSync(process.env.TMPDIR).length > 0) await tick();
    assert.equal(listeners(signal), 0);
  });

  test("open session ignores the signal", async () => {
    const agent = held("open", [[{ text: "still here" }]]);
    const { signal, abort } = controlled();
    const session = await createSession({ executable: agent.executable, signal });
    assert.equal(listeners(signal), 0);
    abort();
    assert.equal((await session.prompt("hi").result()).text, "still here");
    await session.close();
    await agent.gone;
  });

  test("one-shot prompt is cancelled during opening and during the turn", async () => {
    for (const [name, script] of [["opening", stalled], ["running", [[{ stderr: "up" }, { wait_cancel: true }]]]]) {
      const agent = held(`alone-${name}`, script);
      const { signal, abort } = controlled();
      const turn = prompt("hi", { executable: agent.executable, closeTimeout, onStderr: () => abort(), signal });
      assert.equal((await turn.result()).status, "cancelled", name);
      for await (const event of turn) assert.ok(event);
      await agent.gone;
      assert.equal(listeners(signal), 0);
    }
  });

  test("signal of an agent cancels its first opening only", async () => {
    const agent = held("first-session", stalled);
    const { signal, abort } = controlled();
    const first = await openAgent({ executable: agent.executable, closeTimeout, onStderr: () => abort("not now"), signal });
    assert.equal(await rejection(first.createSession()), "not now");
    await agent.gone;
    assert.equal(await rejection(first.createSession()), "not now");
    await first.close();
    const open = controlled();
    const other = held("later-sessions", []);
    const second = await openAgent({ executable: other.executable, signal: open.signal });
    const session = await second.createSession();
    open.abort("too late");
    const another = await second.createSession();
    assert.deepEqual([session.state, another.state, listeners(open.signal)], ["idle", "idle", 0]);
    await second.close();
    await other.gone;
  });

  test("another session of the same agent is opened all the same", async () => {
    const program = join(folder, "acp.mjs");
    writeFileSync(program, ACP);
    const workDir = join(folder, "stuck");
    mkdirSync(workDir);
    let asked;
    const executable = [process.execPath, program];
    const agent = await openAgent({ executable, dialect: "acp", onStderr: (line) => asked(line) });
    const first = await agent.createSession();
    const ways = {
      "session/new": (options) => agent.createSession(options),
      "session/resume": (options) => agent.resume("old", options),
      "session/fork": (options) => agent.fork("old", options),
    };
    for (const [method, open] of Object.entries(ways)) {
      const { signal, abort } = controlled();
      const heard = new Promise((resolve) => (asked = resolve));
      const opening = rejection(open({ workDir, signal }));
      assert.equal(await heard, method);
      abort(method);
      assert.equal(await opening, method);
      assert.equal(listeners(signal), 0);
    }
    const second = await agent.createSession();
    assert.equal(second.pid, first.pid);
    for (const session of [first, second]) assert.equal((await session.prompt("hi").result()).status, "finished");
    await agent.close();
  });
});
