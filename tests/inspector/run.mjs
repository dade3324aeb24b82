// Compiles the tests, or the program of the screenshots, and runs them.

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const [program, ...rest] = process.argv.slice(2);
const sources = program ? [`${program}.ts`] : readdirSync(here).filter((name) => name.endsWith(".test.ts"));
// In this folder, so that the compiled programs find its packages.
const out = join(here, "dist");
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({
  entryPoints: sources,
  absWorkingDir: here,
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  packages: "external",
  platform: "node",
  format: "esm",
  target: "node20",
  logLevel: "warning",
});
const compiled = sources.map((name) => join(out, name.replace(/ts$/, "mjs")));
process.exit(
  spawnSync(process.execPath, [...(program ? [] : ["--test"]), ...compiled, ...rest], { cwd: here, stdio: "inherit" })
    .status ?? 1,
);
