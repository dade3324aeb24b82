/** The types of the scripted agent's scripts. `docs/testing.md` describes every action. */

import type { Content, DisplayBlock, StatusUpdate } from "./wire.js";

/** Fields that every action may have. */
export interface ActionOptions {
  /** How long the agent waits before the action, in seconds. Default: 0. */
  delay?: number | undefined;
  /** Whether the action's messages are written in one piece. Default: `false`. */
  bulk?: boolean | undefined;
}

/** The result of a scripted tool call: text (the output), or its fields. */
export type ScriptResult =
  | string
  | {
      /** What the model gets to read. Default: empty. */
      output?: Content | undefined;
      /** A note on the result. Default: empty. */
      message?: string | undefined;
      /** Whether the call failed. Default: `false`. */
      is_error?: boolean | undefined;
      /** Blocks for display. Default: none. */
      display?: readonly DisplayBlock[] | undefined;
      /** Further fields. */
      extras?: object | undefined;
    };

/** Fields of the approval request that a scripted tool call makes. */
export interface ScriptApproval {
  action?: string | undefined;
  description?: string | undefined;
  display?: readonly DisplayBlock[] | undefined;
  id?: string | undefined;
  sender?: string | undefined;
  source_kind?: "foreground_turn" | "background_agent" | undefined;
  source_id?: string | undefined;
  agent_id?: string | undefined;
  subagent_type?: string | undefined;
  source_description?: string | undefined;
}

/** A call of one of the agent's own tools. */
export interface ScriptToolCall {
  /** The tool. */
  name: string;
  /** The id of the call. Default: `tc_1`, `tc_2`, … */
  id?: string | undefined;
  /** An object, or text that is passed on as it is. Default: `{}`. */
  arguments?: unknown;
  /** How many `ToolCallPart`s carry the arguments. Default: 0, the call itself carries them. */
  split?: number | undefined;
  /** Whether the agent asks before the call, and what its request says. Default: it does not ask. */
  approve?: boolean | null | ScriptApproval | undefined;
  /** A file that the call writes; the path is relative to the session's working directory. */
  effect?: { write_file: string; content?: string | undefined } | undefined;
  /** The result. Default: an empty success. */
  result?: ScriptResult | undefined;
  /** The result if the user rejects with feedback. */
  feedback_result?: ScriptResult | undefined;
}

/** A call of a tool of the program. */
export interface ScriptExternalTool {
  /** The tool's name. */
  name: string;
  /** The id of the call. Default: `tc_1`, `tc_2`, … */
  id?: string | undefined;
  /** An object, or text that is passed on as it is. Default: `{}`. */
  arguments?: unknown;
  /** How many `ToolCallPart`s carry the arguments. Default: 0. */
  split?: number | undefined;
  /** Whether the tool is called even if the program did not register it. Default: `false`. */
  force?: boolean | undefined;
}

/** Questions for the user. */
export interface ScriptQuestion {
  questions: readonly {
    question: string;
    header?: string | undefined;
    /** The choices; a text is the label of a choice. */
    options: readonly (string | { label: string; description?: string | undefined })[];
    multi_select?: boolean | undefined;
    body?: string | undefined;
    other_label?: string | undefined;
    other_description?: string | undefined;
  }[];
  /** The id of the call. */
  id?: string | undefined;
  /** The id of the request. */
  request_id?: string | undefined;
  split?: number | undefined;
}

/** An action that calls a tool or asks the user. */
export type ScriptCall =
  | { tool_call: ScriptToolCall }
  | { external_tool: ScriptExternalTool }
  | { question: ScriptQuestion };

/** A signal that ends a process. */
export type ScriptSignal =
  | "HUP" | "INT" | "QUIT" | "ABRT" | "KILL" | "SEGV" | "TERM"
  | "SIGHUP" | "SIGINT" | "SIGQUIT" | "SIGABRT" | "SIGKILL" | "SIGSEGV" | "SIGTERM";

/** How a turn ends. */
export type ScriptStatus = "finished" | "cancelled" | "max_steps_reached";

