/** The types of the scripted agent's scripts. `docs/reference/scripted-agent.md` describes every action. */

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
      /** The output for the model. Default: empty. */
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
  /** The kind of action, for example `run command`. Default: `use NAME`, with the name of the tool. */
  action?: string | undefined;
  /** The action in detail, for example the command. Default: `Use NAME`. */
  description?: string | undefined;
  /** Blocks that show the action. Default: none. */
  display?: readonly DisplayBlock[] | undefined;
  /** The id of the request. Default: generated. */
  id?: string | undefined;
  /** The name of the tool that asks. Default: the tool of the call. */
  sender?: string | undefined;
  /** Whether a turn or an agent in the background asks. Default: absent. */
  source_kind?: "foreground_turn" | "background_agent" | undefined;
  /** The id of the turn or agent that asks. Default: absent. */
  source_id?: string | undefined;
  /** The id of the subagent that asks. Default: absent. */
  agent_id?: string | undefined;
  /** The kind of subagent that asks. Default: absent. */
  subagent_type?: string | undefined;
  /** A description of the source. Default: absent. */
  source_description?: string | undefined;
  /**
   * Over ACP: further fields of the request's `toolCall`, for example `rawInput` and `kind`, which may differ from the
   * call. Over other protocols the request shows the command of `rawInput`. Default: absent.
   */
  tool_call?: Readonly<Record<string, unknown>> | undefined;
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
  effect?:
    | {
        /** The path of the file. */
        write_file: string;
        /** The content of the file. Default: empty. */
        content?: string | undefined;
      }
    | undefined;
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
  /** The questions, in order. */
  questions: readonly {
    /** The text of the question. The answer is given under this text. */
    question: string;
    /** A short label for the question. Default: absent. */
    header?: string | undefined;
    /** The choices; a text is the label of a choice. */
    options: readonly (
      | string
      | {
          /** The text of the choice, which is also the answer. */
          label: string;
          /** The meaning of the choice. Default: empty. */
          description?: string | undefined;
        }
    )[];
    /** Whether several options may be chosen. Default: `false`. */
    multi_select?: boolean | undefined;
    /** Markdown to show above the options. Default: absent. */
    body?: string | undefined;
    /** The label of the option to type an own answer. Default: absent. */
    other_label?: string | undefined;
    /** The description of the option to type an own answer. Default: absent. */
    other_description?: string | undefined;
  }[];
  /** The id of the call. Default: `tc_1`, `tc_2`, … */
  id?: string | undefined;
  /** The id of the request. Default: generated. */
  request_id?: string | undefined;
  /** How many `ToolCallPart`s carry the arguments of the call. Default: 0, the call itself carries them. */
  split?: number | undefined;
}

/** An action that calls a tool or asks the user. */
export type ScriptCall =
  | {
      /** Calls a tool of the agent. */
      tool_call: ScriptToolCall;
    }
  | {
      /** Calls a tool of the program. */
      external_tool: ScriptExternalTool;
    }
  | {
      /** Asks the user. */
      question: ScriptQuestion;
    };

/** A signal that ends a process. */
export type ScriptSignal =
  | "HUP" | "INT" | "QUIT" | "ABRT" | "KILL" | "SEGV" | "TERM"
  | "SIGHUP" | "SIGINT" | "SIGQUIT" | "SIGABRT" | "SIGKILL" | "SIGSEGV" | "SIGTERM";

/** How a turn ends. */
export type ScriptStatus = "finished" | "cancelled" | "max_steps_reached" | "truncated" | "refused";

