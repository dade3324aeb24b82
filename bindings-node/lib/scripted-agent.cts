/** The scripted agent as a program: `node scripted-agent.cjs SCRIPT.json …`, or `--play-recording RECORDING.jsonl …`. */

import { loadNative } from "./native.js";

process.exit(loadNative().runScriptedAgent(process.argv.slice(2)));
