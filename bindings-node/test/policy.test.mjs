// Policies without an agent: hostile calls, files, errors and warnings.

import assert from "node:assert/strict";
import { lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { InvalidOption, Policy } from "../dist/index.mjs";

const hostile = JSON.parse(readFileSync(new URL("../../tests/policy/hostile.json", import.meta.url), "utf8"));

const folder = (t) => {
  const path = mkdtempSync(join(tmpdir(), "policy-"));
  t.after(() => rmSync(path, { recursive: true }));
  return path;
};

test("hostile_calls_get_their_decisions", (t) => {
  const onWindows = process.platform === "win32";
  const dir = folder(t);
  for (const file of hostile.files) {
    mkdirSync(dirname(join(dir, file)), { recursive: true });
    writeFileSync(join(dir, file), "");
  }
  let { calls } = hostile;
  try {
    for (const [link, target] of Object.entries(hostile.links)) {
      symlinkSync(target, join(dir, link));
      lstatSync(join(dir, link));
    }
  } catch (error) {
    // On Windows not every user may make links.
    if (!onWindows) throw error;
    calls = calls.filter((call) => !Object.keys(hostile.links).some((link) => JSON.stringify(call).includes(link)));
  }
  if (onWindows) calls = [...calls, ...hostile.windows];
  const policy = new Policy(hostile.policy);
  const wrong = calls.filter((call) => {
    const { decision } = policy.check(call, dir);
    // On Windows no rule knows the shell of a command.
    const isCommand = onWindows && call.arguments?.path === undefined;
    return decision !== call.expect && !(isCommand && decision !== "allow");
  });
  assert.deepEqual(wrong, []);
  assert.ok(hostile.calls.length >= 200);
});

test("attacks_are_refused", (t) => {
  const { groups } = JSON.parse(readFileSync(new URL("../../tests/policy/attacks.json", import.meta.url), "utf8"));
  const onWindows = process.platform === "win32";
  // The folder above has nothing else.
  const dir = join(folder(t), "work");
  for (const file of hostile.files) {
    mkdirSync(dirname(join(dir, file)), { recursive: true });
    writeFileSync(join(dir, file), "");
  }
  if (!onWindows) for (const [link, target] of Object.entries(hostile.links)) symlinkSync(target, join(dir, link));
  const wrong = [];
  for (const group of groups) {
    if (group.links && onWindows) continue;
    const policy = new Policy(group.policy);
    // The tests of the core play all of them: a binding only translates.
    for (const call of group.calls.filter((_, place) => place % 10 === 0)) {
      const { decision, reason } = policy.check(call, dir);
      // On Windows no rule knows the shell of a command.
      const isRefused = call.expect === "refuse" || (onWindows && call.expect !== "allow");
      const isRight = isRefused ? decision !== "allow" : decision === call.expect || onWindows;
      if (!isRight) wrong.push({ call, decision, reason });
    }
  }
  assert.deepEqual(wrong, []);
});

test("preset_lists_its_rules_and_can_be_extended", () => {
  const policy = new Policy({ extends: "read-only", allow: ["execute(make test)"] });
  assert.ok(policy.rules.allow.includes("read(**)") && policy.rules.allow.includes("execute(make test)"));
  const decide = (command) => policy.check({ name: "Shell", arguments: { command } });
  assert.deepEqual(["git log", "make test", "git log --output=x"].map((command) => decide(command).decision), [
    "allow",
    "allow",
    "ask",
  ]);
  assert.equal(decide("git log; git push").part, "git push");
  assert.match(decide("git push").reason, /`execute\(git push\)` would allow it/);
  assert.ok(new Policy("read-only").rules.deny.length > 0);
  assert.throws(() => new Policy({ extends: "policy.toml" }), /expected the name of a preset/);
});

test("text_of_a_model_cannot_stop_the_program", () => {
  const policy = new Policy({ deny: ["execute(rm *)"] });
  const texts = ["cat <<$(  ", "echo hi 2147483648>x", "<<EOF;$((()", "(".repeat(16384), `xargs ${"(".repeat(16384)}`];
  for (const command of [...texts, "a".repeat(1 << 20)]) {
    assert.equal(policy.check({ name: "Shell", arguments: { command } }).decision, "ask");
  }
});

test("policy_of_a_file_names_places", (t) => {
  const path = join(folder(t), "policy.toml");
  writeFileSync(path, '\ndeny = ["execute(rm *)"]\n');
  const verdict = Policy.load(path).check({ name: "Shell", arguments: { command: "rm x" } });
  assert.deepEqual(verdict, {
    decision: "deny",
    rule: "execute(rm *)",
    source: `${path}:2`,
    reason: "the rule `execute(rm *)` denies `rm x`",
    part: "rm x",
  });
});

const malformed = JSON.parse(readFileSync(new URL("../../tests/policy/malformed.json", import.meta.url), "utf8"));

test("malformed_file_is_an_error", (t) => {
  const dir = folder(t);
  for (const { name, hex, repeat, times, error } of malformed.files) {
    const path = join(dir, name);
    writeFileSync(path, hex === undefined ? repeat.repeat(times) : Buffer.from(hex, "hex"));
    if (error === undefined) Policy.load(path);
    else {
      const isRight = (found) => found instanceof InvalidOption && found.message.includes(error);
      assert.throws(() => Policy.load(path), isRight, name);
    }
  }
  assert.throws(() => Policy.load(dir), InvalidOption);
});

test("call_of_megabytes_is_decided", () => {
  const policy = new Policy(malformed.policy);
  // The core plays them all.
  const calls = malformed.calls.filter((_, at) => at % 4 === 0);
  const found = calls.map((call) => {
    const text = call.piece.repeat(Math.floor((2 << 20) / Buffer.byteLength(call.piece)));
    return { ...call, expect: policy.check({ name: call.name, arguments: { [call.argument]: text } }, "/").decision };
  });
  assert.deepEqual(found, calls);
});

test("wrong_policy_names_the_rule", () => {
  const wrong = (message) => (error) => error instanceof InvalidOption && message.test(error.message);
  assert.throws(() => new Policy({ deny: ["execute("] }), wrong(/policy.*deny\[0\]/));
  assert.throws(() => new Policy(5), wrong(/expected an object with rules/));
  assert.throws(() => Policy.load("/no/such/policy.toml"), wrong(/cannot be read/));
  assert.throws(() => Policy.load(5), wrong(/expected the path of a file/));
  for (const given of [{}, { nam: "x" }, undefined]) {
    assert.throws(() => new Policy({}).check(given), (error) => error.option === "toolCall" && /`toolCall`: expected a tool call/.test(error.message));
  }
});

test("warnings_tell_about_the_rules", () => {
  assert.equal(new Policy({ deny: ["execute"], allow: ["execute(ls)"] }).warnings.length, 1);
});
