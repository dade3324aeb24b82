// Structured output: schemas of libraries, their checks and conversions, and the error of a turn without a value.

import assert from "node:assert/strict";
import { test } from "node:test";

import { z } from "zod";
import { z as z3 } from "zod-3-25";
import { z as z4in3 } from "zod-3-25/v4";
import { z as z323 } from "zod-3-23";

import { createSession, InvalidOption, openAgent, output, OutputInvalid, prompt } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

const call = (value, name = "final_result") => ({ external_tool: { name, arguments: value } });
const oneShot = (script, asked) => prompt("Go", { executable: scriptedAgent(script), output: asked }).result();

const SCHEMA = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };

/** A Standard Schema of no library. */
const standard = (validate) => ({ "~standard": { version: 1, vendor: "test", validate } });

for (const [version, lib] of [
  ["zod 4", z],
  ["zod 4 of 3.25", z4in3],
]) {
  test(`${version} converts value`, async () => {
    const schema = lib.object({ at: lib.string().transform((text) => new Date(text)), n: lib.number().default(7) });
    const result = await oneShot([[call({ at: "2026-01-02" })]], schema);
    assert.deepEqual(result.output, { at: new Date("2026-01-02"), n: 7 });
    assert.equal(result.raiseForStatus(), result);
  });

  test(`${version} returns issues to model`, async () => {
    const even = lib.number().refine((n) => n % 2 === 0, "expected an even number");
    const schema = lib.object({ "a/b~c": lib.array(lib.object({ n: even })) });
    const value = (n) => call({ "a/b~c": [{ n: 2 }, { n }] });
    const result = await oneShot([[value(1), { text: "{{last.message}}" }, value(4)]], schema);
    assert.match(result.text, /- \/a~1b~0c\/1\/n: expected an even number\n/);
    assert.deepEqual(result.output, { "a/b~c": [{ n: 2 }, { n: 4 }] });
  });
}

test("asynchronous check is awaited", async () => {
  const free = z.string().refine(async (name) => Promise.resolve(name !== "taken"), "the name is taken");
  const result = await oneShot([[call({ result: "taken" }), { text: "{{last.message}}" }, call({ result: "free" })]], free);
  assert.match(result.text, /the name is taken/);
  assert.equal(result.output, "free");
});

test("JSON Schema returns plain value", async () => {
  assert.deepEqual((await oneShot([[call({ n: 1 })]], SCHEMA)).output, { n: 1 });
  const named = output(SCHEMA, { name: "submit", description: "A count.", mode: "tool", retries: 0 });
  assert.deepEqual((await oneShot([[call({ n: 2 }, "submit")]], named)).output, { n: 2 });
});

test("result without option has no output", async () => {
  assert.equal((await oneShot([[{ text: "1" }]], undefined)).output, undefined);
  assert.equal((await oneShot([[{ text: "1" }]], null)).output, undefined);
});

test("null is a value", async () => {
  const result = await oneShot([[{ text: "null" }]], output(z.number().nullable(), { mode: "text" }));
  assert.equal(result.output, null);
});

test("zod 3 validates beside JSON Schema", async () => {
  const schema = z3.object({ n: z3.number().transform(String) });
  const result = await oneShot([[call({ n: 1 })]], output(SCHEMA, { validate: schema }));
  assert.deepEqual(result.output, { n: "1" });
});

test("thrown error is a handler failure", async (t) => {
  t.mock.method(process, "emitWarning", () => undefined);
  let calls = 0;
  const failing = standard((value) => {
    calls += 1;
    if (calls === 1) throw new Error("no database");
    return { value };
  });
  const script = [[call({ n: 1 }), { text: "{{last.message}}" }, call({ n: 2 })]];
  const result = await oneShot(script, output(SCHEMA, { validate: failing }));
  assert.match(result.text, /the check of the value failed: no database/);
  const [failure, ...others] = result.handlerFailures;
  assert.deepEqual([failure.handler, failure.tool_call.name, failure.message], ["output", "final_result", "no database"]);
  assert.deepEqual(others, []);
  assert.deepEqual(result.output, { n: 2 });
});

test("failed check is the cause", async (t) => {
  t.mock.method(process, "emitWarning", () => undefined);
  const thrown = new Error("no database");
  const failing = standard(() => {
    throw thrown;
  });
  const isMeant = (error) => error instanceof OutputInvalid && error.cause === thrown;
  await assert.rejects(oneShot([[call({ n: 1 })]], output(SCHEMA, { validate: failing, retries: 0 })), isMeant);
});

test("each turn keeps its own value", async () => {
  const executable = scriptedAgent([[call({ n: 1 })], [call({ n: 2 })], [{ text: "true" }]]);
  const session = await createSession({ executable, output: z.object({ n: z.number().transform((n) => [n]) }) });
  const first = session.prompt("one");
  await first.result();
  const turns = [first, session.prompt("two")];
  const results = await Promise.all(turns.map((turn) => turn.result()));
  assert.deepEqual(results.map((result) => result.output), [{ n: [1] }, { n: [2] }]);
  const own = await session.prompt("three", { output: z.boolean().transform(String) }).result();
  assert.equal(own.output, "true");
  assert.equal((await turns[0].result()).output, results[0].output);
  await session.close();
});