/** One thing that the agent does: an object in which one key names the action, such as `{text: "Hello"}`. */
export type ScriptAction = ActionOptions &
  (
    | {
        /** Sends text: one piece, or a list of pieces, each as an event of its own. */
        text: string | readonly string[];
        /** Seconds between two pieces. Default: 0. */
        delay_between?: number | undefined;
      }
    | {
        /** Sends thinking: one piece, or a list of pieces, each as an event of its own. */
        think: string | readonly string[];
        /** Seconds between two pieces. Default: 0. */
        delay_between?: number | undefined;
      }
    | {
        /** Begins a step. A number sets the number of the step. */
        step: number | true | null;
      }
    | ScriptCall
    | {
        /** Calls that run in parallel. Their results arrive in the order in which they are ready. */
        parallel: readonly ScriptCall[];
      }
    | {
        /** Calls the hooks of the program. */
        hook: {
          /** The event, for example `Notification`. */
          event: string;
          /** The target of the event. Default: absent. */
          target?: string | undefined;
          /** The details of the event. Default: empty. */
          input_data?: object | undefined;
          /** Calls only the hook of this id, even if it does not exist. Default: all hooks on the event. */
          subscription_id?: string | undefined;
        };
      }
    | ({
        /** Sends a status with the tokens of the step. The action may have the other fields of a status, too. */
        usage: {
          /** Input tokens that were neither read from a cache nor written to one. Default: 0. */
          input_other?: number | undefined;
          /** Output tokens. Default: 0. */
          output?: number | undefined;
          /** Input tokens that were read from a cache. Default: 0. */
          input_cache_read?: number | undefined;
          /** Input tokens that were written to a cache. Default: 0. */
          input_cache_creation?: number | undefined;
        };
      } & Omit<StatusUpdate, "token_usage">)
    | {
        /** Sends a status. */
        status: StatusUpdate;
      }
    | {
        /** Sends an event. */
        event: {
          /** The type of the event. */
          type: string;
          /** The payload. Default: empty. */
          payload?: unknown;
        };
        /** Whether the event is sent as it is, also if the version of the protocol has no such event. Default: `false`. */
        verbatim?: boolean | undefined;
      }
    | {
        /** Sends a request. */
        request: {
          /** The type of the request. */
          type: string;
          /** The payload. Default: empty. */
          payload?: unknown;
        };
        /** The id of the request. Default: that of the payload, or generated. */
        id?: string | undefined;
        /** Whether the agent waits for the answer. Default: `true`. */
        wait?: boolean | undefined;
      }
    | {
        /** Over ACP: reads a file through the program. `last` is the answer, with `content` or `error`. */
        read_file: {
          /** The absolute path. */
          path: string;
          /** The first line, from 1 on. Default: the first line of the file. */
          line?: number | undefined;
          /** The number of lines. Default: all. */
          limit?: number | undefined;
        };
      }
    | {
        /** Over ACP: writes a file through the program. */
        write_file: {
          /** The absolute path. */
          path: string;
          /** The whole new content. */
          content: string;
        };
      }
    | {
        /** Over ACP: runs a command through the program, up to its end. `last` has its `output` and `exitStatus`, or `error`. */
        terminal: {
          /** The program to run. */
          command: string;
          /** The arguments. Default: none. */
          args?: readonly string[] | undefined;
          /** Environment variables for the command. Default: none. */
          env?: Readonly<Record<string, string>> | undefined;
          /** The absolute path of the directory to run it in. Default: that of the session. */
          cwd?: string | undefined;
          /** How many bytes of the end of the output the agent wants. Default: all that the program keeps. */
          output_byte_limit?: number | undefined;
        };
      }
    | {
        /** Writes a line as it is. An object builds a long line. */
        raw:
          | string
          | {
              /** The beginning of the line. Default: empty. */
              before?: string | undefined;
              /** The text that is repeated. */
              repeat: string;
              /** The number of repetitions. */
              times: number;
              /** The end of the line. Default: empty. */
              after?: string | undefined;
            };
      }
    | {
        /** Writes bytes without a line end, given in Base64. */
        raw_base64: string;
      }
    | {
        /** Ends the turn with this status. Later actions happen outside the turn. */
        end: ScriptStatus;
        /** With `"max_steps_reached"`: after how many steps. Default: as many as there were. */
        steps?: number | undefined;
        /** The word that the agent sends for the end, instead of that of the status. */
        stop_reason?: string | undefined;
      }
    | {
        /** Answers the prompt with an error. */
        error: {
          /** The code, for example -32003 if the model's service failed. */
          code: number;
          /** The message. Default: empty. */
          message?: string | undefined;
          /** Further data. Default: absent. */
          data?: unknown;
        };
      }
    | {
        /** Never answers the prompt. A cancel is still answered. */
        never_answer: true;
      }
    | {
        /** Waits for a cancel. An earlier cancel skips to this action. */
        wait_cancel: true;
      }
    | {
        /** Waits for a message of the user to the running turn. */
        wait_steer: true;
      }
    | {
        /** Waits until this file exists. The path is relative to the session's working directory. */
        wait_file: string;
      }
    | {
        /** Repeats actions. `{{round}}` in their texts is the number of the round. */
        repeat: {
          /** The number of rounds. */
          times: number;
          /** The actions of a round. */
          actions: readonly ScriptAction[];
        };
      }
    | {
        /** Writes this text to stderr. */
        stderr: string;
      }
    | {
        /** Ends the process with this exit code. */
        exit: number;
      }
    | {
        /** Ends the process by this signal. */
        signal: ScriptSignal;
      }
    | {
        /** Ignores this signal from now on. */
        ignore_signal: ScriptSignal;
      }
    | {
        /** Closes stdout. The process stays. */
        close_stdout: true;
      }
    | {
        /** As Kimi Code's server: breaks the program's WebSockets (`true`), loses its pongs, or sends nothing through them. */
        break_socket: true | "pongs" | "silence";
      }
    | {
        /** As Kimi Code's server: waits until a WebSocket has subscribed to the session. */
        wait_socket: true;
      }
    | {
        /** Ignores the end of stdin from now on. */
        ignore_eof: true;
      }
    | {
        /** Stops reading and writing. The process stays until a signal ends it. */
        stall: true;
      }
    | {
        /** Waits for so many seconds, and does nothing else. */
        delay: number;
      }
  );

