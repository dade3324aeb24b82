/**
 * The scripted agent: an agent that follows a script, needs no key and no network, and is started as a process like the
 * real one. Instead of a script, it can play a recording, and {@link cassette} makes a recording a test.
 *
 * @module kimi-agent/testing
 */

import type { PrivateFolder } from "./addon.js";
import { givenPath, show, toJson, wrongOption } from "./arguments.js";
import { atCaller } from "./call-site.js";
import type { InvalidOption } from "./errors.js";
import { callNative } from "./native-errors.js";
import { loadNative } from "./native.js";
import type { Script } from "./script.js";
import { absolutePath, player, program } from "./test-agents.js";
import { textOf } from "./values.js";

export { type Cassette, cassette, type CassetteOptions } from "./cassette.js";
export type {
  ActionOptions,
  Script,
  ScriptAction,
  ScriptApproval,
  ScriptCall,
  ScriptExternalTool,
  ScriptObject,
  ScriptQuestion,
  ScriptResult,
  ScriptSignal,
  ScriptStatus,
  ScriptToolCall,
  ScriptTurn,
} from "./script.js";

let folder: PrivateFolder | undefined;
let scripts = 0;

/**
 * Returns the value of the option `executable` for an agent that follows a script.
 *
 * @param script - The script, or the path or file URL of a JSON file that holds it.
 * @returns The command line of the agent. A script that is not a file is written to a private file, which is deleted when
 * this process exits.
 * @throws {InvalidOption} if the script is wrong or cannot be read; the message has the place and the problem.
 * @throws {Unsupported} if `deno compile` made the program. Under Deno, the program itself needs `deno run -A`.
 *
 * @example
 * ```ts
 * const session = await createSession({ executable: scriptedAgent([[{ text: "Hello" }]]) });
 * ```
 */
export function scriptedAgent(script: Script | string | URL): string[] {
  return atCaller(scriptedAgent, () => {
    const expected = "the path of a JSON file, or its file URL";
    const file = givenPath("script", script, expected);
    const isPath = file !== undefined;
    const text = isPath ? absolutePath(file, "script", expected) : scriptText(script);
    callNative(() => {
      loadNative().checkScript(text, isPath);
    });
    return [...program("scriptedAgent"), isPath ? text : writeScript(text)];
  });
}

/** Options of {@link replayedAgent}. */
export interface ReplayOptions {
  /**
   * With `"verify"`, the agent compares the prompts, the other calls and the answers of the program with the recording.
   * Ids, times, secrets and versions do not count. The first difference fails the turn with `RpcError`, whose message has
   * the turn, the call, the expected value and the actual one. The agent writes it to stderr, too, and exits with code 1.
   * It also does so at the end of the session if the program has left out something. With `"stub"`, the agent reports the
   * results that the tools of the program return now, instead of the recorded results; the answers of the model and the
   * tools of the agent stay as recorded. Default: `"replay"`.
   */
  mode?: "replay" | "verify" | "stub";
}

/**
 * Returns the value of the option `executable` for an agent that plays a recording, which the option `record` wrote. It
 * needs no model, no key and no network.
 *
 * The agent sends each recorded message as soon as the calls and answers have come that the recording has before it. The
 * place of a cancel and of a steer may differ. The protocol is that of the recording, so `dialect` can be left out. If the
 * program sends more prompts than the recording has, the next prompt fails with `RpcError`.
 *
 * The file is read when a session is opened. If it is missing or not a recording, that throws `InvalidOption`.
 *
 * @param file - The path or file URL of a recording, made by a program in Node, Python or Rust.
 * @param options - The mode.
 * @returns The command line of the agent.
 * @throws {InvalidOption} if `file` is neither a path nor a file URL, `mode` has another value, or an option is unknown.
 * @throws {Unsupported} if `deno compile` made the program.
 *
 * @example
 * ```ts
 * const session = await createSession({ executable: replayedAgent("tests/recordings/greeting.jsonl") });
 * ```
 */
export function replayedAgent(file: string | URL, options: ReplayOptions = {}): string[] {
  return atCaller(replayedAgent, () => player(file, options));
}

function scriptText(script: unknown): string {
  if (typeof script !== "object" || script === null) {
    const expected = "a list of turns, an object with `turns`, or the path or file URL of a JSON file";
    throw wrongScript(`expected ${expected}; got ${show(script)}`);
  }
  try {
    return toJson(script);
  } catch (error) {
    throw wrongScript(`it has no JSON form: ${textOf(error)}`, error);
  }
}

function wrongScript(problem: string, cause?: unknown): InvalidOption {
  return wrongOption("script", problem, cause);
}

function writeScript(text: string): string {
  const files = (folder ??= newFolder());
  scripts += 1;
  const name = `script-${String(scripts)}.json`;
  return callNative(() => files.write(name, text));
}

function newFolder(): PrivateFolder {
  const files = new (loadNative().PrivateFolder)();
  process.once("exit", () => {
    files.remove();
  });
  return files;
}
