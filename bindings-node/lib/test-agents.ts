/** The command lines of the agents that the package contains. */

import { givenPath, knownOptions, show, wrongOption } from "./arguments.js";
import { Unsupported } from "./errors.js";
import { installedFile } from "./native.js";
import { path } from "./node.js";
import type { ReplayOptions } from "./testing.js";

/** The command line of an agent that plays a recording. A cassette is played by one session. */
export function player(file: string | URL, options: ReplayOptions, isCassette = false): string[] {
  const expected = "the path of a recording, or its file URL";
  const given = givenPath("file", file, expected);
  if (given === undefined) throw wrongOption("file", `expected ${expected}; got ${show(file)}`);
  knownOptions("replayedAgent()", options, ["mode"]);
  const mode: unknown = options.mode ?? "replay";
  if (mode !== "replay" && mode !== "verify" && mode !== "stub") {
    throw wrongOption("mode", `expected "replay", "verify" or "stub"; got ${show(mode)}`);
  }
  const flags = [...(isCassette ? ["--cassette"] : []), ...(mode === "replay" ? [] : [`--${mode}`])];
  return [...program("replayedAgent"), "--play-recording", absolutePath(given, "file", expected), ...flags];
}

/** The command of the scripted agent, without its arguments. `caller` is the function that needs it. */
export function program(caller: string): string[] {
  return [...interpreter(caller), installedFile("dist/scripted-agent.cjs", "the scripted agent")];
}

export function absolutePath(file: string, option: string, expected: string): string {
  if (file === "") throw wrongOption(option, `expected ${expected}; got an empty text`);
  try {
    return path.resolve(file);
  } catch (error) {
    const reason = "the current directory does not exist any more; pass an absolute path";
    throw wrongOption(option, `${show(file)} is a relative path, and ${reason}`, error);
  }
}

interface DenoGlobal {
  Deno?: { build?: { standalone?: boolean } };
}

/** The command that runs a program of JavaScript: this process's own, which in Deno needs `run` and permissions. */
function interpreter(caller: string): string[] {
  if (process.versions["deno"] === undefined) return [process.execPath];
  if ((globalThis as DenoGlobal).Deno?.build?.standalone === true) {
    const reason = "a program that `deno compile` made cannot run another file; use `deno run` or `deno test`";
    throw new Unsupported(`${caller}() starts the scripted agent with Deno, and ${reason}`);
  }
  return [process.execPath, "run", "--allow-all", "--no-config"];
}

