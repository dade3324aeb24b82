#!/usr/bin/env node
/** The command `kimi-agent`, as `npx kimi-agent` runs it. */

import { isKimiAgentError } from "./errors.js";
import { loadNative, type NativeModule } from "./native.js";

/** Loads the native module. If it is missing, writes the reason without a stack. */
function load(): NativeModule | undefined {
  try {
    return loadNative();
  } catch (error) {
    if (!isKimiAgentError(error)) throw error;
    console.error(`${error.message} See ${error.help}`);
    return undefined;
  }
}

// The command handles Ctrl-C itself. Without a listener, Node would end the process before it.
process.on("SIGINT", () => undefined);
process.exitCode = load()?.runCommand(["kimi-agent", ...process.argv.slice(2)]) ?? 1;
