/**
 * The scripted agent: an agent that follows a script, needs no key and no network, and is started as a process like the
 * real one.
 *
 * @packageDocumentation
 */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

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

let directory: string | undefined;
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
  if (directory === undefined) {
    const created = mkdtempSync(join(tmpdir(), "kimi-agent-"));
    directory = created;
    process.once("exit", () => {
      rmSync(created, { recursive: true, force: true });
    });
  }
  scripts += 1;
  const file = join(directory, `script-${String(scripts)}.json`);
  writeFileSync(file, JSON.stringify(script));
  return file;
}
