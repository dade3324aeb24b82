// Wrong uses of the package: each is refused with a text that says what to write instead, or does what was meant.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { inspect } from "node:util";

import { z } from "zod";

import {
  Agent,
  Batch,
  createSession,
  files,
  Hook,
  hook,
  InvalidOption,
  openAgent,
  output,
  prompt,
  Reject,
  reject,
  Replay,
  runBatch,
  Session,
  terminals,
  tool,
  Turn,
  TurnInProgress,
} from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

const HELLO = [[{ text: "Hello" }]];
const parameters = { type: "object", properties: {} };

async function withSession(script, options, use) {
  const session = await createSession({ executable: scriptedAgent(script), ...options });
  try {
    return await use(session);
  } finally {
    await session.close();
  }
}

test("options of a prompt that belong to the session are named", () =>
  withSession(HELLO, {}, async (session) => {
    const wrong = [
      [{ onApproval: () => "approve" }, /`onApproval`: a prompt has no such option; .*createSession/],
      [{ timout: () => 5 }, /`timout`.*`timeout`/],
      [Promise.resolve({}), /got a promise; wait for it with `await`/],
      [new Map([["timeout", 5]]), /got a Map; convert it/],
    ];
    for (const [options, text] of wrong) {
      await assert.rejects(session.prompt("hi", options).result(), (error) => error instanceof InvalidOption && text.test(error.message));
    }
  }));

test("unknown options of close() and listSessions() are refused, and nothing is closed", () =>
  withSession(HELLO, {}, async (session) => {
    await assert.rejects(session.close({ timout: 5 }), (error) => error instanceof InvalidOption && error.option === "timout");
    await assert.rejects(session.close(new Map()), InvalidOption);
    assert.equal(session.state, "idle");
    const agent = await openAgent({ executable: scriptedAgent(HELLO) });
    await assert.rejects(agent.listSessions({ workdir: "." }), InvalidOption);
    await agent.close();
  }));

test("second object of options is refused", async () => {
  const message = /takes one object of options, and got another argument, an object/;
  const more = [{ executable: scriptedAgent(HELLO) }, { workDir: "." }];
  await assert.rejects(createSession(...more), { name: "InvalidOption", message });
  await assert.rejects(openAgent(...more), { name: "InvalidOption", message });
  await assert.rejects(prompt("hi", ...more).result(), { name: "InvalidOption", message });
  assert.throws(() => runBatch(["hi"], ...more), { name: "InvalidOption", message });
});

test("values without a JSON form are refused at any depth", async () => {
  const wrong = [
    [{ env: new Map([["A", "1"]]) }, /`env`.*a Map.*Object\.fromEntries/],
    [{ mcpConfigs: [{ mcpServers: new Map() }] }, /`mcpConfigs`.*a Map/],
    [{ config: { a: () => 1 } }, /`config`.*a function/],
    [{ sessionBudget: Promise.resolve({ tokens: 5 }) }, /`sessionBudget`.*a promise.*await/],
    [{ extraArgs: new Set(["--x"]) }, /`extraArgs`.*a Set.*\[\.\.\.set\]/],
    [{ workdir: Symbol("x") }, /`workdir`.*`workDir`/],
  ];
  for (const [options, text] of wrong) {
    await assert.rejects(createSession(options), (error) => error instanceof InvalidOption && text.test(error.message));
  }
});

