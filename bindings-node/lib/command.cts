#!/usr/bin/env node
/** The command `kimi-agent`, as `npx kimi-agent` runs it. */

import { loadNative } from "./native.js";

process.exitCode = loadNative().runCommand(["kimi-agent", ...process.argv.slice(2)]);
