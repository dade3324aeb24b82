/** The additions of the SDK to the agent's messages: the tool call, the session of a request, and sums of tokens. */

import type { RequestOrigin } from "./addon.js";
import { show, wrongOption } from "./arguments.js";
import type { Event, EventOf, TokenUsage, ToolCallInfo } from "./wire.js";

/** The tokens of a turn or of a session. */
export interface Usage extends TokenUsage {
  /** The sum of input and output, from the cache or not. */
  readonly total: number;
}

/** Adds the sum. */
export function withTotal(usage: TokenUsage): Usage {
  const { input_other, output, input_cache_read, input_cache_creation } = usage;
  return { ...usage, total: input_other + output + input_cache_read + input_cache_creation };
}

/** The addon puts the tool call into this property, behind all fields of the agent's. */
interface WithToolCall {
  $tool_call?: ToolCallInfo | null;
}

/** Makes the tool call of a message its property `tool_call`, which is not enumerable: it is not part of the message. */
export function revealToolCall<T extends object>(message: T): T {
  const { $tool_call: call } = message as WithToolCall;
  if (call === undefined) return message;
  delete (message as WithToolCall).$tool_call;
  if (call !== null) {
    Object.defineProperty(message, "tool_call", { value: call, enumerable: false, configurable: true });
  }
  return message;
}

/** The same for an event, also for one of a subagent. */
export function revealEvent(event: Event): Event {
  switch (event.type) {
    case "ToolResult":
    case "ApprovalRequest":
      revealToolCall(event.payload);
      break;
    case "SubagentEvent":
      revealEvent(event.payload.event);
  }
  return event;
}

/** A request that is to be answered: its event, its payload, or its id. `T` is the type of the request. */
export type RequestReference<T extends Answerable = Answerable> = EventOf<T> | EventOf<T>["payload"] | string;

/** The types of requests that `respond()` answers. */
type Answerable = "ApprovalRequest" | "QuestionRequest";

/** Which session a delivered request belongs to. A copy of the request is not in here: only its id says which one it is. */
const origins = new WeakMap<object, RequestOrigin>();

/** Remembers the origin of a request, for its event and for its payload. */
export function setOrigin(request: unknown, origin: RequestOrigin): void {
  if (typeof request !== "object" || request === null) return;
  origins.set(request, origin);
  const { payload } = request as { payload?: unknown };
  if (typeof payload === "object" && payload !== null) origins.set(payload, origin);
}

/** The id of a request and, unless it is a copy or only an id, its origin. */
export function requestReference(request: RequestReference): [id: string, origin: RequestOrigin | undefined] {
  const given: unknown = request;
  if (typeof given === "string") return [given, undefined];
  if (typeof given === "object" && given !== null) {
    const { id, payload } = given as { id?: unknown; payload?: { id?: unknown } };
    const found = payload?.id ?? id;
    const origin = origins.get(given) ?? (typeof payload === "object" ? origins.get(payload) : undefined);
    if (typeof found === "string") return [found, origin];
  }
  const expected = "expected the event of the request that is to be answered, its payload or its id";
  throw wrongOption("request", `${expected}; got ${show(given)}`);
}