test("tool results whose content JSON would lose are failures", async () => {
  class Hidden {
    #value = 1;
    get value() {
      return this.#value;
    }
  }
  const circle = {};
  circle.self = circle;
  const lost = {
    map: new Map([["a", 1]]), set: new Set([1]), error: new Error("no"), nested: { found: [new Map()] }, nan: NaN, infinite: [Infinity], circle,
    response: new Response("x"), headers: new Headers({ a: "1" }), query: new URLSearchParams("a=1"), blob: new Blob(["x"]), form: new FormData(),
    stream: new ReadableStream(), numbers: new Intl.NumberFormat(), hidden: new Hidden(), deep: [{ hidden: new Hidden() }],
    functions: [() => 1], method: { f() {} }, symbol: { s: Symbol("s") }, big: [1n], buffer: Buffer.from("x"), buffers: [Buffer.from("x")], bytes: { b: new Uint8Array(1) },
  };
  const kept = { date: new Date(0), url: new URL("https://a.example"), boxed: new Number(3), bare: Object.create(null), empty: {}, fields: Object.assign(new Hidden(), { a: 1 }) };
  const results = { ...lost, ...kept };
  const tools = Object.entries(results).map(([name, value]) => tool({ name, description: name, parameters, handler: () => value }));
  const script = [[...tools.map(({ name }) => ({ external_tool: { name, arguments: {} } })), { text: "done" }]];
  await withSession(script, { tools }, async (session) => {
    const failed = [];
    for await (const { type, payload } of session.prompt("go")) if (type === "ToolResult") failed.push(payload.return_value.is_error);
    assert.deepEqual(failed, [...Object.keys(lost).map(() => true), ...Object.keys(kept).map(() => false)]);
  });
});

test("a result that cannot be sent has advice for the program, and not for the model", () =>
  withSession([[{ external_tool: { name: "find", arguments: {} } }, { text: "{{last.message}}{{last.output}}" }]], {
    tools: [tool({ name: "find", description: "", parameters, handler: () => new Map() })],
  }, async (session) => {
    const { text, handlerFailures } = await session.prompt("go").result();
    assert.match(handlerFailures[0].message, /^TypeError: the handler returned a Map.*Object\.fromEntries/);
    assert.match(text, /a value that cannot be sent/);
    assert.doesNotMatch(text, /Map|TypeError/);
  }));

test("a handler that waits for events of its own turn fails, and does not hang", () =>
  withSession([[{ request: { type: "ApprovalRequest", payload: { id: "a1", tool_call_id: "t1", sender: "Shell", action: "run command", description: "ls" } } }, { text: "done" }]], {
    async onApproval() {
      await assert.rejects(
        async () => {
          for (;;) await turn.next();
        },
        (error) => error instanceof TurnInProgress && /return an answer first/.test(error.message),
      );
      return "approve";
    },
  }, async (session) => {
    turn = session.prompt("go");
    const { handlerFailures, status } = await turn.result();
    assert.deepEqual([handlerFailures, status], [[], "finished"]);
  }));
let turn;

test("a failure of a handler has the class of the error, and the model its text alone", () =>
  withSession([[{ external_tool: { name: "find", arguments: {} } }, { text: "{{last.message}}{{last.output}}" }]], {
    tools: [{ name: "find", description: "", parameters: { type: "object" }, handler() { throw new RangeError("page 9"); } }],
  }, async (session) => {
    const { text, handlerFailures } = await session.prompt("go").result();
    assert.equal(handlerFailures[0].message, "RangeError: page 9");
    assert.match(text, /page 9/);
    assert.doesNotMatch(text, /RangeError/);
  }));

test("classes whose objects the SDK makes refuse `new`", () => {
  for (const type of [Session, Agent, Turn, Batch, Replay]) {
    assert.throws(() => new type(), (error) => {
      assert.match(error.stack.split("\n").find((line) => line.startsWith("    at ")), /misuse\.test\.mjs/);
      return /^an? \w+ is not made with `new`: call \w/.test(error.message);
    });
  }
});

test("empty prompts and misspelt parts are refused", () =>
  withSession(HELLO, {}, async (session) => {
    for (const content of ["", " ", [], { type: "txt", text: "a" }, Promise.resolve("a"), new Map()]) {
      await assert.rejects(session.prompt(content).result(), InvalidOption);
    }
  }));

