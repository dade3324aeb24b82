// Runs all tests: `test.mjs [--smoke] [ARGUMENT OF NODE…]`. The names are listed here, because the shell of Windows does not
// expand patterns. With `--smoke` only the tests of what depends on the release of Node.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const SMOKE = ["agent", "collection", "forgotten", "iteration", "lifecycle", "native", "package", "stack", "warnings"];
const given = process.argv.slice(2);
const all = readdirSync(join(root, "test")).filter((name) => name.endsWith(".test.mjs"));
const files = given.includes("--smoke") ? SMOKE.map((name) => `${name}.test.mjs`) : all;
// Several files at once: they wait for agents more than they compute.
const options = ["--test-reporter=spec", "--test-concurrency=3", ...given.filter((argument) => argument !== "--smoke")];
const argv = ["--test", ...options, ...files.map((name) => join("test", name))];
const { status } = spawnSync(process.execPath, argv, { cwd: root, stdio: "inherit" });
process.exit(status ?? 1);
