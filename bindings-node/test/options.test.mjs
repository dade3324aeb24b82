import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";

import { z } from "zod";

import { createSession, Hook, InvalidOption } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";
import optionsModule from "../dist/options.js";

const { prepareOptions } = optionsModule;

const prepare = (options) => {
  const { optionsJson, ...rest } = prepareOptions(options);
  return { options: JSON.parse(optionsJson), ...rest };
};

const handler = () => undefined;

test("an unknown key of a hook is refused, with a suggestion", async () => {
  const refused = async (key, message) => {
    const hook = { event: "Stop", handler: () => null, [key]: "block" };
    const wrong = { name: "InvalidOption", option: "hooks", message };
    await assert.rejects(createSession({ executable: "/no/such/agent", hooks: [hook] }), wrong);
  };
  await refused("on_error", /the hook on `Stop` has an unknown key `on_error`; did you mean `onError`\?/);
  await refused("strict", /unknown key `strict`; expected only event, matcher/);
});

test("single_tool_or_hook_is_refused_with_the_form_of_a_list", () => {
  for (const [option, value] of [
    ["tools", { name: "t", description: "d", parameters: { type: "object" }, handler }],
    ["hooks", { event: "Stop", handler }],
  ]) {
    const message = new RegExp(`got an object; put it into a list: \`${option}: \\[`);
    assert.throws(() => prepare({ [option]: value }), { name: "InvalidOption", option, message });
  }
});

test("file URL as the value of a path is its path, and another URL is refused", () => {
  for (const option of ["record", "workDir", "configFile", "policy", "executable"]) {
    const file = join(tmpdir(), "a b.jsonl");
    assert.deepEqual(prepare({ [option]: pathToFileURL(file) }).options, { [option]: file });
    const message = /expected a path or a file URL; got "https:/;
    assert.throws(() => prepare({ [option]: new URL("https://example.org/") }), { name: "InvalidOption", option, message });
  }
});

test("regular expressions are taken as patterns", () => {
  const { options } = prepare({ redact: [/ab+/i, /c/gu, "d"], hooks: [{ event: "Stop", matcher: /^x/ms, handler }] });
  assert.deepEqual(options.redact, ["(?i)ab+", "c", "d"]);
  assert.equal(options.hooks[0].matcher, "(?ms)^x");
  assert.throws(() => prepare({ redact: [/a/y] }), { option: "redact", message: /the flag `y` of \/a\/y is not supported/ });
  assert.throws(() => prepare({ config: { a: /b/ } }), { option: "config", message: /a RegExp/ });
});

test("options that are set are passed on under their names", () => {
  assert.deepEqual(prepare({}).options, {});
  assert.deepEqual(prepare({ thinking: undefined, model: "k" }).options, { model: "k" });
  const options = {
    workDir: ".",
    thinking: false,
    mcpConfigs: [{ mcpServers: {} }],
    env: { A: "1", B: undefined },
    executable: ["kimi", "x"],
    maxStepsPerTurn: 3,
    idleTimeout: 1500,
    maxLineBytes: 1024,
  };
  assert.deepEqual(prepare(options).options, {
    workDir: ".",
    thinking: false,
    mcpConfigs: [{ mcpServers: {} }],
    env: { A: "1", B: null },
    executable: ["kimi", "x"],
    maxStepsPerTurn: 3,
    idleTimeout: 1500,
    maxLineBytes: 1024,
  });
});

