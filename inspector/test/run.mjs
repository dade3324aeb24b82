// Compiles the unit tests and runs them.

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const sources = readdirSync(here).filter((name) => name.endsWith(".test.ts"));
const out = join(here, "../dist/test");
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({
  entryPoints: sources,
  absWorkingDir: here,
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  logLevel: "warning",
});
process.exit(
  spawnSync(process.execPath, ["--test", ...sources.map((name) => join(out, name.replace(/ts$/, "mjs")))], {
    stdio: "inherit",
  }).status ?? 1,
);
