#!/usr/bin/env node
/** The command `kimi-agent`, as `npx kimi-agent` runs it. */

import { loadNative } from "./native.js";

// The command handles Ctrl-C itself. Without a listener, Node would end the process before it.
process.on("SIGINT", () => undefined);
process.exitCode = loadNative().runCommand(["kimi-agent", ...process.argv.slice(2)]);
