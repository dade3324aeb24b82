// Runs all tests: `test.mjs [ARGUMENT OF NODE…]`. The names are listed here, because the shell of Windows does not expand patterns.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const files = readdirSync(join(root, "test")).filter((name) => name.endsWith(".test.mjs"));
const argv = ["--test", ...process.argv.slice(2), ...files.map((name) => join("test", name))];
const { status } = spawnSync(process.execPath, argv, { cwd: root, stdio: "inherit" });
process.exit(status ?? 1);
