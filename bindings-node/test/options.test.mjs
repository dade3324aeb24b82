import assert from "node:assert/strict";
import { test } from "node:test";

import { z } from "zod";

import { Hook, InvalidOption } from "../dist/index.mjs";
import optionsModule from "../dist/options.js";

const { prepareOptions, OPTION_NAMES } = optionsModule;

const prepare = (options) => {
  const { optionsJson, callbacksJson, functions } = prepareOptions(options);
  return { options: JSON.parse(optionsJson), callbacks: JSON.parse(callbacksJson), functions };
};

const handler = () => undefined;

test("only what is set is passed on, under the core's names", () => {
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
    work_dir: ".",
    thinking: false,
    mcp_configs: [{ mcpServers: {} }],
    env: { A: "1" },
    executable: ["kimi", "x"],
    max_steps_per_turn: 3,
    idle_timeout: 1500,
    max_line_bytes: 1024,
  });
});

test("functions are announced, not passed", () => {
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
  assert.deepEqual(options, {});
  assert.deepEqual(callbacks, {
    on_approval: "handler",
    on_question: "manual",
    on_event: true,
    on_stderr: true,
    tools: [{ name: "t", description: "d", parameters: { type: "object" }, timeout: 10 }],
    hooks: [{ event: "Stop" }, { event: "PreToolUse", matcher: "Sh", timeout: 5, on_error: "block" }],
  });
  assert.deepEqual(Object.keys(functions).sort(), ["approval", "event", "hooks", "stderr", "tools"]);
});

test("a plain tool may have a zod schema", async () => {
  const tools = [{ name: "t", description: "d", parameters: z.object({ a: z.number() }), handler: ({ a }) => a + 1 }];
  const { callbacks, functions } = prepare({ tools });
  assert.deepEqual(callbacks.tools[0].parameters.properties, { a: { type: "number" } });
  assert.equal(await functions.tools.get("t").handler({ a: 1 }), 2);
});

for (const [option, options] of [
  ["wrokDir", { wrokDir: "." }],
  ["work_dir", { work_dir: "." }],
  ["config", { config: { big: 1n } }],
  ["model", { model: () => "k" }],
  ["idleTimeout", { idleTimeout: Infinity }],
  ["maxStepsPerTurn", { maxStepsPerTurn: NaN }],
  ["onApproval", { onApproval: "always" }],
  ["onQuestion", { onQuestion: 1 }],
  ["onEvent", { onEvent: "manual" }],
  ["onStderr", { onStderr: {} }],
  ["tools", { tools: {} }],
  ["tools[0].handler", { tools: [{ name: "t" }] }],
  ["tools[0].timeout", { tools: [{ name: "t", handler, timeout: NaN }] }],
  ["hooks[1].handler", { hooks: [{ event: "a", handler }, { event: "b" }] }],
  ["hooks[0]", { hooks: [null] }],
]) {
  test(`what is wrong with ${option} is said by its name: ${JSON.stringify(Object.keys(options))}`, () => {
    assert.throws(
      () => prepareOptions(options),
      (error) => {
        assert.ok(error instanceof InvalidOption, String(error));
        assert.equal(error.option, option);
        assert.ok(error.message.includes(`\`${option}\``), error.message);
        return true;
      },
    );
  });
}

test("every option of the specification is there", () => {
  const specified = `workDir sessionId model thinking yolo configFile config executable env mcpConfigs agentFile
    skillsDir tools maxStepsPerTurn maxRetriesPerStep onApproval onQuestion hooks onEvent onStderr clientName
    clientVersion extraArgs dialect handshakeTimeout cancelTimeout closeTimeout idleTimeout turnTimeout maxLineBytes
    eventBufferBytes`;
  assert.deepEqual([...OPTION_NAMES].sort(), specified.split(/\s+/).sort());
});
