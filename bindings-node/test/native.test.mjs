import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";

import { z } from "zod";

import { createSession, prompt, tool } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

const texts = (events) =>
  events.flatMap(({ type, payload }) => (type === "ContentPart" && payload.type === "text" ? [payload.text] : []));

async function collect(iterable) {
  const found = [];
  for await (const item of iterable) found.push(item);
  return found;
}

async function withSession(script, options, use) {
  const session = await createSession({ executable: scriptedAgent(script), ...options });
  try {
    return await use(session);
  } finally {
    await session.close();
    assert.equal(session.state, "closed");
  }
}

test("texts are what the agent wrote, in any script and of any length", async () => {
  const words = Array.from({ length: 300 }, (_, n) => ["plain", "naïve", "字", "👋🏽", "", "x".repeat(255 + (n % 3))][n % 6] + n);
  const turn = [{ text: words, bulk: true }];
  await withSession([turn, turn], {}, async (session) => {
    assert.deepEqual(texts(await collect(session.prompt("hi"))), words);
    const bySteps = [];
    for await (const step of session.prompt("again").steps) bySteps.push(...texts(await collect(step)));
    assert.deepEqual(bySteps, words);
  });
});

test("a handler can't wait for the turn that waits for it", async () => {
  const script = [[{ tool_call: { name: "Shell", approve: { action: "run", description: "it" } } }, { text: "Done" }]];
  await withSession([[{ text: "inner" }], [{ text: "inner" }]], {}, async (helper) => {
    let turn;
    let later;
    const onApproval = async () => {
      const refused = { name: "TurnInProgress", message: /the turn waits for this handler/ };
      await assert.rejects(turn.result(), refused);
      // Another session's turn is another matter; what the handler has started counts as the handler.
      assert.equal((await helper.prompt("Help").result()).text, "inner");
      await assert.rejects(turn.result(), refused);
      // Once it has answered, nothing is in the way.
      const answered = new Promise((resolve) => (answer = resolve));
      later = answered.then(() => turn.result());
      return "approve";
    };
    let answer;
    await withSession(script, { onApproval }, async (session) => {
      turn = session.prompt("go");
      await collect(turn);
      answer();
      assert.equal((await later).text, "Done");
      assert.equal((await turn.result()).text, "Done");
    });
  });
});