/** The agent's actions for one prompt, or an object that also sets the end of the turn. */
export type ScriptTurn =
  | readonly ScriptAction[]
  | {
      /** The actions, in order. */
      actions: readonly ScriptAction[];
      /** How the turn ends after its actions. Default: `"finished"`. */
      status?: ScriptStatus | undefined;
      /** With `"max_steps_reached"`: after how many steps. Default: as many as there were. */
      steps?: number | undefined;
    };

/** A script as an object, which can say more than a list of turns. */
export interface ScriptObject {
  /** The turns, one for each prompt. Further prompts are answered with `(script exhausted)`. */
  turns?: readonly ScriptTurn[] | undefined;
  /** The protocol that the agent speaks. Default: the newest version of Wire. */
  wire?: WireVersion | "legacy" | "acp" | "kimi-web" | undefined;
  /** The release that the agent plays: of kimi-cli, or from `"2.0"` on of Kimi Code. */
  release?: string | undefined;
  /** The name and version in the handshake. */
  server?:
    | {
        /** The name of the agent. Default: that of the agent that is played. */
        name?: string | undefined;
        /** The version of the agent. Default: that of the release that is played. */
        version?: string | undefined;
      }
    | undefined;
  /** The commands in the handshake. Default: none. */
  slash_commands?:
    | readonly {
        /** The name of the command, without the slash. */
        name: string;
        /** A description of the command. */
        description: string;
        /** Other names of the command, without the slash. */
        aliases: readonly string[];
      }[]
    | undefined;
  /** Actions before anything is read. Default: none. */
  before_handshake?: readonly ScriptAction[] | undefined;
  /** Whether the agent can be steered. Default: decided by the version. */
  steer?: boolean | undefined;
  /** Whether the agent can ask questions. Default: decided by the version. */
  questions?: boolean | undefined;
  /** Whether the agent asks by a form, which has all questions, if it speaks ACP. Default: true. */
  forms?: boolean | undefined;
  /** Whether the agent takes the content of resources in a prompt, if it speaks ACP. Default: true. */
  embedded_context?: boolean | undefined;
  /** Whether the agent writes the files that Kimi Code writes about turns, if it speaks ACP. Default: false. */
  session_files?: boolean | undefined;
  /** The number of sessions in a page of their list, if the agent speaks ACP. Default: all sessions are one page. */
  sessions_per_page?: number | undefined;
  /** The login of the agent, if it speaks ACP. Default: sessions need none. */
  login?:
    | {
        /** Whether sessions need a login. Default: `true`. */
        required?: boolean | undefined;
        /** The ways in the handshake: the members of ACP. Of `variables`, which are not sent, one must be set for the login. */
        methods?:
          | readonly {
              /** The id of the way. */
              id: string;
              /** The variables of which one must be set. */
              variables?: readonly string[] | undefined;
              [member: string]: unknown;
            }[]
          | undefined;
      }
    | undefined;
  /** Whether the agent ignores what it does not understand, instead of refusing it. Default: decided by the release. */
  silent_errors?: boolean | undefined;
  /** Whether the agent reads nothing during a turn. Default: only with `wire: "legacy"`. */
  half_duplex?: boolean | undefined;
  /** The file that keeps the sessions, so that a later process can resume them. Default: none. */
  session_file?: string | undefined;
  /** Actions at a point of the conversation: after so many lines or bytes, or when a method is called. */
  cut?:
    | {
        /** The number of lines that the agent has written. */
        lines?: number | undefined;
        /** The number of bytes that the agent has written. */
        bytes?: number | undefined;
        /** The name of a method whose call has arrived and is not answered yet. */
        call?: string | undefined;
        /** The actions at this point. */
        actions: readonly ScriptAction[];
      }
    | undefined;
  /** Methods whose calls are ignored. Default: none. */
  deaf_to?: readonly string[] | undefined;
  /** How the agent behaves as Kimi Code's server, if that differs from the real one. */
  web?:
    | {
        /** The version in its first frame. Default: 2. */
        protocol_version?: number | undefined;
        /** Seconds between two pings. Default: 10. */
        heartbeat?: number | undefined;
        /** Calls that are answered with an HTTP status and nothing else, by their names. Default: none. */
        status?: Readonly<Record<string, number>> | undefined;
        /** Calls within a turn that are answered after it. Default: none. */
        late?: readonly string[] | undefined;
        /** Whether the server refuses the program's password. Default: `false`. */
        refuses?: boolean | undefined;
        /** Whether it is another program's server. Default: `false`. */
        foreign?: boolean | undefined;
      }
    | undefined;
}

/** A version of Wire that this SDK speaks. */
export type WireVersion = "1.0" | "1.1" | "1.2" | "1.3" | "1.4" | "1.5" | "1.6" | "1.7" | "1.8" | "1.9" | "1.10";

/** A whole script: a list of turns, or an object. */
export type Script = readonly ScriptTurn[] | ScriptObject;
