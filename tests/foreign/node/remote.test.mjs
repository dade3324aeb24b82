// This project's client against the official servers of ACP, over WebSocket and HTTP, in front of the scripted agent.
//
// KIMI_SCRIPTED_AGENT is the agent's program. KIMI_ACP_SERVER can name the server of the Rust crates.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";

import { createSession, openAgent, remote } from "../../../bindings-node/dist/index.mjs";

const agent = process.env.KIMI_SCRIPTED_AGENT;
assert.ok(agent && existsSync(agent), "KIMI_SCRIPTED_AGENT must name the scripted agent's program");
const crate = process.env.KIMI_ACP_SERVER;
const official = [process.execPath, path.join(import.meta.dirname, "acp_server.mjs")];
const servers = { typescript: official, ...(crate ? { rust: [crate] } : {}) };

/** Starts a server in front of an agent with these turns, and calls `use` with its port and a directory. */
async function served(server, options, turns, use) {
  const dir = mkdtempSync(path.join(tmpdir(), "foreign-remote-"));
  const script = path.join(dir, "script.json");
  writeFileSync(script, JSON.stringify({ wire: "acp", turns }));
  const [program, ...args] = server;
  const child = spawn(program, [...args, ...options, agent, script], { stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  try {
    const port = await new Promise((resolve) => createInterface(child.stdout).once("line", resolve));
    return await use(port, dir);
  } finally {
    child.stdin.end();
    await exited;
    rmSync(dir, { recursive: true });
  }
}

const request = {
  type: "ApprovalRequest",
  payload: { id: "r", tool_call_id: "t", sender: "Shell", action: "run command", description: "`ls`", display: [] },
};

for (const [name, server] of Object.entries(servers)) {
  for (const scheme of ["ws", "http"]) {
    test(`${name} server over ${scheme} has whole sessions`, async () => {
      const turns = [[{ text: "Hello" }, { request }], [{ text: "a" }, { wait_cancel: true }], [{ text: "x".repeat(2_000_000) }]];
      await served(server, [], turns, async (port, dir) => {
        const place = remote({ url: `${scheme}://127.0.0.1:${port}/acp`, workDir: "/srv/app" });
        const seen = [];
        const onApproval = ({ description }) => (seen.push(description), "approve");
        const session = await createSession({ place, workDir: dir, onApproval });
        assert.equal((await session.prompt("1").result()).text, "Hello");
        assert.equal(seen.length, 1);
        const turn = session.prompt("2");
        for await (const event of turn) if (event.type === "ContentPart") await turn.cancel();
        assert.equal((await turn.result()).status, "cancelled");
        assert.equal((await session.prompt("3").result()).text.length, 2_000_000);
        await session.close();
      });
    });

    test(`${name} server over ${scheme} has several sessions in one connection`, async () => {
      await served(server, [], [[{ text: "one" }]], async (port) => {
        const shared = await openAgent({ place: remote({ url: `${scheme}://127.0.0.1:${port}/acp` }) });
        const sessions = await Promise.all([1, 2, 3].map(() => shared.createSession()));
        const results = await Promise.all(sessions.map((session) => session.prompt("x").result()));
        assert.deepEqual(results.map(({ text }) => text), ["one", "one", "one"]);
        await shared.close();
      });
    });
  }
}

for (const scheme of ["ws", "http"]) {
  test(`lost connection over ${scheme} ends the session with the cause`, async () => {
    await served(official, [], [[{ text: "a" }, { wait_cancel: true }]], async (port) => {
      const place = remote({ url: `${scheme}://127.0.0.1:${port}/acp` });
      const session = await createSession({ place });
      const turn = session.prompt("x");
      const lost = { code: "agent_exited", message: /^the connection to the agent at \S+\/acp ended: / };
      await assert.rejects(async () => {
        for await (const event of turn) if (event.type === "ContentPart") await fetch(`http://127.0.0.1:${port}/reset`);
      }, lost);
      await assert.rejects(async () => session.prompt("y").result(), lost);
      await session.close();
    });
  });

  test("wrong login is refused without the secret", async () => {
    await served(official, ["--token", "canary-token"], [[{ text: "in" }]], async (port, dir) => {
      const url = `${scheme}://127.0.0.1:${port}/acp?key=canary-query`;
      const opened = (headers, more) => createSession({ place: remote({ url, headers }), ...more });
      await assert.rejects(opened({}), { code: "spawn_error", message: /set the header `Authorization`.*Bearer$/ });
      const wrong = { Authorization: "Bearer canary-other" };
      await assert.rejects(opened(wrong), (error) => {
        assert.equal(error.code, "spawn_error");
        assert.match(error.message, /does not accept the header `Authorization`/);
        return !error.message.includes("canary");
      });
      const session = await opened({ Authorization: "Bearer canary-token" }, { record: `${dir}/runs/` });
      assert.equal((await session.prompt("x").result()).text, "in");
      await session.close();
      const [recording] = readdirSync(path.join(dir, "runs"));
      assert.ok(!readFileSync(path.join(dir, "runs", recording), "utf8").includes("canary"));
      const other = remote({ url: `${scheme}://127.0.0.1:${port}/other` });
      await assert.rejects(createSession({ place: other }), { code: "spawn_error", message: /no agent at this path/ });
    });
  });
}
