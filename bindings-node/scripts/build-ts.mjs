// Compiles lib/ to dist/. The sources are CommonJS and index.mts/testing.mts re-export them, so that a program
// that uses `import` and `require` at once still sees a single copy of every class.
import { spawnSync } from "node:child_process";
import { copyFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc");

rmSync(`${root}/dist`, { recursive: true, force: true });
const { status } = spawnSync(process.execPath, [compiler, "-p", "tsconfig.json"], { cwd: root, stdio: "inherit" });
if (status !== 0) process.exit(status ?? 1);
copyFileSync(`${root}/lib/package.json`, `${root}/dist/package.json`);