test("a turn is read by event or by step", async () => {
  await withSession([[{ text: "a" }], [{ text: "b" }]], {}, async (session) => {
    const one = session.prompt("hi");
    await one.next();
    await assert.rejects(one.steps.next(), { name: "InvalidOption", option: "turn", message: /by event and can't be .* by step/ });
    assert.equal((await one.next()).value.type, "StepBegin");
    await one.result();
    const other = session.prompt("hi");
    await other.steps.next();
    await assert.rejects(other.next(), { name: "InvalidOption", option: "turn", message: /by step and can't be .* by event/ });
  });
});

test("wrong argument is named", async () => {
  await withSession([[]], {}, async (session) => {
    const wrong = { name: "InvalidOption", option: "on" };
    await assert.rejects(session.setPlanMode("yes"), { ...wrong, message: "invalid option `on`: expected a boolean, got text" });
    await assert.rejects(session.setPlanMode(), { ...wrong, message: /undefined/ });
    await assert.rejects(session.setPlanMode(1n), { ...wrong, message: /BigInt/ });
  });
});

test("an option that nests too deep is named", async () => {
  const nested = (depth) => (depth === 0 ? {} : { a: nested(depth - 1) });
  for (const depth of [120, 300]) {
    await assert.rejects(createSession({ model: "x", config: nested(depth) }), {
      name: "InvalidOption",
      option: "config",
      message: "invalid option `config`: nested deeper than 120 levels",
    });
  }
  await withSession([[{ text: "fine" }]], { config: nested(119) }, async (session) => {
    assert.equal((await session.prompt("hi").result()).text, "fine");
  });
});

test("tool with a schema is called, and names invalid arguments to the model", async () => {
  const handler = ({ a, b }) => ({ sum: a + b });
  const add = tool({ name: "add", description: "", parameters: z.object({ a: z.number(), b: z.number() }), handler });
  const call = (args) => [{ external_tool: { id: "t", name: "add", arguments: args } }, { text: "{{last.output}}" }];
  await withSession([call({ a: 1, b: 2 }), call({ a: 1, b: "x" })], { tools: [add] }, async (session) => {
    assert.deepEqual(session.externalTools, { accepted: ["add"], rejected: [] });
    assert.equal((await session.prompt("go").result()).text, '{"sum":3}');
    const events = await collect(session.prompt("go"));
    const { return_value } = events.find(({ type }) => type === "ToolResult").payload;
    assert.equal(return_value.is_error, true);
    assert.match(return_value.message, /^invalid arguments: b: /);
    assert.equal(events.some(({ type }) => type === "HandlerFailed"), false);
  });
});

test("any result of a tool reaches the model", async () => {
  const nested = (depth) => (depth === 0 ? "core" : [nested(depth - 1)]);
  const circular = {};
  circular.itself = circular;
  const given = [
    ["\ud800x", "\ufffdx"],
    [{ "\udfff": ["\\ud800", "\\\ud800", "\u{1f600}"] }, JSON.stringify({ "\ufffd": ["\\ud800", "\\\ufffd", "\u{1f600}"] })],
    [nested(300), /cannot be sent/],
    [circular, /cannot be sent/],
    [1n, /cannot be sent/],
    [() => "x", /cannot be sent/],
    [{ then: () => assert.fail("from a thenable") }, /from a thenable/],
    [undefined, ""],
    ["x".repeat(1 << 20), "x".repeat(1 << 20)],
  ];
  let round = 0;
  const handler = () => given[round][0];
  const tools = [{ name: "t", description: "", parameters: { type: "object" }, handler }];
  const script = given.map(() => [{ external_tool: { id: "t", name: "t", arguments: {} } }]);
  await withSession(script, { tools }, async (session) => {
    for (; round < given.length; round += 1) {
      const events = await collect(session.prompt("go"));
      const { is_error, output, message } = events.find(({ type }) => type === "ToolResult").payload.return_value;
      const expected = given[round][1];
      assert.equal(is_error, typeof expected !== "string");
      if (is_error) assert.match(message, expected);
      else assert.equal(output, expected);
      assert.equal(events.some(({ type }) => type === "HandlerFailed"), is_error);
    }
  });
});

test("invalid prompt is refused, and half a character is replaced", async () => {
  await withSession([[{ text: "{{prompt}}" }]], {}, async (session) => {
    for (const content of [undefined, null, 5, {}, 1n, () => "x", [{ type: "text" }]]) {
      await assert.rejects(session.prompt(content).result(), { code: "invalid_option", option: "content" });
    }
    assert.equal((await session.prompt("\ud83d!").result()).text, "\ufffd!");
  });
});

test("an AbortSignal cancels, and loses its listener", async () => {
  const controller = new AbortController();
  await withSession([[{ text: "a" }, { wait_cancel: true }]], {}, async (session) => {
    const turn = session.prompt("hi", { signal: controller.signal });
    for await (const event of turn) if (event.type === "ContentPart") controller.abort();
    assert.equal((await turn.result()).status, "cancelled");
    assert.equal(getEventListeners(controller.signal, "abort").length, 0);
  });
});

test("wrong options are named", async () => {
  await assert.rejects(createSession({ wrokDir: "." }), { option: "wrokDir", message: /workDir/ });
  await assert.rejects(createSession({ onEvent: 1 }), { option: "onEvent" });
  await assert.rejects(createSession({ cancelTimeout: "soon" }), { option: "cancelTimeout" });
  await assert.rejects(createSession({ tools: [{ name: "t", handler: () => "" }] }), { option: "tools" });
  const hooks = [{ event: "Stop", handler: () => null, onError: "x" }];
  await assert.rejects(prompt("hi", { hooks }).result(), { option: "hooks" });
});

test("unrepresentable JSON arrives in turns and outside of turns", async () => {
  const event = (type, payload) => ({
    raw: `{"jsonrpc":"2.0","method":"event","params":{"type":"${type}","payload":${payload}}}`,
  });
  const odd = [
    event("HalfAPair", '{"a":"\\ud83d"}'),
    event("Beyond", '{"a":1e999}'),
    event("Deep", '{"d":'.repeat(95) + "1" + "}".repeat(95)),
    event("TooDeep", '{"d":'.repeat(200) + "1" + "}".repeat(200)),
  ];
  const outside = [];
  let resolve;
  const all = new Promise((done) => (resolve = done));
  const onEvent = (event) => {
    outside.push(event);
    if (outside.length === odd.length) resolve();
  };
  await withSession([[...odd, { text: "on" }, { end: "finished" }, ...odd]], { onEvent }, async (session) => {
    const events = (await collect(session.prompt("hi"))).filter(({ type }) => type === "UnknownEvent");
    // An idle session does not keep the process alive, and a turn would take the events for its own.
    const alive = setInterval(() => undefined, 60_000);
    await all.finally(() => clearInterval(alive));
    for (const found of [events, outside]) {
      const [half, beyond, deep, tooDeep] = found.map(({ payload }) => payload);
      assert.deepEqual(half, { type: "HalfAPair", payload: { a: "\ufffd" } });
      assert.equal(beyond.payload.a, Infinity);
      assert.equal(JSON.stringify(deep.payload).length, 6 * 95 + 1);
      // What is nested too deeply is a text with its JSON.
      assert.equal(JSON.stringify(tooDeep.payload).split("d").length, 200 + 1);
    }
  });
});

test("a session's status is the StatusUpdate itself", async () => {
  await withSession([[{ status: { context_usage: 0.5 } }]], {}, async (session) => {
    await session.prompt("hi").result();
    await session.setPlanMode(true);
    assert.equal(session.status.plan_mode, true);
    assert.equal(session.status.context_usage, 0.5);
    assert.equal("payload" in session.status, false);
  });
});
