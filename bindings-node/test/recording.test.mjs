// Recordings: the files, what is in them, and what is not.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { createSession, InvalidOption, openAgent } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

const folder = () => mkdtempSync(join(tmpdir(), "recording-"));
const entries = (file) => readFileSync(file, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
const types = (file) => entries(file).map((entry) => entry.type).filter((type) => type !== "message");

test("session is recorded", async () => {
  const record = join(folder(), "run.jsonl");
  const call = { tool_call: { name: "Shell", arguments: {}, approve: true, result: "x" } };
  const executable = scriptedAgent([[call, { text: "Hello!" }]]);
  const session = await createSession({ executable, record, onApproval: () => "approve" });
  await session.prompt("hi").result();
  await session.close();
  assert.deepEqual(types(record), ["header", "opened", "call", "decision", "turn", "call", "end"]);
  const [header, ...others] = entries(record);
  assert.equal(header.sdk.language, "node");
  assert.equal(header.options.close_timeout, 10);
  assert.deepEqual(others.find((entry) => entry.type === "decision").answer, { response: "approve" });
});

test("each session of agent has file", async () => {
  const record = join(folder(), "runs/");
  const executable = scriptedAgent({ release: "2.1.0", turns: [[{ text: "Hello!" }]] });
  const agent = await openAgent({ executable, record });
  const sessions = [await agent.createSession(), await agent.createSession()];
  for (const session of sessions) await session.prompt("hi").result();
  await agent.close();
  const files = readdirSync(record);
  assert.equal(files.length, 2);
  for (const file of files) assert.equal(types(join(record, file)).at(-1), "end");
});

test("variable names the path", async () => {
  const directory = folder();
  process.env.KIMI_AGENT_RECORD = `${directory}/`;
  try {
    const session = await createSession({ executable: scriptedAgent([[{ text: "Hello!" }]]) });
    await session.prompt("hi").result();
    await session.close();
  } finally {
    delete process.env.KIMI_AGENT_RECORD;
  }
  const [file, ...others] = readdirSync(directory);
  assert.deepEqual(others, []);
  assert.equal(types(join(directory, file)).at(-1), "end");
});

const ECHO = [[{ text: "{{prompt}}" }]];
const mcpConfigs = [{ mcpServers: { docs: { command: "docs-server", env: { KEY: "canary-mcp" } } } }];

test("secrets are masked", async (context) => {
  for (const [name, script, more] of [
    ["wire", ECHO, { config: { key: "canary-config" }, mcpConfigs }],
    ["acp", { release: "2.1.0", turns: ECHO }, { mcpConfigs }],
    ["kimi-web", { release: "2.1.0", turns: ECHO }, { dialect: "kimi-web" }],
  ]) {
    await context.test(name, async () => {
      const dir = folder();
      const record = join(dir, "run.jsonl");
      const secrets = ["canary-env", "ACME-17", "sk-proj-abcdefgh12345678"];
      if (more.config) secrets.push("canary-config");
      if (more.mcpConfigs) secrets.push("canary-mcp");
      const session = await createSession({
        executable: scriptedAgent(script),
        workDir: dir,
        record,
        redact: ["ACME-\\d+"],
        env: { TOKEN: secrets[0] },
        ...more,
      });
      const result = await session.prompt([...secrets, dir].join(" ")).result();
      await session.close();
      // The program gets what the agent said.
      for (const secret of secrets) assert.ok(result.text.includes(secret), secret);
      const text = readFileSync(record, "utf8");
      assert.ok(text.includes("***"));
      for (const secret of [...secrets, dir]) assert.ok(!text.includes(secret), secret);
    });
  }
});

test("wrong paths are refused", async () => {
  const executable = scriptedAgent([]);
  const record = join(folder(), "no", "such", "run.jsonl");
  await assert.rejects(createSession({ executable, record }), (error) => {
    assert.ok(error instanceof InvalidOption);
    return /^invalid option `record`: can't write /.test(error.message);
  });
  await assert.rejects(createSession({ executable, redact: ["("] }), /`redact`: item 1: .* is not a regular expression/);
});
