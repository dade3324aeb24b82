// Errors say where the program called, and why a turn was cancelled.
import assert from "node:assert/strict";
import { test } from "node:test";

import { createSession, isKimiAgentError, KimiAgentError, openAgent, prompt } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

const failing = [[{ text: "a" }, { error: { code: -32003, message: "the model is down" } }]];

async function caught(action) {
  try {
    await action();
  } catch (error) {
    return error;
  }
  return assert.fail("nothing was thrown");
}

async function withSession(script, use) {
  const session = await createSession({ executable: scriptedAgent(script) });
  try {
    return await use(session);
  } finally {
    await session.close();
  }
}

test("an error of createSession has the stack of the call", async () => {
  async function myProgram() {
    await createSession({ executable: scriptedAgent({ before_handshake: [{ exit: 3 }], turns: [] }) });
  }
  const error = await caught(myProgram);
  assert.match(error.stack, /^AgentExited: .*\n(.*\n)*.*myProgram/);
  assert.ok(error.stack.includes(error.message));
});

test("an error of an agent's session has the stack of the call", async () => {
  const agent = await openAgent({ executable: scriptedAgent({ before_handshake: [{ exit: 3 }], turns: [] }) });
  async function myProgram() {
    await agent.createSession();
  }
  assert.match((await caught(myProgram)).stack, /myProgram/);
  await agent.close();
});

test("an error of result() has the stack of the call", () =>
  withSession(failing, async (session) => {
    async function myProgram() {
      await session.prompt("hi").result();
    }
    const error = await caught(myProgram);
    assert.match(error.stack, /^LlmServiceError: the model is down.*\n(.*\n)*.*myProgram/);
  }));

test("an error of a loop has the stack of the loop", () =>
  withSession([...failing, ...failing], async (session) => {
    async function myLoop() {
      for await (const { type } of session.prompt("hi")) assert.ok(type);
    }
    async function mySteps() {
      for await (const step of session.prompt("hi").steps) for await (const { type } of step) assert.ok(type);
    }
    assert.match((await caught(myLoop)).stack, /^LlmServiceError: .*\n(.*\n)*.*myLoop/);
    assert.match((await caught(mySteps)).stack, /^LlmServiceError: .*\n(.*\n)*.*mySteps/);
  }));

test("a turn that a signal cancelled has the signal's reason as its cause", () =>
  withSession(Array(4).fill([{ text: "a" }, { wait_cancel: true }]), async (session) => {
    const cancelledBy = async (signal, abort = () => undefined) => {
      const turn = session.prompt("hi", { signal });
      for await (const { type } of turn) if (type === "ContentPart") abort();
      const result = await turn.result();
      assert.equal(result.status, "cancelled");
      return caught(() => result.raiseForStatus());
    };
    const timed = await cancelledBy(AbortSignal.timeout(1));
    assert.equal(timed.code, "turn_cancelled");
    assert.ok(timed.cause instanceof DOMException && timed.cause.name === "TimeoutError", String(timed.cause));

    const plain = new AbortController();
    assert.equal((await cancelledBy(plain.signal, () => plain.abort())).cause.name, "AbortError");

    const reason = new Error("the client is gone");
    const own = new AbortController();
    assert.equal((await cancelledBy(own.signal, () => own.abort(reason))).cause, reason);

    const turn = session.prompt("hi");
    for await (const { type } of turn) if (type === "ContentPart") await turn.cancel();
    const byHand = await caught(async () => (await turn.result()).raiseForStatus());
    assert.equal("cause" in byHand, false);
  }));

test("isKimiAgentError knows the errors of this package", async () => {
  assert.equal(isKimiAgentError(await caught(() => prompt("hi", { workdir: "." }).result())), true);
  assert.equal(isKimiAgentError(new KimiAgentError("x")), true);
  assert.equal(isKimiAgentError(new Error("x")), false);
  assert.equal(isKimiAgentError(undefined), false);
});
