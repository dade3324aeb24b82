import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { inspect } from "node:util";

import nativeErrors from "../dist/native-errors.js";
import * as esm from "../dist/index.mjs";
import { nativeError, thrownError } from "./fake-native.mjs";

const { callNative, publicError } = nativeErrors;
const { KimiAgentError, PromptResult } = esm;

const ALL = [
  ["internal_error", "KimiAgentError", "KimiAgentError"],
  ["spawn_error", "SpawnError", "KimiAgentError"],
  ["handshake_error", "HandshakeError", "KimiAgentError"],
  ["agent_exited", "AgentExited", "KimiAgentError", { exitCode: 3, signal: null, stderr: "end" }],
  ["protocol_error", "ProtocolError", "KimiAgentError"],
  ["unsupported", "Unsupported", "KimiAgentError"],
  ["session_closed", "SessionClosed", "KimiAgentError"],
  ["timeout", "Timeout", "KimiAgentError"],
  ["event_buffer_full", "EventBufferFull", "KimiAgentError"],
  ["invalid_option", "InvalidOption", "KimiAgentError", { option: "workDir" }],
  ["rpc_error", "RpcError", "KimiAgentError", { rpcCode: -32003, data: { retry: 1 } }],
  ["turn_in_progress", "TurnInProgress", "RpcError"],
  ["no_active_turn", "NoActiveTurn", "RpcError"],
  ["llm_not_set", "LlmNotSet", "RpcError"],
  ["llm_not_supported", "LlmNotSupported", "RpcError"],
  ["llm_service_error", "LlmServiceError", "RpcError", { rpcCode: -32003 }],
  ["auth_expired", "AuthExpired", "RpcError"],
  ["context_too_long", "ContextTooLong", "RpcError"],
  ["answer_truncated", "AnswerTruncated", "KimiAgentError"],
  ["answer_refused", "AnswerRefused", "KimiAgentError"],
  ["budget_exceeded", "BudgetExceeded", "KimiAgentError", { counter: "tokens", limit: 0, used: 0 }],
  ["output_invalid", "OutputInvalid", "KimiAgentError", { attempts: 0, text: "", errors: [] }],
];

for (const [code, name, parent, properties = {}] of ALL) {
  test(`${code} is ${name}`, () => {
    const fields = { option: "workDir", exitCode: 3, stderr: "end", rpcCode: -32003, data: '{"retry":1}' };
    const error = publicError(nativeError(code, "what happened", fields));
    assert.equal(error.constructor, esm[name]);
    assert.ok(error instanceof esm[parent] && error instanceof KimiAgentError && error instanceof Error);
    assert.equal(error.code, code);
    assert.equal(error.name, name);
    assert.ok(error.help.endsWith(`/docs/reference/errors.md#${code}`), error.help);
    assert.ok(inspect(error).includes(`help: '${error.help}'`));
    assert.ok(String(error.stack).includes(error.message));
    for (const [key, value] of Object.entries(properties)) assert.deepEqual(error[key], value, key);
  });
}

const RETRYABLE = ["AgentExited", "Timeout", "TurnInProgress", "LlmServiceError"];

test("retryable is known by class and by error", () => {
  for (const [code, name] of ALL) {
    assert.equal(new esm[name]("x").retryable, RETRYABLE.includes(name), code);
    for (const retryable of [true, false]) {
      assert.equal(publicError(nativeError(code, "x", { retryable })).retryable, retryable);
    }
  }
});

test("SDK error has no agent code, and its message contains the hint", () => {
  const own = publicError(nativeError("turn_in_progress", "busy"));
  assert.deepEqual([own.message, own.rpcCode, own.hint], ["busy", null, null]);
  const hinted = publicError(nativeError("llm_not_set", "LLM is not set", { rpcCode: -32001, hint: "log in" }));
  assert.deepEqual([hinted.message, hinted.rpcCode, hinted.hint], ["LLM is not set; log in", -32001, "log in"]);
});

test("every exported error is in the list", () => {
  const isError = (value) => value === KimiAgentError || value?.prototype instanceof KimiAgentError;
  const classes = Object.values(esm).filter(isError);
  assert.deepEqual(classes.map((each) => each.name).sort(), [...ALL.map(([, name]) => name), "MaxStepsReached", "TurnCancelled"].sort());
});

test("unknown error code is an error of this package", () => {
  const error = publicError(nativeError("brand_new", "hm"));
  assert.ok(error instanceof KimiAgentError);
  assert.equal(error.message, "brand_new: hm");
});

test("callNative converts errors of the addon and keeps other errors", () => {
  const throwing = (thrown) => () =>
    callNative(() => {
      throw thrown;
    });
  assert.throws(throwing(thrownError("session_closed", "closed")), { name: "SessionClosed", message: "closed" });
  for (const other of [new TypeError("x"), new Error("{}"), "text"]) {
    assert.throws(throwing(other), (error) => error === other);
  }
});

test("raiseForStatus throws unless the turn finished", () => {
  const fields = { steps: 2, text: "t", usage: {} };
  const finished = new PromptResult({ status: "finished", ...fields });
  assert.equal(finished.raiseForStatus(), finished);
  const cancelled = new PromptResult({ status: "cancelled", ...fields });
  assert.throws(() => cancelled.raiseForStatus(), { code: "turn_cancelled" });
  const limited = new PromptResult({ status: "max_steps_reached", ...fields });
  assert.throws(() => limited.raiseForStatus(), { code: "max_steps_reached", steps: 2 });
});

test("import and require give the same classes", () => {
  const cjs = createRequire(import.meta.url)("../dist/index.js");
  // Node itself adds these to what is re-exported from CommonJS.
  const names = Object.keys(esm).filter((name) => !["__esModule", "module.exports"].includes(name));
  assert.deepEqual(Object.keys(cjs).sort(), names.sort());
  for (const name of names) assert.equal(cjs[name], esm[name], name);
});
