/** Values of the program that throw when they are looked at, or have no text: thrown errors, answers, options. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { createSession, files, image, InvalidOption, output, Policy, runBatch, setLogger, terminals, tool } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

const refuse = () => {
  throw new Error("it refuses");
};
const cyclic = {};
cyclic.self = cyclic;
const traps = Object.fromEntries(Reflect.ownKeys(Reflect).filter((name) => typeof name === "string").map((name) => [name, refuse]));
const revoked = (target) => {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
};

/** Values that are no text, or refuse to become one. */
const VALUES = {
  bigint: 1n,
  number: 404,
  null: null,
  undefined: undefined,
  object: { code: 1 },
  symbol: Symbol("q"),
  cyclic,
  "null prototype": Object.create(null),
  "throwing toString": { toString: refuse, toJSON: refuse, [Symbol.toPrimitive]: refuse },
  proxy: new Proxy({}, traps),
  "revoked proxy": revoked({}),
  "long text": "x".repeat(10 << 20),
  "half of a surrogate pair": "\ud800",
};

/** Everything that a handler throws in these tests, by a name. */
function thrown() {
  const made = Object.entries(VALUES).map(([name, value]) => [name, value]);
  for (const property of ["name", "message", "stack", "cause", "code", "constructor"]) {
    for (const [name, value] of Object.entries(VALUES)) {
      made.push([`${property}: ${name}`, Object.defineProperty(new Error("boom"), property, { value })]);
    }
    made.push([`${property}: throwing getter`, Object.defineProperty(new Error("boom"), property, { get: refuse })]);
  }
  made.push(["proxy of an error", new Proxy(new Error("boom"), traps)], ["revoked proxy of an error", revoked(new Error("boom"))]);
  return made;
}

/** Answers that throw while they are awaited or encoded. */
const ANSWERS = {
  ...VALUES,
  "throwing then": Object.defineProperty({}, "then", { get: refuse }),
  "promise with its own then": Object.assign(Promise.resolve("approve"), { then: refuse }),
  "promise with a throwing constructor": Object.defineProperty(Promise.resolve("approve"), "constructor", { get: refuse }),
  "then that settles twice": { then: (resolve, reject) => (reject(VALUES.proxy), resolve("approve")) },
  "getter in the answer": { decision: "approve", get feedback() { return refuse(); } },
};

const ASK = { tool_call: { name: "Shell", arguments: { command: "x" }, approve: true } };
const CALL = { external_tool: { name: "work", arguments: {} } };

test("every value that a handler throws leads to the default answer, and the session lives", async () => {
  setLogger(null);
  let current;
  const fail = () => {
    throw current;
  };
  const turns = thrown().flatMap(() => [[ASK, CALL, { text: "ok" }]]);
  const session = await createSession({
    executable: scriptedAgent([...turns, ...turns]),
    onApproval: () => fail(),
    onEvent: () => fail(),
    tools: [{ name: "work", description: "works", parameters: { type: "object" }, handler: async () => fail() }],
  });
  for (const warns of [false, true]) {
    // Undefined restores the warnings of the process, which show the stack.
    if (warns) setLogger(refuse, "trace");
    for (const [name, error] of thrown()) {
      current = error;
      const result = await session.prompt("go").result();
      assert.equal(result.status, "finished", name);
      const failures = result.handlerFailures.filter(({ handler }) => handler === "approval");
      assert.equal(failures.length, 1, name);
      assert.ok(failures[0].message.length <= 70_000, name);
    }
  }
  await session.close();
  setLogger(null);
});

test("every value that a handler returns leads to an answer, and the session lives", async () => {
  setLogger(null);
  let current;
  const names = Object.keys(ANSWERS);
  const session = await createSession({
    executable: scriptedAgent(names.map(() => [ASK, CALL, { text: "ok" }])),
    onApproval: () => current,
    onEvent: () => current,
    tools: [{ name: "work", description: "works", parameters: { type: "object" }, handler: () => current }],
  });
  for (const name of names) {
    current = ANSWERS[name];
    const result = await session.prompt("go").result();
    assert.equal(result.status, "finished", name);
  }
  await session.close();
});

test("every value that a source of jobs or a progress handler throws ends only its batch", async () => {
  setLogger(null);
  for (const [name, error] of thrown()) {
    const fail = () => {
      throw error;
    };
    const jobs = { [Symbol.asyncIterator]: () => ({ next: fail }) };
    const batch = runBatch(jobs, { executable: scriptedAgent([[{ text: "ok" }]]), onProgress: fail });
    await assert.rejects(async () => {
      for await (const _ of batch);
    }, undefined, name);
  }
});

test("every value of an option works or is an InvalidOption", async () => {
  const executable = scriptedAgent([[{ text: "ok" }]]);
  const hostile = { ...VALUES, getter: { get x() { return refuse(); } }, "array of proxies": [VALUES.proxy, VALUES["revoked proxy"]] };
  const names = ["workDir", "env", "tools", "hooks", "output", "telemetry", "policy", "mcpConfigs", "onApproval", "onTerminal", "turnTimeout", "redact", "record", "config", "signal"];
  const attempts = [];
  for (const [kind, value] of Object.entries(hostile)) {
    if (value === undefined || value === null || typeof value === "string") continue;
    for (const name of names) {
      // These two values fit.
      if (name === "turnTimeout" && kind === "number") continue;
      attempts.push([`${name}: ${kind}`, () => createSession({ executable, [name]: value })]);
    }
    // An object without options is valid.
    if (kind !== "null prototype") attempts.push([`options: ${kind}`, () => createSession(value)]);
    attempts.push([`tool: ${kind}`, async () => tool(value)], [`image: ${kind}`, async () => image(value)]);
    attempts.push([`files: ${kind}`, async () => files(value)], [`terminals: ${kind}`, async () => terminals("/tmp", value)]);
    attempts.push([`policy: ${kind}`, async () => new Policy(value)], [`output: ${kind}`, async () => output({}, value)]);
    attempts.push([`logger: ${kind}`, async () => setLogger(value)]);
  }
  for (const name of names) {
    const options = Object.defineProperty({ executable }, name, { get: refuse, enumerable: true });
    attempts.push([`${name}: throwing getter`, () => createSession(options)]);
  }
  for (const [name, attempt] of attempts) {
    let session;
    try {
      session = await attempt();
    } catch (error) {
      assert.ok(error instanceof InvalidOption, `${name}: ${String(error)}`);
    }
    await session?.close?.();
  }
});
