// Several sessions of one agent: over one process where it speaks ACP, over one each where it speaks Wire.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { openAgent } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

/** The text of a prompt decides its outcome. */
const ACP = `
  import { createInterface } from "node:readline";

  const able = { sessionCapabilities: { list: {}, resume: {}, fork: {}, close: {} } };
  const waiting = new Map();
  let count = 0;
  const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
  const text = (sessionId, text) => {
    const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text } };
    say({ method: "session/update", params: { sessionId, update } });
  };

  for await (const line of createInterface({ input: process.stdin })) {
    const { method, id, params = {} } = JSON.parse(line);
    const { sessionId, cwd = "/srv", prompt } = params;
    if (method === "initialize") say({ id, result: { protocolVersion: 1, agentCapabilities: able } });
    else if (method === "session/new" || method === "session/fork") {
      if (sessionId !== "again") count += 1;
      say({ id, result: { sessionId: "s" + count } });
    }
    else if (method === "session/list")
      say({ id, result: { sessions: [{ sessionId: "old", cwd, title: "An old one" }] } });
    else if (method === "session/cancel") say({ id: waiting.get(sessionId), result: { stopReason: "cancelled" } });
    else if (method === "session/prompt") {
      const said = prompt[0].text;
      waiting.set(sessionId, id);
      if (said === "die") {
        process.stderr.write("out of luck\\n", () => process.exit(7));
      } else if (said !== "hang") {
        text(sessionId, "I am " + sessionId);
        say({ id, result: { stopReason: "end_turn" } });
      }
    } else if (id !== undefined) say({ id, result: {} });
  }
`;

const says = async (session, text) => (await session.prompt(text).result()).text;

describe("an agent that speaks ACP", { timeout: 120_000 }, () => {
  let folder, acp;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), "kimi-agent-test-"));
    const program = join(folder, "agent.mjs");
    writeFileSync(program, ACP);
    acp = { executable: [process.execPath, program], dialect: "acp" };
  });
  after(() => {
    rmSync(folder, { recursive: true });
  });

  test("has sessions that share a process and nothing else", async () => {
    const agent = await openAgent(acp);
    const [first, second] = await Promise.all([agent.createSession(), agent.createSession()]);
    assert.equal(first.pid, second.pid);
    const hanging = first.prompt("hang");
    for (let i = 0; i < 3; i += 1) assert.equal(await says(second, "who"), `I am ${second.id}`);
    assert.deepEqual([first.state, second.state], ["active", "idle"]);
    await hanging.cancel();
    assert.equal(await says(first, "who"), `I am ${first.id}`);
    await agent.close();
    assert.deepEqual([first.state, second.state], ["closed", "closed"]);
    await assert.rejects(agent.createSession(), { name: "SessionClosed" });
  });

  test("duplicate session id fails the second opening", async () => {
    const agent = await openAgent(acp);
    const first = await agent.createSession();
    const hanging = first.prompt("hang");
    await assert.rejects(agent.fork("again"), { code: "protocol_error", message: /id `s1`, which another session of this process has/ });
    // The first session was neither closed nor cancelled.
    assert.equal(first.state, "active");
    await hanging.cancel();
    assert.equal(await says(first, "who"), "I am s1");
    const second = await agent.createSession();
    assert.equal(await says(second, "who"), "I am s2");
    await agent.close();
  });

  test("fails all of them when it dies, and starts anew for the next", async () => {
    const lines = [];
    const agent = await openAgent({ ...acp, onStderr: (line) => lines.push(line) });
    const [first, second] = await Promise.all([agent.createSession(), agent.createSession()]);
    const turns = [first.prompt("hang"), second.prompt("die")];
    for (const turn of turns) await assert.rejects(turn.result(), { name: "AgentExited", exitCode: 7 });
    const third = await agent.createSession();
    assert.equal(await says(third, "who"), "I am s1");
    await agent.close();
    assert.deepEqual(lines, ["out of luck"]);
  });

  test("lists, resumes and forks sessions", async () => {
    const agent = await openAgent(acp);
    const old = { id: "old", workDir: "/srv", title: "An old one", updatedAt: null, archived: null };
    assert.deepEqual(await agent.listSessions(), [old]);
    assert.deepEqual(await agent.listSessions({ workDir: folder }), [{ ...old, workDir: folder }]);
    const [resumed, fork] = [await agent.resume("old"), await agent.fork("old")];
    assert.deepEqual([resumed.id, fork.id, await says(resumed, "who")], ["old", "s1", "I am old"]);
    await agent.close();
  });

  test("names wrong options", async () => {
    await assert.rejects(openAgent({ workDir: "." }), { option: "workDir", message: /it is an option of a session/ });
    await assert.rejects(openAgent({ onApproval: () => "approve" }), { option: "onApproval" });
    const agent = await openAgent(acp);
    await assert.rejects(agent.createSession({ env: { A: "b" } }), { option: "env", message: /it is an option of the agent/ });
    await assert.rejects(agent.resume("a", { sessionId: "b" }), { option: "sessionId" });
    await agent.close();
  });
});

test("on Wire each session has a process", async () => {
  const agent = await openAgent({ executable: scriptedAgent([[{ text: "You said: {{prompt}}" }]]) });
  const [first, second] = await Promise.all([agent.createSession(), agent.createSession()]);
  assert.notEqual(first.pid, second.pid);
  assert.deepEqual([await says(first, "a"), await says(second, "b")], ["You said: a", "You said: b"]);
  await assert.rejects(agent.listSessions(), { name: "Unsupported" });
  await assert.rejects(agent.fork("a"), { name: "Unsupported" });
  await agent.close();
  assert.deepEqual([first.state, second.state], ["closed", "closed"]);
});

for (const method of ["resume", "fork"]) {
  for (const id of [undefined, null, "", 7, {}, []]) {
    test(`${method}(${JSON.stringify(id)}) is refused instead of opening a new conversation`, async () => {
      const agent = await openAgent({ executable: process.execPath });
      const message = new RegExp(`\`${method}\` needs the id of a session as text, got .*session.id`);
      await assert.rejects(agent[method](id), { name: "InvalidOption", option: "sessionId", message });
    });
  }
}

test("listSessions refuses a directory that is no text", async () => {
  const agent = await openAgent({ executable: process.execPath });
  await assert.rejects(agent.listSessions({ workDir: 7 }), { name: "InvalidOption", option: "workDir", message: /got 7/ });
});
