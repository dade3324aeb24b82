// Compiled, never run: unions are exhaustive, and narrow.
import type {
  ApprovalRequest,
  ContentPart,
  DisplayBlock,
  Event,
  EventOf,
  RequestEvent,
  ToolCall,
  UnknownContentPart,
  UnknownDisplayBlock,
  UnknownEvent,
  UnknownWord,
} from "kimi-agent";

export function every(event: Event): string {
  switch (event.type) {
    case "TurnBegin":
      return typeof event.payload.user_input === "string" ? event.payload.user_input : part(event.payload.user_input[0]);
    case "TurnEnd":
      return String(event.payload.synthesized ?? false);
    case "SteerInput":
      return typeof event.payload.user_input;
    case "StepBegin":
      return event.payload.n.toFixed();
    case "StepRetry":
      return event.payload.error_type;
    case "StatusUpdate":
      return (event.payload.token_usage?.output ?? 0).toFixed();
    case "Notification":
      return event.payload.title;
    case "PlanDisplay":
      return event.payload.file_path;
    case "Plan":
      return event.payload.entries.map(({ content, status }) => content + status).join();
    case "HookTriggered":
    case "HookResolved":
      return event.payload.target ?? "";
    case "BtwBegin":
      return event.payload.question;
    case "BtwEnd":
      return event.payload.response ?? "";
    case "ContentPart":
      return part(event.payload);
    case "ToolCall":
      return event.payload.function.name;
    case "ToolCallPart":
      return event.payload.arguments_part ?? "";
    case "ToolResult":
      return event.payload.return_value.display.map(display).join();
    case "ApprovalResponse":
      return event.payload.response;
    case "SubagentEvent":
      return every(event.payload.event);
    case "PolicyDecision":
      return event.payload.decision;
    case "HandlerFailed":
      return event.payload.message;
    case "ApprovalRequest":
      return event.payload.action;
    case "ToolCallRequest":
      return event.payload.name;
    case "QuestionRequest":
      return event.payload.questions.map(({ options }) => options.map(({ label }) => label)).join();
    case "HookRequest":
      return event.payload.subscription_id;
    case "ReadFileRequest":
    case "WriteFileRequest":
      return event.payload.path;
    case "TerminalRequest":
      return event.payload.command;
    case "UnknownEvent":
      return event.payload.error ?? JSON.stringify(event.payload.payload);
    case "StepInterrupted":
    case "CompactionBegin":
    case "CompactionEnd":
    case "MCPLoadingBegin":
    case "MCPLoadingEnd":
      return event.type;
    default: {
      const nothing: never = event;
      return nothing;
    }
  }
}

export function forgetful(event: Event): void {
  switch (event.type) {
    case "TurnBegin":
      break;
    default: {
      // @ts-expect-error -- most types are missing
      const nothing: never = event;
      void nothing;
    }
  }
}

export function part(value: ContentPart | undefined): string {
  if (!value) return "";
  switch (value.type) {
    case "text":
      return value.text;
    case "think":
      return value.think + (value.encrypted ?? "");
    case "image_url":
      return value.image_url.url;
    case "audio_url":
      return value.audio_url.url;
    case "video_url":
      return value.video_url.id ?? "";
    case "resource":
      return value.uri + (value.text ?? value.data ?? value.name ?? "");
    default: {
      const unknown: UnknownContentPart = value;
      return String(unknown["anything"]);
    }
  }
}

function display(block: DisplayBlock): string {
  switch (block.type) {
    case "brief":
      return block.text;
    case "diff":
      return block.new_text;
    case "todo":
      return block.items.map(({ status }) => word(status)).join();
    case "shell":
      return block.command;
    case "background_task":
      return block.task_id;
    default: {
      const unknown: UnknownDisplayBlock = block;
      return unknown.type;
    }
  }
}

function word(status: "pending" | "in_progress" | "done" | UnknownWord): string {
  switch (status) {
    case "pending":
    case "in_progress":
    case "done":
      return status;
    default: {
      const unknown: UnknownWord = status;
      return unknown;
    }
  }
}

export const text: ContentPart = { type: "text", text: "hello" };
// @ts-expect-error -- there is no such part
export const misspelt: ContentPart = { type: "txt", text: "hello" };
// @ts-expect-error -- a text part has a text
export const empty: ContentPart = { type: "text" };
export const call: EventOf<"ToolCall">["payload"] = {} as ToolCall;
export const request: RequestEvent["payload"] = {} as ApprovalRequest;
export const unknown: EventOf<"UnknownEvent">["payload"] = {} as UnknownEvent;
// @ts-expect-error -- a field of another type of event
export const wrong = (event: EventOf<"ToolCall">): number => event.payload.n;