test("sessions, turns and agents show what they are", () =>
  withSession(HELLO, {}, async (session) => {
    const text = inspect(session, { breakLength: Infinity });
    assert.equal(text, `Session { id: '${session.id}', agent: '${session.server.name}', state: 'idle', pid: ${String(session.pid)} }`);
    const ended = session.prompt("hi");
    await ended.result();
    assert.equal(inspect(ended), `Turn { id: '${ended.id}', state: 'ended' }`);
    assert.equal(typeof inspect(Object.getPrototypeOf(session)), "string");
    const agent = await openAgent({ executable: scriptedAgent(HELLO) });
    assert.match(inspect(agent, { breakLength: Infinity }), /^Agent \{ agent: 'node', state: 'open', pid: null \}$/);
    await agent.close();
    assert.match(inspect(agent), /state: 'closed'/);
  }));

test("names of options are checked before values", async () => {
  const wrong = [
    () => createSession({ model: 3, workdir: "." }),
    () => createSession({ signal: 3, workdir: "." }),
    () => prompt(3, { workdir: "." }).result(),
    () => withSession(HELLO, {}, (session) => session.prompt(3, { workdir: "." }).result()),
    async () => runBatch(3, { workdir: "." }),
    async () => runBatch(["a"], { concurrency: "x", workdir: "." }),
  ];
  for (const call of wrong) await assert.rejects(call, (error) => error instanceof InvalidOption && error.option === "workdir");
  assert.throws(() => files(".", { writ: true }), (error) => error.option === "writ");
  assert.throws(() => terminals(".", { timout: 1 }), (error) => error.option === "timout");
});

test("hooks are checked where they are made", () => {
  const handler = () => "allow";
  for (const [given, text] of [
    [new Map(), /got a Map/],
    [{ event: "Stop", handlr: handler }, /`handlr`/],
    [{ event: "Stop", callback: handler }, /did you mean `handler`/],
    [{ event: "Stop", handler: 3 }, /got a number/],
    [{ handler }, /needs an `event`/],
  ]) {
    for (const make of [hook, (definition) => new Hook(definition)]) {
      assert.throws(() => make(given), (error) => {
        assert.match(error.stack.split("\n").find((line) => line.startsWith("    at ")), /misuse\.test\.mjs/);
        return error instanceof InvalidOption && text.test(error.message);
      });
    }
  }
});

test("wrong arguments for a union are explained by the branch that fits best", async () => {
  const pet = z.union([z.object({ kind: z.literal("cat"), lives: z.number() }), z.object({ kind: z.literal("dog"), name: z.string() }), z.number()]);
  const tools = [tool({ name: "pet", description: "", parameters: z.object({ pet }), handler: () => "" })];
  for (const [given, text] of [
    [{ kind: "cat" }, "pet.lives: Invalid input: expected number, received undefined"],
    [{ kind: "dog", name: 3 }, "pet.name: Invalid input: expected string, received number"],
    ["x", "pet: Invalid input: expected object, received string or Invalid input: expected number, received string"],
  ]) {
    await withSession([[{ external_tool: { name: "pet", arguments: { pet: given } } }]], { tools }, async (session) => {
      const { toolCalls } = await session.prompt("go").result();
      assert.equal(toolCalls[0].output, `invalid arguments: ${text}`);
    });
  }
});

test("Node shows the program's line for an error that nothing catches", (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), "kimi-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, "program.mjs");
  const index = new URL("../dist/index.mjs", import.meta.url);
  for (const call of ["await createSession({ foo: 1 });", 'createSession({ executable: "/nowhere/kimi" });', "runBatch([], { foo: 1 });", "for await (const result of runBatch([3])) result;"]) {
    writeFileSync(file, `import { createSession, runBatch } from ${JSON.stringify(index.href)};\n\n${call}\n`);
    const { stderr, status } = spawnSync(process.execPath, [file], { encoding: "utf8" });
    assert.equal(status, 1);
    assert.match(stderr, /program\.mjs:3\n/, stderr);
    assert.ok(stderr.includes(call), stderr);
    assert.match(stderr, /\n {4}at .*program\.mjs:3:\d+/);
  }
});

