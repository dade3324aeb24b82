// Runs the cases under Jest, as CommonJS and as ES modules, and in the pools of vitest that run tests in contexts of their own.
import { spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.dirname(fileURLToPath(import.meta.url));
const modules = path.join(root, "node_modules");
const vitest = path.join(modules, "vitest", "vitest.mjs");
const jest = (suite) => ["--experimental-vm-modules", "--no-warnings", path.join(modules, "jest", "bin", "jest.js"), "-i", suite];
const inPool = (pool) => [vitest, "run", `--pool=${pool}`, "--no-file-parallelism", "suites/vitest.test.mjs"];

const runs = {
  // The first: vitest ends its forks by a signal, and the next program that opens a session deletes what they leave.
  "vitest, vmForks": inPool("vmForks"),
  "Jest, CommonJS": jest("suites/jest.test.cjs"),
  "Jest, ES modules": jest("suites/jest.test.mjs"),
  "vitest, vmThreads": inPool("vmThreads"),
};
for (const [name, argv] of Object.entries(runs)) {
  const { status, stdout, stderr } = spawnSync(process.execPath, argv, { cwd: root, encoding: "utf8" });
  if (status !== 0) {
    console.error(`${name} failed:\n${stdout}${stderr}`);
    process.exit(1);
  }
  console.log(`${name}: passed`);
}
