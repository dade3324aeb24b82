// Recordings: the files, what is in them, and what is not.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { createSession, InvalidOption, openAgent, tool } from "../dist/index.mjs";
import { replayedAgent, scriptedAgent } from "../dist/testing.mjs";

const all = mkdtempSync(join(tmpdir(), "recordings-"));
after(() => rmSync(all, { recursive: true }));
const folder = () => mkdtempSync(join(all, "recording-"));
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
// All languages use the list.
const shared = (name) => readFileSync(new URL(`../../tests/recordings/${name}`, import.meta.url), "utf8");
const canaries = JSON.parse(shared("canaries.json"));

test("secrets are masked", async (context) => {
  const { env, redact, config, mcp_configs, mcp_urls } = canaries;
  const servers = [...mcp_configs.value, ...mcp_urls.value];
  for (const [name, script, groups, more] of [
    ["wire", ECHO, [config, mcp_configs, mcp_urls], { config: config.value, mcpConfigs: servers }],
    ["acp", { release: "2.1.0", turns: ECHO }, [mcp_configs], { mcpConfigs: mcp_configs.value }],
    ["kimi-web", { release: "2.1.0", turns: ECHO }, [], { dialect: "kimi-web" }],
  ]) {
    await context.test(name, async () => {
      const dir = folder();
      const record = join(dir, "run.jsonl");
      const secrets = [env, redact, canaries.keys, ...groups].flatMap((group) => group.texts);
      secrets.push(dir, dir.replace(/[^A-Za-z0-9]/g, "-"), join(homedir(), "canary"), join(tmpdir(), "canary"));
      const session = await createSession({
        executable: scriptedAgent(script),
        workDir: dir,
        record,
        redact: redact.value,
        env: env.value,
        ...more,
      });
      const result = await session.prompt(secrets.join(" ")).result();
      await session.close();
      // The program gets what the agent said.
      assert.equal(result.text, secrets.join(" "));
      const text = readFileSync(record, "utf8");
      assert.ok(text.includes("***"));
      // In JSON, backslashes of Windows are escaped.
      for (const secret of secrets) assert.ok(!text.includes(JSON.stringify(secret).slice(1, -1)), secret);
    });
  }
});

test("token of tools is masked", async () => {
  const dir = folder();
  const [played, record] = [join(dir, "played.jsonl"), join(dir, "run.jsonl")];
  // An agent that takes tools over HTTP.
  writeFileSync(played, shared("acp.jsonl").replace('"http":false', '"http":true'));
  const add = tool({ name: "add", description: "Adds", parameters: { type: "object" }, handler: () => "2" });
  const session = await createSession({ executable: replayedAgent(played), record, tools: [add] });
  await session.close();
  const text = readFileSync(record, "utf8");
  assert.ok(text.includes('"Authorization","value":"***"'), text);
  assert.doesNotMatch(text, /[0-9a-f]{64}/);
});

test("wrong paths are refused", async () => {
  const executable = scriptedAgent([]);
  const record = join(folder(), "no", "such", "run.jsonl");
  await assert.rejects(createSession({ executable, record }), (error) => {
    assert.ok(error instanceof InvalidOption);
    return /^invalid option `record`: can't write /.test(error.message);
  });
  await assert.rejects(createSession({ executable, redact: ["("] }), /`redact`: redact\[0\]: .* is not a regular expression/);
});