test("a batch fails at the loop of the program", async () => {
  async function myLoop() {
    for await (const result of runBatch([{ prompt: "a", key: "x" }, { prompt: "b", key: "x" }], { executable: scriptedAgent(HELLO) })) assert.ok(result);
  }
  await assert.rejects(myLoop, (error) => /^InvalidOption: [^\n]*\n {4}at .*myLoop/.test(error.stack));
});

test("an error of a wrong job has the stack of the loop, and an error of the iterable its own", async () => {
  async function myLoop(jobs) {
    for await (const result of runBatch(jobs, { executable: scriptedAgent(HELLO) })) assert.ok(result);
  }
  for (const job of [3, null, ["x"], () => 1]) {
    await assert.rejects(myLoop([job]), (error) => /^InvalidOption: [^\n]*\n {4}at .*myLoop/.test(error.stack));
  }
  function* myJobs() {
    yield* [];
    throw new InvalidOption("own", "own");
  }
  await assert.rejects(myLoop(myJobs()), (error) => /myJobs/.test(error.stack));
});

test("what is iterable and no list of jobs is refused", async () => {
  assert.throws(() => runBatch(new Map([["a", 1]])), (error) => /got a Map, which has pairs; pass `map\.values\(\)`/.test(error.message));
  for (const [job, text] of [[Promise.resolve("a"), /got a promise; wait for it with `await`/], [new Map([["prompt", "a"]]), /got a Map; .*fromEntries/]]) {
    await assert.rejects(runBatch([job])[Symbol.asyncIterator]().next(), (error) => error instanceof InvalidOption && text.test(error.message));
  }
});

test("a batch shows whether it runs", async () => {
  const batch = runBatch(["a"], { executable: scriptedAgent(HELLO) });
  assert.equal(inspect(batch), "Batch { state: 'running' }");
  for await (const result of batch) assert.ok(result);
  assert.equal(inspect(batch), "Batch { state: 'ended' }");
});

test("a Reject without a text is refused where it is made", () => {
  for (const make of [() => reject(3), () => new Reject(3)]) {
    assert.throws(make, (error) => {
      assert.match(error.stack.split("\n").find((line) => line.startsWith("    at ")), /misuse\.test\.mjs/);
      return error instanceof InvalidOption && /needs the text that the model reads, got 3/.test(error.message);
    });
  }
});

test("an answer that contains itself is a failure that says so", () => {
  const circle = {};
  circle.self = circle;
  return withSession([[{ tool_call: { name: "Shell", approve: true } }]], { onApproval: () => circle }, async (session) => {
    const { handlerFailures } = await session.prompt("go").result();
    assert.match(handlerFailures[0].message, /a value that contains itself or is nested too deep/);
  });
});

test("an answer without a JSON form is refused, and the request still waits", () =>
  withSession([[{ question: { questions: [{ question: "Which?", header: "", options: ["A", "B"] }] } }, { text: "{{last.answers.Which?}}" }]], { onQuestion: "manual" }, async (session) => {
    const turn = session.prompt("go");
    for await (const event of turn) {
      if (event.type !== "QuestionRequest") continue;
      const text = /^invalid option `answer`: got a Map, whose content JSON would lose; .*Object\.fromEntries/;
      await assert.rejects(turn.respond(event, new Map()), (error) => error instanceof InvalidOption && text.test(error.message));
      await turn.respond(event, { "Which?": "B" });
    }
    assert.equal((await turn.result()).text, "B");
  }));

test("a rejection without its text is a failure that says what to write", () =>
  withSession([[{ tool_call: { name: "Shell", approve: true } }]], { onApproval: () => reject() }, async (session) => {
    const { handlerFailures } = await session.prompt("go").result();
    assert.match(handlerFailures[0].message, /a Reject needs the text that the model reads, got nothing; .*answer "reject"/);
  }));

test("output without a schema is refused", () => {
  for (const wrong of [undefined, 5, "Review"]) {
    assert.throws(() => output(wrong), (error) => error instanceof InvalidOption && /expects a zod schema or a JSON Schema; got/.test(error.message));
  }
});
