// The official TypeScript SDK of ACP as a client of `kimi-agent serve`, over WebSocket and over HTTP.
//
// KIMI_SCRIPTED_AGENT is the agent's program, KIMI_AGENT_COMMAND the command.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";

import { client, methods } from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";

const agent = process.env.KIMI_SCRIPTED_AGENT;
const command = process.env.KIMI_AGENT_COMMAND;
assert.ok(agent && existsSync(agent), "KIMI_SCRIPTED_AGENT must name the scripted agent's program");
assert.ok(command && existsSync(command), "KIMI_AGENT_COMMAND must name the command");

const token = "0123456789abcdef0123";
const rules = 'deny = ["execute(rm *)"]\nallow = ["execute(git status)"]\n';
const shell = (line, file) => ({
  tool_call: { name: "Bash", arguments: { command: line }, approve: { description: line }, effect: { write_file: file, content: "x" }, result: "ok" },
});
const headers = { Authorization: `Bearer ${token}` };
const transports = {
  WebSocket: (url) => createWebSocketStream(url, { headers, WebSocket }),
  HTTP: (url) => createHttpStream(url.replace("ws:", "http:"), { headers }),
};

/** Starts a server, and calls `use` with its URL and directory. Ends it then. */
async function serving(actions, use) {
  const dir = mkdtempSync(path.join(tmpdir(), "foreign-serve-"));
  writeFileSync(path.join(dir, "script.json"), JSON.stringify({ wire: "acp", turns: [actions] }));
  writeFileSync(path.join(dir, "policy.toml"), rules);
  const words = ["serve", "--policy", path.join(dir, "policy.toml"), "--record", path.join(dir, "runs"), "--", agent, path.join(dir, "script.json")];
  const env = { ...process.env, XDG_CONFIG_HOME: dir, KIMI_AGENT_TOKEN: token };
  const child = spawn(command, words, { stdio: ["ignore", "pipe", "ignore"], env });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  try {
    const lines = createInterface({ input: child.stdout });
    const [url] = await new Promise((resolve) => lines.once("line", (...line) => resolve(line)));
    await use(url, dir);
  } finally {
    child.kill("SIGTERM");
    assert.equal(await exited, 130);
    rmSync(dir, { recursive: true });
  }
}

/** Runs a prompt in each of `count` sessions of one connection. Returns what the client saw. */
async function play(stream, dir, count) {
  const seen = { asked: [], texts: {}, stops: [] };
  const app = client({ name: "remote" })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      seen.asked.push(params.toolCall.title);
      const option = params.options.find(({ kind }) => kind === "allow_once");
      return { outcome: { outcome: "selected", optionId: option.optionId } };
    })
    .onNotification(methods.client.session.update, ({ params: { sessionId, update } }) => {
      if (update.sessionUpdate === "agent_message_chunk") seen.texts[sessionId] = (seen.texts[sessionId] ?? "") + update.content.text;
    });
  await app.connectWith(stream, async (agent) => {
    await agent.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
    const prompt = [{ type: "text", text: "go" }];
    const turns = Array.from({ length: count }, async () => {
      const { sessionId } = await agent.request(methods.agent.session.new, { cwd: dir, mcpServers: [] });
      return agent.request(methods.agent.session.prompt, { sessionId, prompt });
    });
    seen.stops = (await Promise.all(turns)).map(({ stopReason }) => stopReason);
  });
  return seen;
}

for (const [name, open] of Object.entries(transports)) {
  test(`${name}: the policy decides, and the client answers the rest`, async () => {
    const actions = [shell("git status", "a.txt"), shell("rm -rf x", "b.txt"), shell("make", "c.txt"), { text: "After." }];
    await serving(actions, async (url, dir) => {
      const seen = await play(open(url), dir, 1);
      assert.deepEqual([seen.asked.length, seen.stops], [1, ["end_turn"]]);
      assert.deepEqual(["a.txt", "b.txt", "c.txt"].map((file) => existsSync(path.join(dir, file))), [true, false, true]);
      const [text] = Object.values(seen.texts);
      assert.match(text, /denied: .*rm/);
      assert.match(text, /After\.$/);
      assert.equal(readdirSync(path.join(dir, "runs")).length, 1);
    });
  });

  test(`${name}: connections and sessions run concurrently`, async () => {
    await serving([{ text: "Hello." }], async (url, dir) => {
      const all = await Promise.all([1, 2, 3].map(() => play(open(url), dir, 3)));
      for (const seen of all) {
        assert.deepEqual(Object.values(seen.texts), ["Hello.", "Hello.", "Hello."]);
        assert.deepEqual(seen.stops, ["end_turn", "end_turn", "end_turn"]);
      }
    });
  });
}

test("a client without the token is refused", async () => {
  await serving([], async (url, dir) => {
    await assert.rejects(play(createWebSocketStream(url, { WebSocket }), dir, 1), /401/);
    await assert.rejects(play(createHttpStream(url.replace("ws:", "http:")), dir, 1), /401/);
  });
});