test("refused prompt leaves running turn alone", async () => {
  const executable = scriptedAgent([[call({ n: 1 })]]);
  const session = await createSession({ executable, output: z.object({ n: z.number().transform((n) => [n]) }) });
  const turn = session.prompt("one");
  await assert.rejects(session.prompt("two").result(), { code: "turn_in_progress" });
  assert.deepEqual((await turn.result()).output, { n: [1] });
  await session.close();
});

test("session of agent has output", async () => {
  const agent = await openAgent({ executable: scriptedAgent([[call({ n: 1 })]]) });
  const session = await agent.createSession({ output: z.object({ n: z.number().transform(String) }) });
  assert.deepEqual((await session.prompt("Go").result()).output, { n: "1" });
  await agent.close();
});

test("turn without valid value fails", async () => {
  const script = [[{ text: "one" }], [{ text: "two" }]];
  const failing = oneShot(script, output(z.object({ n: z.number() }), { retries: 1 }));
  await assert.rejects(failing, (error) => {
    assert.ok(error instanceof OutputInvalid);
    assert.deepEqual([error.code, error.attempts, error.text, error.retryable], ["output_invalid", 2, "two", false]);
    const messages = ["the tool `final_result` was not called", "the answer has no complete JSON value"];
    assert.deepEqual(error.errors, messages.map((message) => ({ pointer: "", message })));
    assert.deepEqual([error.result.status, error.result.text, error.result.output], ["finished", "two", undefined]);
    return true;
  });
});

test("unusual keys keep value", async () => {
  const schema = z.record(z.string(), z.number().transform(String));
  const value = { b: 1, 10: 1.5, 2: -0, __proto_: 1e300 };
  const result = await oneShot([[{ text: JSON.stringify(value) }]], output(schema, { mode: "text" }));
  assert.deepEqual(Object.keys(result.output).sort(), ["10", "2", "__proto_", "b"]);
  assert.equal(result.output.b, "1");
});

test("formats of zod are accepted", async () => {
  const formats = ["email", "url", "uuid", "ipv4", "ipv6", "cidrv4", "cidrv6", "emoji", "nanoid", "cuid", "cuid2", "ulid"];
  const iso = ["date", "time", "datetime", "duration"];
  const more = ["base64", "base64url", "e164", "jwt", "guid", "xid", "ksuid", "hostname", "mac"];
  const properties = [...formats, ...more].filter((name) => name in z).map((name) => [name, z[name]()]);
  for (const name of iso) properties.push([name, z.iso[name]()]);
  properties.push(["ahead", z.string().regex(/^(?=a)./)], ["again", z.string().regex(/(a)\1/)]);
  const schema = z.object(Object.fromEntries(properties)).partial();
  const value = { email: "a@b.org", date: "2026-01-02", ahead: "a" };
  const result = await oneShot([[call({ email: "a@" }), { text: "{{last.message}}" }, call(value)]], schema);
  assert.match(result.text, /\/email: /);
  assert.deepEqual(result.output, value);
});

test("wrong schema is refused", async () => {
  const refused = (asked, message) => {
    const isMeant = (error) => error instanceof InvalidOption && error.option === "output" && message.test(error.message);
    return assert.rejects(oneShot([[]], asked), isMeant, String(message));
  };
  await refused("review", /expected a zod schema, a JSON Schema, or `output\(.*got "review"/);
  await refused([SCHEMA], /got an array/);
  await refused(class Review {}, /got a function/);
  await refused(z3.object({}), /zod 3 have no conversion.*output\(jsonSchema, { validate: schema }\)/);
  await refused(z323.object({}), /zod 3\.23 or older/);
  await refused({ n: z.number() }, /plain object with a schema in `n`/);
  await refused({ schema: z.number() }, /write `output\(schema, { name }\)`/);
  await refused(z.object({ at: z.date() }), /cannot become JSON Schema/);
  await refused({ type: "text" }, /the schema is not a JSON Schema: at `\/type`/);
  await refused(output(SCHEMA, { mode: "json" }), /`mode`: expected "auto", "tool" or "text"/);
  await refused(output(SCHEMA, { name: "a b" }), /a tool's name is/);
  await refused(output(SCHEMA, { retries: 2 ** 32 }), /a whole number from 0 to 4294967295, got 4294967296/);
  await refused(output(SCHEMA, { retries: Infinity }), /Infinity is not a finite number/);
});

test("wrong details are refused", () => {
  const refused = (given, message, schema = SCHEMA) =>
    assert.throws(() => output(schema, given), (error) => error instanceof InvalidOption && message.test(error.message));
  refused({ retry: 1 }, /`output\(\)` has no option `retry`; it has name, description, mode, retries, validate/);
  refused({ check: 1 }, /has no option `check`/);
  refused("submit", /expects an object of options.*got "submit"/);
  refused({ validate: () => true }, /`validate` must be a Standard Schema.*got a function/);
  refused({ validate: z.number() }, /`validate` is for a JSON Schema/, z.number());
});
