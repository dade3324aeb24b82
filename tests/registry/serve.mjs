// A registry of npm with the packages of a folder, for programs in other languages: `KIMI_AGENT_DIST=… node serve.mjs` prints its
// address, and ends when its stdin is closed.
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { publishAll, startRegistry } from "./registry.mjs";

const scratch = realpathSync(mkdtempSync(join(tmpdir(), "kimi-agent-registry-")));
const registry = await startRegistry(scratch);
try {
  await publishAll(registry, scratch);
  process.stdout.write(`${registry.address}\n`);
  await new Promise((resolve) => process.stdin.on("end", resolve).resume());
} finally {
  await registry.stop();
  rmSync(scratch, { recursive: true, force: true });
}
