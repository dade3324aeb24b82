// Turns the events of a turn into chunks of the AI SDK's UI message stream.

const FINISH_REASONS = { finished: "stop", max_steps_reached: "length" };

export async function* uiMessageChunks(turn) {
  let parts = 0;
  let part; // The text or the reasoning that is being streamed: { kind, id }.
  let call; // The tool call whose arguments are being streamed: { id, name, input }.
  let inStep = false;
  const calls = new Set();

  function* endPart() {
    if (part) yield { type: `${part.kind}-end`, id: part.id };
    part = undefined;
  }
  function* endCall() {
    if (call) {
      yield { type: "tool-input-available", toolCallId: call.id, toolName: call.name, input: parsed(call.input), dynamic: true };
    }
    call = undefined;
  }
  function* endStep() {
    yield* endPart();
    yield* endCall();
    if (inStep) yield { type: "finish-step" };
    inStep = false;
  }
  function* delta(kind, text) {
    if (part?.kind !== kind) {
      yield* endPart();
      part = { kind, id: String((parts += 1)) };
      yield { type: `${kind}-start`, id: part.id };
    }
    yield { type: `${kind}-delta`, id: part.id, delta: text };
  }
  function* inputDelta(text) {
    if (!call || !text) return;
    call.input += text;
    yield { type: "tool-input-delta", toolCallId: call.id, inputTextDelta: text };
  }

  yield { type: "start" };
  try {
    for await (const { type, payload } of turn) {
      if (type !== "ToolCallPart") yield* endCall();
      switch (type) {
        case "StepBegin":
          yield* endStep();
          inStep = true;
          yield { type: "start-step" };
          break;
        case "ContentPart":
          if (payload.type === "text") yield* delta("text", payload.text);
          if (payload.type === "think") yield* delta("reasoning", payload.think);
          break;
        case "ToolCall":
          yield* endPart();
          call = { id: payload.id, name: payload.function.name, input: "" };
          calls.add(call.id);
          yield { type: "tool-input-start", toolCallId: call.id, toolName: call.name, dynamic: true };
          yield* inputDelta(payload.function.arguments);
          break;
        case "ToolCallPart":
          yield* inputDelta(payload.arguments_part);
          break;
        case "ToolResult": {
          const { tool_call_id: toolCallId, return_value: result } = payload;
          // The AI SDK fails on the output of a call that it does not know.
          if (!calls.has(toolCallId)) break;
          if (result.is_error) yield { type: "tool-output-error", toolCallId, errorText: result.message || "The tool failed.", dynamic: true };
          else yield { type: "tool-output-available", toolCallId, output: result.output, dynamic: true };
          break;
        }
      }
    }
    const { status } = await turn.result();
    yield* endStep();
    if (status === "cancelled") yield { type: "abort" };
    else yield { type: "finish", finishReason: FINISH_REASONS[status] ?? "other" };
  } catch (error) {
    // The code, not the message: messages can contain paths of this machine.
    console.error(error);
    yield { type: "error", errorText: error.code ?? "internal_error" };
  }
}

/** The arguments of a call: those that are no JSON stay text. */
function parsed(text) {
  try {
    return JSON.parse(text || "{}");
  } catch {
    return text;
  }
}