/** One thing that the agent does: an object in which one key names the action, such as `{text: "Hello"}`. */
export type ScriptAction = ActionOptions &
  (
    | { text: string | readonly string[]; delay_between?: number | undefined }
    | { think: string | readonly string[]; delay_between?: number | undefined }
    | { step: number | true | null }
    | ScriptCall
    | { parallel: readonly ScriptCall[] }
    | {
        hook: {
          event: string;
          target?: string | undefined;
          input_data?: object | undefined;
          subscription_id?: string | undefined;
        };
      }
    | ({
        usage: {
          input_other?: number | undefined;
          output?: number | undefined;
          input_cache_read?: number | undefined;
          input_cache_creation?: number | undefined;
        };
      } & Omit<StatusUpdate, "token_usage">)
    | { status: StatusUpdate }
    | { event: { type: string; payload?: unknown }; verbatim?: boolean | undefined }
    | { request: { type: string; payload?: unknown }; id?: string | undefined; wait?: boolean | undefined }
    | {
        raw: string | { before?: string | undefined; repeat: string; times: number; after?: string | undefined };
      }
    | { raw_base64: string }
    | { end: ScriptStatus; steps?: number | undefined }
    | { error: { code: number; message?: string | undefined; data?: unknown } }
    | { never_answer: true }
    | { wait_cancel: true }
    | { wait_steer: true }
    | { wait_file: string }
    | { repeat: { times: number; actions: readonly ScriptAction[] } }
    | { stderr: string }
    | { exit: number }
    | { signal: ScriptSignal }
    | { ignore_signal: ScriptSignal }
    | { close_stdout: true }
    | { ignore_eof: true }
    | { stall: true }
    | { delay: number }
  );

/** What the agent does about one prompt: its actions, or an object that also says how the turn ends. */
export type ScriptTurn =
  | readonly ScriptAction[]
  | {
      actions: readonly ScriptAction[];
      /** How the turn ends after its actions. Default: `"finished"`. */
      status?: ScriptStatus | undefined;
      /** With `"max_steps_reached"`: after how many steps. Default: as many as there were. */
      steps?: number | undefined;
    };

/** A script as an object, which can say more than a list of turns. */
export interface ScriptObject {
  /** What the agent does, one turn for each prompt. Further prompts are answered with `(script exhausted)`. */
  turns?: readonly ScriptTurn[] | undefined;
  /** The protocol that the agent speaks. Default: the newest version of Wire. */
  wire?: WireVersion | "legacy" | "acp" | undefined;
  /** The release that the agent plays: of kimi-cli, or from `"2.0"` on of Kimi Code. */
  release?: string | undefined;
  /** The name and version in the handshake. */
  server?: { name?: string | undefined; version?: string | undefined } | undefined;
  /** The commands in the handshake. Default: none. */
  slash_commands?: readonly { name: string; description: string; aliases: readonly string[] }[] | undefined;
  /** Actions before anything is read. Default: none. */
  before_handshake?: readonly ScriptAction[] | undefined;
  /** Whether the agent can be steered. Default: decided by the version. */
  steer?: boolean | undefined;
  /** Whether the agent can ask questions. Default: decided by the version. */
  questions?: boolean | undefined;
  /** Whether the agent ignores what it does not understand, instead of refusing it. Default: decided by the release. */
  silent_errors?: boolean | undefined;
  /** Whether the agent reads nothing during a turn. Default: only with `wire: "legacy"`. */
  half_duplex?: boolean | undefined;
  /** The file that keeps the sessions, so that a later process can resume them. Default: none. */
  session_file?: string | undefined;
  /** Actions at a point of the conversation: after so many lines or bytes, or when a method is called. */
  cut?:
    | {
        lines?: number | undefined;
        bytes?: number | undefined;
        call?: string | undefined;
        actions: readonly ScriptAction[];
      }
    | undefined;
  /** Methods whose calls are ignored. Default: none. */
  deaf_to?: readonly string[] | undefined;
}

/** A version of Wire that this SDK speaks. */
export type WireVersion = "1.0" | "1.1" | "1.2" | "1.3" | "1.4" | "1.5" | "1.6" | "1.7" | "1.8" | "1.9" | "1.10";

/** A whole script: a list of turns, or an object. */
export type Script = readonly ScriptTurn[] | ScriptObject;
