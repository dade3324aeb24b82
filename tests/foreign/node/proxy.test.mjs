// The official TypeScript SDK of ACP as an editor, in front of `kimi-agent proxy` and the scripted agent.
//
// KIMI_SCRIPTED_AGENT is the agent's program, KIMI_AGENT_COMMAND the command.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { test } from "node:test";

import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const agent = process.env.KIMI_SCRIPTED_AGENT;
const command = process.env.KIMI_AGENT_COMMAND;
assert.ok(agent && existsSync(agent), "KIMI_SCRIPTED_AGENT must name the scripted agent's program");
assert.ok(command && existsSync(command), "KIMI_AGENT_COMMAND must name the command");

const rules = 'deny = ["execute(rm *)", "read(**/.env)"]\nask = ["edit(**)"]\nallow = ["execute(git status)", "read(**)"]\n';

/** Plays a script behind the proxy. Returns what the editor saw. */
async function play(actions, answer, more = {}) {
  const dir = mkdtempSync(path.join(tmpdir(), "foreign-proxy-"));
  writeFileSync(path.join(dir, "script.json"), JSON.stringify({ wire: "acp", turns: [actions(dir)] }));
  writeFileSync(path.join(dir, "policy.toml"), rules);
  const words = ["proxy", "--policy", path.join(dir, "policy.toml"), "--", agent, path.join(dir, "script.json")];
  const child = spawn(command, words, { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, XDG_CONFIG_HOME: dir } });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const seen = { asked: [], texts: "", written: {}, effect: false };
  const app = client({ name: "editor" })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      seen.asked.push(params.toolCall.title);
      const option = params.options.find(({ kind }) => kind === answer);
      return { outcome: option ? { outcome: "selected", optionId: option.optionId } : { outcome: "cancelled" } };
    })
    .onRequest(methods.client.fs.readTextFile, ({ params }) => ({ content: readFileSync(params.path, "utf8") }))
    .onRequest(methods.client.fs.writeTextFile, ({ params }) => {
      seen.written[path.basename(params.path)] = params.content;
      return {};
    })
    .onNotification(methods.client.session.update, ({ params }) => {
      if (params.update.sessionUpdate === "agent_message_chunk") seen.texts += params.update.content.text ?? "";
    });
  const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  try {
    await app.connectWith(stream, async (agent) => {
      const clientCapabilities = { fs: { readTextFile: true, writeTextFile: true }, terminal: true };
      await agent.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities });
      const { sessionId } = await agent.request(methods.agent.session.new, { cwd: dir, mcpServers: [] });
      const prompt = [{ type: "text", text: "go" }];
      seen.stop = (await agent.request(methods.agent.session.prompt, { sessionId, prompt })).stopReason;
      await more.after?.(agent, sessionId);
    });
    seen.effect = existsSync(path.join(dir, "effect.txt"));
  } finally {
    child.stdin.end();
    assert.equal(await exited, 0);
    rmSync(dir, { recursive: true });
  }
  return seen;
}

const shell = (line) => () => [
  { tool_call: { name: "Bash", arguments: { command: line }, approve: { description: line }, effect: { write_file: "effect.txt", content: "x" }, result: "ok" } },
  { text: "After." },
];

test("what the policy allows is not asked", async () => {
  const seen = await play(shell("git status"), "reject_once");
  assert.deepEqual([seen.asked, seen.effect, seen.stop], [[], true, "end_turn"]);
  assert.match(seen.texts, /After\.$/);
});

test("what the policy denies is not asked, and the conversation says why", async () => {
  const seen = await play(shell("rm -rf x"), "allow_once");
  assert.deepEqual([seen.asked, seen.effect, seen.stop], [[], false, "end_turn"]);
  assert.match(seen.texts, /denied: .*rm/);
});

for (const [answer, effect] of [["allow_once", true], ["reject_once", false], ["none", false]]) {
  test(`the user decides about the rest: ${answer}`, async () => {
    const seen = await play(shell("make"), answer);
    assert.deepEqual([seen.asked.length, seen.effect], [1, effect]);
  });
}

test("files of the editor are decided", async () => {
  const seen = await play(
    (dir) => {
      writeFileSync(path.join(dir, "a.txt"), "A");
      writeFileSync(path.join(dir, ".env"), "SECRET");
      const read = (name) => ({ request: { type: "fs/read_text_file", payload: { path: path.join(dir, name) } } });
      const write = { request: { type: "fs/write_text_file", payload: { path: path.join(dir, "b.txt"), content: "B" } } };
      return [read("a.txt"), read(".env"), write, { text: "After." }];
    },
    "allow_once",
  );
  assert.deepEqual(seen.written, { "b.txt": "B" });
  assert.equal(seen.asked.length, 1);
  assert.match(seen.texts, /denied: .*\.env/);
  assert.doesNotMatch(seen.texts, /SECRET/);
});
