// The official Node SDK as a client of the scripted agent. It is not part of this project: comments say what it cannot do.
//
// KIMI_SCRIPTED_AGENT is the agent's program.

import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";

import { createExternalTool, createSession, ProtocolClient } from "@moonshot-ai/kimi-agent-sdk";
import { z } from "zod";

const agent = process.env.KIMI_SCRIPTED_AGENT;
assert.ok(agent && existsSync(agent), "KIMI_SCRIPTED_AGENT must name the scripted agent's program");

/** A directory with the agent in it. The SDK starts a program without arguments of ours: a shell script adds the script. */
function prepare(script) {
  const dir = mkdtempSync(path.join(tmpdir(), "foreign-node-"));
  writeFileSync(path.join(dir, "script.json"), JSON.stringify(script));
  const executable = path.join(dir, "agent");
  writeFileSync(executable, `#!/bin/sh\nexec '${agent}' '${dir}/script.json' "$@"\n`);
  chmodSync(executable, 0o755);
  return { dir, executable };
}

async function withSession(script, run, options = {}) {
  const { dir, executable } = prepare(script);
  const session = createSession({ workDir: dir, executable, ...options });
  try {
    await run(session, dir);
  } finally {
    await session.close();
    rmSync(dir, { recursive: true });
  }
}

/** Reads a turn to its end; `on` acts on events as they come. */
async function play(turn, on = {}) {
  const types = [];
  let text = "";
  for await (const event of turn) {
    assert.notEqual(event.type, "error", JSON.stringify(event));
    types.push(event.type);
    if (event.type === "ContentPart" && event.payload.type === "text") text += event.payload.text;
    await on[event.type]?.(event.payload);
  }
  return { types, text, result: await turn.result };
}

test("a text turn, and another", () =>
  withSession(
    [[{ think: "Hm." }, { text: ["Hel", "lo {{prompt}}"] }, { usage: { output: 3 }, context_usage: 0.5 }], [{ text: "Again" }]],
    async (session) => {
      const first = await play(session.prompt("you"));
      assert.deepEqual(first.types, [
        "TurnBegin", "StepBegin", "ContentPart", "ContentPart", "ContentPart", "StatusUpdate", "TurnEnd",
      ]);
      assert.deepEqual([first.text, first.result.status], ["Hello you", "finished"]);
      assert.equal((await play(session.prompt([{ type: "text", text: "x" }]))).text, "Again");
    },
  ));

for (const [response, written] of [["approve", true], ["reject", false]]) {
  test(`an approval: ${response}`, () =>
    withSession(
      [[{ tool_call: { name: "WriteFile", approve: true, split: 2, effect: { write_file: "f", content: "x" }, result: "ok" } }, { text: "on" }]],
      async (session, dir) => {
        const turn = session.prompt("go");
        const { types, text, result } = await play(turn, { ApprovalRequest: ({ id }) => turn.approve(id, response) });
        assert.equal(existsSync(path.join(dir, "f")) && readFileSync(path.join(dir, "f"), "utf8") === "x", written);
        assert.deepEqual([text, result.status], [written ? "on" : "", "finished"]);
        assert.ok(types.includes("ApprovalResponse") && types.includes("ToolResult"), types.join());
      },
    ));
}

test("an external tool", () =>
  withSession(
    [[{ external_tool: { name: "weather", arguments: { city: "Oslo" } } }, { text: "{{last.output}}" }]],
    async (session) => assert.equal((await play(session.prompt("go"))).text, "cold in Oslo"),
    {
      externalTools: [
        createExternalTool({
          name: "weather",
          description: "Tells the weather",
          parameters: z.object({ city: z.string() }),
          handler: async ({ city }) => ({ output: `cold in ${city}`, message: "" }),
        }),
      ],
    },
  ));

test("a question", () =>
  withSession(
    [[{ question: { questions: [{ question: "Which?", header: "W", options: [{ label: "A", description: "a" }, { label: "B", description: "b" }] }] } }, { text: "{{last.answers.Which?}}" }]],
    async (session) => {
      const turn = session.prompt("go");
      // The SDK tells a question's id, but not that of its envelope, which it wants back: our agent gives both the same.
      const { text } = await play(turn, { QuestionRequest: ({ id }) => turn.respondQuestion(id, id, { "Which?": "B" }) });
      assert.equal(text, "B");
    },
  ));

test("steer", () =>
  withSession([[{ text: "Working" }, { wait_steer: true }, { text: ", {{steer}}" }]], async (session) => {
    const turn = session.prompt("go");
    let steered = false;
    const { text, types } = await play(turn, {
      ContentPart: () => (steered ? undefined : ((steered = true), turn.steer("left"))),
    });
    assert.equal(text, "Working, left");
    assert.ok(types.includes("SteerInput"), types.join());
  }));

test("plan mode", () =>
  withSession([[{ text: "a" }], [{ text: "b" }]], async (session) => {
    // It starts the agent with the first prompt, and can't switch before.
    await assert.rejects(session.setPlanMode(true), /no active client/);
    await play(session.prompt("go"));
    assert.equal(await session.setPlanMode(true), true);
    assert.equal(session.planMode, true);
    assert.equal(await session.setPlanMode(false), false);
  }));

test("a cancel, and the next turn", () =>
  withSession([[{ text: "Working" }, { wait_cancel: true }], [{ text: "Next" }]], async (session) => {
    const turn = session.prompt("go");
    const { result } = await play(turn, { ContentPart: () => turn.interrupt() });
    assert.equal(result.status, "cancelled");
    assert.equal((await play(session.prompt("again"))).text, "Next");
  }));

test("an error, by its code", () =>
  withSession([[{ error: { code: -32003, message: "the model is down" } }]], async (session) => {
    await assert.rejects(play(session.prompt("go")), /the model is down/);
  }));

test("hooks and a replay, below its sessions", async () => {
  const { dir, executable } = prepare([[{ tool_call: { name: "Shell", result: "x" } }, { text: "done" }]]);
  const client = new ProtocolClient();
  try {
    const asked = [];
    const welcome = await client.start({
      workDir: dir,
      executablePath: executable,
      hooks: [
        {
          id: "h",
          event: "PreToolUse",
          handler: async ({ target }) => {
            asked.push(target);
            return { action: "block", reason: "not now" };
          },
        },
      ],
    });
    assert.deepEqual(welcome.hooks.configured, { PreToolUse: 1 });
    const stream = client.sendPrompt("go");
    const types = [];
    for await (const event of stream.events) types.push(event.type);
    assert.deepEqual(asked, ["Shell"]);
    assert.ok(types.includes("HookTriggered") && types.includes("HookResolved"), types.join());
    assert.equal((await stream.result).status, "finished");
    const replay = client.sendReplay();
    let events = 0;
    for await (const event of replay.events) events += event.type === "error" ? 0 : 1;
    const { status, events: told } = await replay.result;
    // A replayed hook request reaches its handler again, and its answer is ignored here.
    assert.deepEqual([status, events >= told], ["finished", true]);
  } finally {
    await client.stop();
    rmSync(dir, { recursive: true });
  }
});
