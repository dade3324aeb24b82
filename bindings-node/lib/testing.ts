/**
 * The scripted agent: an agent that follows a script, needs no key and no network, and is started as a process like the
 * real one.
 *
 * @module kimi-agent/testing
 */

import type { PrivateFolder } from "./addon.js";
import { show, toJson, wrongOption } from "./arguments.js";
import { callNative, type InvalidOption, Unsupported } from "./errors.js";
import { installedFile, loadNative } from "./native.js";
import { path } from "./node.js";
import type { Script } from "./script.js";

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
 * @param script - The script, or the path of a JSON file that holds it.
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
export function scriptedAgent(script: Script | string): string[] {
  const isPath = typeof script === "string";
  const text = isPath ? absolutePath(script) : scriptText(script);
  callNative(() => {
    loadNative().checkScript(text, isPath);
  });
  const program = installedFile("dist/scripted-agent.cjs", "the scripted agent");
  return [...interpreter(), program, isPath ? text : writeScript(text)];
}

function absolutePath(file: string): string {
  try {
    return path.resolve(file);
  } catch (error) {
    const reason = "the current directory does not exist any more; pass an absolute path";
    throw wrongScript(`${show(file)} is a relative path, and ${reason}`, error);
  }
}

interface DenoGlobal {
  Deno?: { build?: { standalone?: boolean } };
}

/** The command that runs a program of JavaScript: this process's own, which in Deno needs `run` and permissions. */
function interpreter(): string[] {
  if (process.versions["deno"] === undefined) return [process.execPath];
  if ((globalThis as DenoGlobal).Deno?.build?.standalone === true) {
    const reason = "a program that `deno compile` made cannot run another file; use `deno run` or `deno test`";
    throw new Unsupported(`scriptedAgent() starts the scripted agent with Deno, and ${reason}`);
  }
  return [process.execPath, "run", "--allow-all", "--no-config"];
}

function scriptText(script: unknown): string {
  if (typeof script !== "object" || script === null) {
    const expected = "a list of turns, an object with `turns`, or the path of a JSON file";
    throw wrongScript(`expected ${expected}; got ${show(script)}`);
  }
  try {
    return toJson(script);
  } catch (error) {
    throw wrongScript(`it has no JSON form: ${String(error)}`, error);
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
