import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { Ajv2020 } from "ajv/dist/2020.js";
import { z } from "zod";
import { z as z3 } from "zod-3-25";
import { z as z4in3 } from "zod-3-25/v4";
import { z as z323 } from "zod-3-23";

import { createSession, InvalidOption, tool } from "../dist/index.mjs";

const context = { signal: new AbortController().signal };
const described = { name: "t", description: "A tool." };

const cases = [
  {
    name: "scalars, some optional",
    schema: (lib) =>
      lib.object({
        query: lib.string().min(1).describe("What to look for"),
        limit: lib.number().int().min(1).max(100).optional(),
        exact: lib.boolean().default(false),
      }),
    good: [[{ query: "a" }, { query: "a", exact: false }], [{ query: "a", limit: 3, exact: true }]],
    bad: [
      [{}, "query: "],
      [{ query: 1 }, "query: "],
      [{ query: "" }, "query: "],
      [{ query: "a", limit: 1.5 }, "limit: "],
      [{ query: "a", limit: 101 }, "limit: "],
      ["text", "invalid arguments: Invalid input"],
    ],
  },
  {
    name: "lists, enums and nesting",
    schema: (lib) =>
      lib.object({
        unit: lib.enum(["c", "f"]),
        places: lib.array(lib.object({ name: lib.string(), tags: lib.array(lib.string()).optional() })),
        near: lib.object({ lat: lib.number(), lon: lib.number() }).nullable(),
      }),
    good: [
      [{ unit: "c", places: [{ name: "x", tags: ["y"] }], near: null }],
      [{ unit: "f", places: [], near: { lat: 1, lon: 2 } }],
    ],
    bad: [
      [{ unit: "k", places: [], near: null }, "unit: "],
      [{ unit: "c", places: [{ name: "x" }, { name: 1 }], near: null }, "places[1].name: "],
      [{ unit: "c", places: [{ name: "x", tags: [1] }], near: null }, "places[0].tags[0]: "],
      [{ unit: "c", places: [], near: { lat: 1 } }, "near.lon: "],
      [{ unit: "c", places: [] }, "near: "],
    ],
  },
  {
    name: "unions, records and literals",
    schema: (lib) =>
      lib.object({
        where: lib.union([lib.string(), lib.object({ id: lib.number() })]),
        kind: lib.literal("fixed"),
        counts: lib.record(lib.string(), lib.number()),
      }),
    good: [[{ where: "x", kind: "fixed", counts: {} }], [{ where: { id: 1 }, kind: "fixed", counts: { a: 1 } }]],
    bad: [
      [{ where: 1, kind: "fixed", counts: {} }, "where: "],
      [{ where: "x", kind: "other", counts: {} }, "kind: "],
      [{ where: "x", kind: "fixed", counts: { a: "b" } }, "counts.a: "],
    ],
  },
];

for (const [version, lib] of [
  ["zod 4", z],
  ["zod 4 in zod 3.25", z4in3],
]) {
  describe(`a schema of ${version}`, () => {
    for (const { name, schema, good, bad } of cases) {
      test(`${name}: the JSON Schema and the check agree`, async () => {
        const made = tool({ ...described, parameters: schema(lib), handler: (args) => ({ args }) });
        assert.equal(made.parameters.type, "object");
        assert.equal(made.parameters.$schema, undefined);
        const validate = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(made.parameters);
        for (const [args, parsed = args] of good) {
          assert.ok(validate(args), JSON.stringify([args, validate.errors]));
          assert.deepEqual(await made.handler(args, context), { args: parsed });
        }
        for (const [args, path] of bad) {
          assert.ok(!validate(args), JSON.stringify(args));
          const { is_error, message } = await made.handler(args, context);
          assert.ok(is_error && message.startsWith("invalid arguments: ") && message.includes(path), message);
        }
      });
    }
  });
}

test("descriptions reach the model, and what it sends is the schema's input", async () => {
  const parameters = z.object({
    when: z
      .string()
      .describe("ISO date")
      .transform((text) => new Date(text)),
    times: z.number().default(2),
  });
  const made = tool({ ...described, timeout: 500, parameters, handler: ({ when, times }) => [when.getTime(), times] });
  assert.equal(made.timeout, 500);
  assert.deepEqual(made.parameters.properties.when, { type: "string", description: "ISO date" });
  assert.deepEqual(made.parameters.required, ["when"]);
  assert.deepEqual(await made.handler({ when: "1970-01-01T00:00:01Z" }, context), [1000, 2]);
});

test("asynchronous checks are awaited", async () => {
  const parameters = z.object({ id: z.string().refine(async (id) => Promise.resolve(id !== "b"), "is taken") });
  const made = tool({ ...described, parameters, handler: ({ id }) => id });
  assert.equal(await made.handler({ id: "a" }, context), "a");
  assert.equal((await made.handler({ id: "b" }, context)).message, "invalid arguments: id: is taken");
});

test("all faults of the arguments are named", async () => {
  const parameters = z.object({ a: z.string(), b: z.number() });
  const made = tool({ ...described, parameters, handler: () => "" });
  assert.match((await made.handler({}, context)).message, /a: .*; b: /);
});

