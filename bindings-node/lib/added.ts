/** What the SDK adds to messages: the tool call that a request or a result is about. */

import type { Event, ToolCallInfo } from "./wire.js";

/** The addon hands out the call in this property, after all fields of the agent's. */
interface Carrier {
  $tool_call?: ToolCallInfo | null;
}

/** Makes the call that came with a message its property `tool_call`, which is not enumerable. */
export function revealCall<T extends object>(message: T): T {
  const carrier = message as Carrier;
  const call = carrier.$tool_call;
  if (call === undefined) return message;
  delete carrier.$tool_call;
  if (call !== null) {
    Object.defineProperty(message, "tool_call", { value: call, enumerable: false, configurable: true });
  }
  return message;
}

/** The same for an event, also for one of a subagent. */
export function revealed(event: Event): Event {
  switch (event.type) {
    case "ToolResult":
    case "ApprovalRequest":
      revealCall(event.payload);
      break;
    case "SubagentEvent":
      revealed(event.payload.event);
  }
  return event;
}
