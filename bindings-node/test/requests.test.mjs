// What a handler and an outcome are told of tool calls, and handlers that are refused.
import assert from "node:assert/strict";
import { test } from "node:test";

import { createSession, InvalidOption } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.js";

const CALL = {
  tool_call: {
    name: "WriteFile",
    id: "c1",
    arguments: { path: "a.txt" },
    split: 2,
    approve: { action: "edit file", description: "Write a.txt" },
    result: "ok",
  },
};

test("approval and result have their tool call beside their fields", async (t) => {
  const requests = [];
  const session = await createSession({
    executable: scriptedAgent([[CALL]]),
    onApproval: (request) => {
      requests.push(request);
      return "approve";
    },
  });
  t.after(() => session.close());
  const results = [];
  for await (const event of session.prompt("Go")) if (event.type === "ToolResult") results.push(event.payload);
  assert.deepEqual(requests[0].tool_call, { id: "c1", name: "WriteFile", arguments: { path: "a.txt" } });
  assert.equal(results[0].tool_call.name, "WriteFile");
  assert.ok(!JSON.stringify([requests, results]).includes("tool_call\""));
  assert.ok(!Object.keys(requests[0]).some((key) => key.startsWith("$") || key === "tool_call"));
});

test("outcome lists calls and rejections", async (t) => {
  const session = await createSession({ executable: scriptedAgent([[CALL]]) });
  t.after(() => session.close());
  const { toolCalls, rejected, handlerFailures } = await session.prompt("Go").result();
  assert.equal(toolCalls.length, 1);
  assert.deepEqual(toolCalls[0].arguments, { path: "a.txt" });
  assert.equal(typeof toolCalls[0].duration, "number");
  assert.equal(rejected[0].by, "no_handler");
  assert.equal(rejected[0].tool_call.name, "WriteFile");
  assert.deepEqual(handlerFailures, []);
});

const WRONG = [
  [{ onApproval: (_request, _context, _more) => "approve" }, /`onApproval`: the function is called with two arguments/],
  [{ hooks: [{ event: "Stop", handler: (_a, _b, _c) => undefined }] }, /the handler of `Stop` is called with two/],
  [{ hooks: [{ event: "Stop", matcher: "(", handler: () => undefined }] }, /missing \), unterminated subpattern/],
];

for (const [options, text] of WRONG) {
  test(`handler that cannot work is refused: ${text}`, async () => {
    const opening = async () => createSession({ executable: scriptedAgent([]), ...options });
    await assert.rejects(opening, (error) => error instanceof InvalidOption && text.test(error.message));
  });
}