test("a schema of zod 3 is refused, with the way out", () => {
  assert.throws(
    () => tool({ ...described, parameters: z3.object({}), handler: () => "" }),
    (error) => {
      assert.ok(error instanceof InvalidOption);
      assert.equal(error.option, "tools");
      assert.match(error.message, /tool `t`.*zod\/v4/);
      return true;
    },
  );
});

test("descriptions of a schema of zod 4 in zod 3.25 reach the model", () => {
  const parameters = z4in3.object({ a: z4in3.string().describe("the letter") });
  const made = tool({ ...described, parameters, handler: () => "" });
  assert.equal(made.parameters.properties.a.description, "the letter");
});

test("a schema of zod 3.23 is recognised, and the error says which version is needed", () => {
  const parameters = z323.object({ a: z323.string() });
  const wrong = { name: "InvalidOption", option: "tools", message: /tool `t`.*zod 3\.23 or older.*zod 4.*zod\/v4/ };
  assert.throws(() => tool({ ...described, parameters, handler: () => "" }), wrong);
});

test("a valibot schema without its converter is refused, with the way out", () => {
  const parameters = { "~standard": { version: 1, vendor: "valibot", validate: (value) => ({ value }) } };
  const wrong = { name: "InvalidOption", message: /`toStandardJsonSchema\(schema\)` from "@valibot\/to-json-schema"/ };
  assert.throws(() => tool({ ...described, parameters, handler: () => "" }), wrong);
});

const parameters = { type: "object" };
const handler = () => "";
for (const [problem, definition] of [
  [/tool `t` has an unknown key `execute`; did you mean `handler`\?/, { ...described, parameters, execute: handler }],
  [/unknown key `inputSchema`; did you mean `parameters`\?/, { ...described, inputSchema: parameters, handler }],
  [/unknown key `strict`; expected only name, description/, { ...described, parameters, handler, strict: true }],
  [/tool `t` needs a `handler`, the function to call; got nothing/, { ...described, parameters }],
  [/needs a `handler`.*got a string/, { ...described, parameters, handler: "f" }],
  [/tool `t` needs `parameters`.*got nothing.*properties: \{\}/, { ...described, handler }],
  [/needs `parameters`.*got an array/, { ...described, parameters: [], handler }],
  [/a schema object of an unknown library/, { ...described, parameters: { validate: () => true }, handler }],
  [/plain object with a schema in `x`.*wrap it in z\.object\(/, { ...described, parameters: { x: z.string() }, handler }],
  [/plain object with a schema in `x`.*wrap it in z\.object\(/, { ...described, parameters: { x: z323.string() }, handler }],
  [/tool `t` needs a `description`.*got nothing/, { name: "t", parameters, handler }],
  [/the `name` of (a tool|tools\[0\]) must have 1 to 64 letters.*got nothing/, { description: "", parameters, handler }],
  [/the `name` of .* must have.*got "a b"/, { name: "a b", description: "", parameters, handler }],
  [/`timeout` of tool `t` must be a number of milliseconds above 0; got -1/, { ...described, parameters, handler, timeout: -1 }],
  [/`timeout` of tool `t`.*got "5s"/, { ...described, parameters, handler, timeout: "5s" }],
  [/expected an object with name, description, parameters, handler; got nothing/, undefined],
]) {
  test(`a wrong definition is refused when the tool is made: ${problem.source}`, async () => {
    const wrong = { name: "InvalidOption", option: "tools", message: problem };
    assert.throws(() => tool(definition), wrong);
    await assert.rejects(createSession({ executable: "/no/such/agent", tools: [definition] }), wrong);
  });
}

test("a schema that is no object, or has no JSON Schema, is refused", () => {
  assert.throws(() => tool({ ...described, parameters: z.string(), handler: () => "" }), /must be an object/);
  const parameters = z.object({ big: z.bigint() });
  assert.throws(() => tool({ ...described, parameters, handler: () => "" }), /cannot become JSON Schema/);
});

test("schema of another library is accepted if it converts to JSON Schema", async () => {
  const standard = {
    version: 1,
    vendor: "other",
    validate: (value) => ("a" in value ? { value } : { issues: [{ message: "missing", path: [{ key: "a" }] }] }),
  };
  const parameters = { "~standard": { ...standard, jsonSchema: { input: () => ({ type: "object" }) } } };
  const made = tool({ ...described, parameters, handler: (args) => args.a });
  assert.equal(await made.handler({ a: 1 }, context), 1);
  assert.equal((await made.handler({}, context)).message, "invalid arguments: a: missing");
  const plain = { ...described, parameters: { "~standard": standard }, handler: () => "" };
  assert.throws(() => tool(plain), /other offers/);
});

test("a JSON Schema is passed on, and arguments come as they are", async () => {
  const parameters = { type: "object", properties: { a: { type: "integer" } }, required: ["a"] };
  const made = tool({ ...described, parameters, handler: (args) => args });
  assert.equal(made.parameters, parameters);
  assert.deepEqual(await made.handler({ b: 1 }, context), { b: 1 });
});
