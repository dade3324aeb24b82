/**
 * The scripted agent: an agent that follows a script, needs no key and no network, and is started as a process like the
 * real one.
 *
 * @packageDocumentation
 */

import { join, resolve } from "node:path";

import { translated } from "./errors.js";
import { loadNative, type NativeFolder } from "./native.js";
import type { JsonObject } from "./wire.js";

/** One thing that the agent does, such as `{text: "hello"}`; the key says what. */
export type ScriptAction = JsonObject;

/** What the agent does about one prompt. */
export type ScriptTurn = ScriptAction[] | { actions: ScriptAction[]; status?: string };

/** A whole script: turns, or turns with what the agent says of itself. */
export type Script =
  | ScriptTurn[]
  | {
      /** The version of Wire that the agent speaks. */
      wire?: string;
      /** The name and version that it tells. */
      server?: { name: string; version: string };
      slash_commands?: { name: string; description: string; aliases?: string[] }[];
      before_handshake?: ScriptAction[];
      turns?: ScriptTurn[];
      [more: string]: unknown;
    };

let folder: NativeFolder | undefined;
let scripts = 0;

/**
 * What goes into the option `executable` for an agent that follows a script, or the file that holds one:
 * `createSession({executable: scriptedAgent([[{text: "hello"}]])})`.
 */
export function scriptedAgent(script: Script | string): string[] {
  const file = typeof script === "string" ? resolve(script) : writeScript(script);
  return [process.execPath, join(__dirname, "scripted-agent.cjs"), file];
}

function writeScript(script: Script): string {
  const files = (folder ??= newFolder());
  scripts += 1;
  const [name, content] = [`script-${String(scripts)}.json`, JSON.stringify(script)] as const;
  return translated(() => files.write(name, content));
}

function newFolder(): NativeFolder {
  const files = new (loadNative().PrivateFolder)();
  process.once("exit", () => {
    files.remove();
  });
  return files;
}
