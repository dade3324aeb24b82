// The bridge to the AI SDK, read by the AI SDK's own client: its transport, its parser and its check of each chunk.
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";

import { DefaultChatTransport, readUIMessageStream } from "ai";

import { agent, startProgram } from "./helpers.mjs";

const SCRIPT = [
  [
    { think: ["Let me ", "look."] },
    { text: "I look." },
    { tool_call: { name: "ReadFile", arguments: { path: "README.md" }, split: 3, result: "# A project" } },
    { text: ["It is ", "a project."] },
    { tool_call: { name: "WriteFile", arguments: { path: "a.txt" }, approve: { description: "Write a.txt" } } },
  ],
  [{ text: "You said {{prompt}}." }],
  { actions: [{ text: "Too long." }], status: "max_steps_reached" },
  [{ text: "I feel " }, { error: { code: -32003, message: "the model is down" } }],
  [{ text: "Stopped." }, { end: "cancelled" }],
  [{ text: "I feel " }, { exit: 3 }],
];

function userMessage(text) {
  return { id: "m1", role: "user", parts: [{ type: "text", text }] };
}

function send(server, text, abortSignal) {
  const transport = new DefaultChatTransport({ api: `${server.address}/api/chat` });
  return transport.sendMessages({
    trigger: "submit-message",
    chatId: "chat",
    messageId: undefined,
    messages: [userMessage(text)],
    abortSignal,
  });
}

/** The last state of the assistant's message, the errors, and the chunks of which it is made. */
async function read(stream) {
  const chunks = [];
  const errors = [];
  const recorded = stream.pipeThrough(
    new TransformStream({
      transform(chunk, controller) {
        chunks.push(chunk);
        controller.enqueue(chunk);
      },
    }),
  );
  let message;
  for await (const state of readUIMessageStream({ stream: recorded, onError: (error) => errors.push(error.message) })) {
    message = state;
  }
  return { message, errors, chunks };
}

/** The parts of a message as far as an interface shows them. */
function shown(message) {
  return message.parts.map(({ type, text, toolName, input, output, errorText, state }) =>
    type === "dynamic-tool" ? [toolName, input, state, output ?? errorText] : text === undefined ? type : [type, text, state],
  );
}

describe("the bridge to the AI SDK", { timeout: 60_000 }, () => {
  const servers = [];
  const start = async (script) => {
    const server = await startProgram(["ui-messages/server.mjs"], { KIMI_AGENT_EXECUTABLE: agent(script) }, { stderr: "ignore" });
    servers.push(server);
    return server;
  };
  after(() => {
    for (const server of servers) server.stop();
  });

  test("turn parts become message parts, and the turn's end ends the stream", async () => {
    const server = await start(SCRIPT);
    const ask = async (text) => read(await send(server, text));

    const looked = await ask("Look");
    assert.equal(looked.message.role, "assistant");
    assert.deepEqual(shown(looked.message), [
      "step-start",
      ["reasoning", "Let me look.", "done"],
      ["text", "I look.", "done"],
      ["ReadFile", { path: "README.md" }, "output-available", "# A project"],
      "step-start",
      ["text", "It is a project.", "done"],
      ["WriteFile", { path: "a.txt" }, "output-error", "Rejected by the user."],
    ]);
    assert.deepEqual(looked.errors, []);
    assert.deepEqual(looked.chunks.at(-1), { type: "finish", finishReason: "stop" });
    assert.equal(looked.chunks.filter(({ type }) => type === "tool-input-delta").length, 4);

    const said = await ask("hello");
    assert.deepEqual(shown(said.message), ["step-start", ["text", "You said hello.", "done"]]);
    const long = await ask("On");
    assert.deepEqual(long.chunks.at(-1), { type: "finish", finishReason: "length" });
    const failed = await ask("On");
    assert.deepEqual(failed.errors, ["llm_service_error"]);
    assert.deepEqual(shown(failed.message), ["step-start", ["text", "I feel ", "streaming"]]);
    const stopped = await ask("On");
    assert.deepEqual(stopped.chunks.at(-1), { type: "abort" });
    const crashed = await ask("On");
    assert.deepEqual(crashed.errors, ["agent_exited"]);
    const again = await ask("Look");
    assert.deepEqual(shown(again.message), shown(looked.message));
  });

  test("a client that stops cancels its turn, and the chat goes on", async () => {
    const server = await start([[{ text: "I wait." }, { wait_cancel: true }], [{ text: "Hello again." }]]);
    const client = new AbortController();
    const stream = await send(server, "Wait", client.signal);
    const stopped = (async () => {
      for await (const chunk of stream) if (chunk.type === "text-delta") client.abort();
    })();
    await assert.rejects(stopped, { name: "AbortError" });
    const { message } = await read(await send(server, "Are you there?"));
    assert.deepEqual(shown(message), ["step-start", ["text", "Hello again.", "done"]]);
  });
});
