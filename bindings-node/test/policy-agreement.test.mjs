// One call has one verdict: from `check()`, from the command, in a batch, and in a session over each protocol.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { createSession, Policy, runBatch, Unsupported } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

const table = JSON.parse(readFileSync(new URL("../../tests/policy/agreement.json", import.meta.url), "utf8"));
const { calls, policy } = table;
const command = fileURLToPath(new URL("../dist/command.cjs", import.meta.url));
// No rule knows the shell of a command on Windows.
const skip = process.platform === "win32";

const project = (t) => {
  const path = mkdtempSync(join(tmpdir(), "policy-"));
  t.after(() => rmSync(path, { recursive: true }));
  for (const file of table.files) {
    mkdirSync(dirname(join(path, file)), { recursive: true });
    writeFileSync(join(path, file), "");
  }
  return path;
};

const fieldsOf = ({ decision, rule, reason, part }) => ({
  decision,
  reason,
  part,
  ...(rule === undefined || rule === null ? {} : { rule }),
});

/** What `check()` says of each call, by the id of the call. */
const checked = (workDir) => {
  const rules = new Policy(policy);
  return new Map(calls.map((call, at) => [`c${at}`, fieldsOf(rules.check(call, workDir))]));
};

/** An agent that makes all calls, and asks about each. */
const agent = (wire) => {
  const actions = calls.map(({ name, arguments: given }, at) => {
    const approve = { action: name, description: `Call ${at}` };
    return { tool_call: { name, id: `c${at}`, arguments: given, approve, result: "ok" } };
  });
  return scriptedAgent({ wire, turns: [[...actions, { text: "Done" }]] });
};

const denied = (rejected) =>
  new Map(rejected.filter(({ by }) => by === "policy").map(({ tool_call: call, reason }) => [call.id, reason]));

const only = (verdicts, decision, field) =>
  new Map([...verdicts].filter(([, verdict]) => verdict.decision === decision).map(([id, found]) => [id, found[field]]));

test("check_gives_expected_verdicts", { skip }, (t) => {
  const found = [...checked(project(t)).values()].map(({ decision }, at) => ({ ...calls[at], expect: decision }));
  assert.deepEqual(found, calls);
});

test("command_agrees", { skip }, (t) => {
  const workDir = project(t);
  const rules = join(workDir, "rules.json");
  writeFileSync(rules, JSON.stringify(policy));
  const verdicts = [...checked(workDir).values()];
  for (const [at, call] of calls.entries()) {
    const given = [command, "policy", "check", "--json", "-C", workDir, rules, "-"];
    const done = spawnSync(process.execPath, given, { input: JSON.stringify(call), encoding: "utf8" });
    assert.deepEqual(fieldsOf(JSON.parse(done.stdout)), verdicts[at], JSON.stringify(call));
    assert.equal(done.status, call.expect === "allow" ? 0 : 1, JSON.stringify(call));
  }
});

for (const dialect of ["1.10", "1.7", "acp", "kimi-web"]) {
  test(`session_agrees_over_${dialect}`, { skip }, async (t) => {
    const workDir = project(t);
    const asked = [];
    const onApproval = (request) => {
      asked.push(request.tool_call_id);
      return "approve";
    };
    const session = await createSession({ executable: agent(dialect), dialect, policy, workDir, onApproval });
    const decided = new Map();
    const turn = session.prompt("Go");
    for await (const { type, payload } of turn) {
      if (type === "PolicyDecision") decided.set(payload.tool_call.id, fieldsOf(payload));
    }
    const { rejected } = await turn.result();
    await session.close();
    const verdicts = checked(workDir);
    assert.deepEqual(decided, verdicts);
    assert.deepEqual(asked, [...only(verdicts, "ask", "decision").keys()]);
    assert.deepEqual(denied(rejected), only(verdicts, "deny", "reason"));
  });
}

test("batch_agrees", { skip }, async (t) => {
  const workDir = project(t);
  const options = { executable: agent("1.10"), policy, workDir, onApproval: () => "approve" };
  for await (const { status, result } of runBatch(["Go"], options)) {
    assert.equal(status, "finished");
    assert.deepEqual(denied(result.rejected), only(checked(workDir), "deny", "reason"));
  }
});

test("legacy_agent_asks_nothing", async () => {
  const executable = scriptedAgent({ wire: "legacy", turns: [[{ text: "Done" }]] });
  const options = { executable, dialect: "legacy", yolo: true, policy };
  const session = await createSession(options);
  assert.equal(session.capabilities.policy, "approvals");
  await session.close();
  await assert.rejects(createSession({ ...options, enforce: "calls" }), Unsupported);
});