test("variables of the process are passed on, and other objects are refused", () => {
  const own = { ...process.env };
  assert.deepEqual(prepare({ env: process.env }).options, { env: own });
  const mcpConfigs = [{ mcpServers: { a: { command: "a", env: process.env } } }];
  assert.deepEqual(prepare({ mcpConfigs }).options.mcpConfigs[0].mcpServers.a.env, own);
  class Settings {
    A = "1";
    B = undefined;
  }
  assert.deepEqual(prepare({ env: new Settings() }).options, { env: { A: "1", B: null } });
  for (const [env, message] of [
    [new (class Empty {})(), /`env`: expected plain objects, got an instance of Empty/],
    [new (class Nested { a = {}; })(), /`env`: expected plain objects, got an instance of Nested/],
    [new Headers({ A: "1" }), /`env`: expected plain objects, got a Headers; convert it with `Object.fromEntries/],
  ]) assert.throws(() => prepare({ env }), { option: "env", message });
});

test("element of a list that is not a tool or hook is refused with its place", () => {
  const tools = [{ name: "t", description: "d", parameters: { type: "object" }, handler }, () => 1];
  assert.throws(() => prepare({ tools }), { option: "tools", message: /tools\[1\]: expected an object with name.*got a function; make it with `tool/ });
  assert.throws(() => prepare({ hooks: [{ handler }] }), { option: "hooks", message: /hooks\[0\] needs an `event`/ });
});

test("handlers are announced, not passed", () => {
  const { options, callbacks, functions } = prepare({
    onApproval: handler,
    onQuestion: "manual",
    onEvent: handler,
    onStderr: handler,
    tools: [{ name: "t", description: "d", parameters: { type: "object" }, handler, timeout: 10 }],
    hooks: [
      { event: "Stop", handler },
      new Hook({ event: "PreToolUse", matcher: "Sh", handler, timeout: 5, onError: "block" }),
    ],
  });
  assert.deepEqual(callbacks, {
    onApproval: true,
    onQuestion: false,
    onEvent: true,
    onStderr: true,
    onReadFile: false,
    onWriteFile: false,
    onTerminal: false,
  });
  assert.deepEqual(options, {
    onQuestion: "manual",
    tools: [{ name: "t", description: "d", parameters: { type: "object" }, timeout: 10 }],
    hooks: [{ event: "Stop" }, { event: "PreToolUse", matcher: "Sh", timeout: 5, onError: "block" }],
  });
  assert.deepEqual(Object.keys(functions).sort(), ["approval", "event", "hooks", "stderr", "tools"]);
});

test("a plain tool may have a zod schema", async () => {
  const tools = [{ name: "t", description: "d", parameters: z.object({ a: z.number() }), handler: ({ a }) => a + 1 }];
  const { options, functions } = prepare({ tools });
  assert.deepEqual(options.tools[0].parameters.properties, { a: { type: "number" } });
  assert.equal(await functions.tools[0].handler({ a: 1 }), 2);
});

test("handler that is not a function is refused by the core", () => {
  const options = { onApproval: "always", onEvent: 1, tools: {}, hooks: "x" };
  assert.deepEqual(prepare(options).options, options);
});

test("option names and types are checked first", () => {
  const wrong = (option, message) => ({ name: "InvalidOption", option, message });
  assert.throws(() => prepare({ tools: 3, onapproval: () => 1 }), wrong("onapproval", /did you mean `onApproval`/));
  assert.throws(() => prepare({ timeout: 5n }), wrong("timeout", /did you mean `turnTimeout`/));
  assert.throws(() => prepare({ idleTimeout: 5n }), wrong("idleTimeout", /expected a number of milliseconds, got a bigint/));
});

test("wrong limit keeps its spelling", async () => {
  const executable = scriptedAgent([]);
  const wrong = { name: "InvalidOption", option: "sessionBudget", message: /no limit "tool_calls"; .*`toolCalls`/ };
  await assert.rejects(createSession({ executable, sessionBudget: { tool_calls: 1 } }), wrong);
});

for (const [option, options] of [
  ["config", { config: { big: 1n } }],
  ["model", { model: () => "k" }],
  ["idleTimeout", { idleTimeout: Infinity }],
  ["maxStepsPerTurn", { maxStepsPerTurn: NaN }],
  ["tools", { tools: [{ name: "t" }] }],
  ["tools", { tools: [{ name: "t", handler, timeout: NaN }] }],
  ["tools", { tools: [{ name: "t", handler, parameters: z.string() }] }],
  ["hooks", { hooks: [{ event: "a", handler }, { event: "b" }] }],
  ["hooks", { hooks: [null] }],
]) {
  test(`wrong ${option} is named: ${inspect(options)}`, () => {
    assert.throws(
      () => prepareOptions(options),
      (error) => {
        assert.ok(error instanceof InvalidOption, String(error));
        assert.equal(error.option, option);
        return true;
      },
    );
  });
}
