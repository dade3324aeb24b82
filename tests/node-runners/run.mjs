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
  "Jest, CommonJS": jest("suites/jest.test.cjs"),
  "Jest, ES modules": jest("suites/jest.test.mjs"),
  "vitest, vmThreads": inPool("vmThreads"),
  "vitest, vmForks": inPool("vmForks"),
};
for (const [name, argv] of Object.entries(runs)) {
  const { status, stdout, stderr } = spawnSync(process.execPath, argv, { cwd: root, encoding: "utf8" });
  if (status !== 0) {
    console.error(`${name} failed:\n${stdout}${stderr}`);
    process.exit(1);
  }
  console.log(`${name}: passed`);
}

// A worker that is ended by a signal deletes nothing. The next program that opens a session does.
const { createSession } = await import("../../bindings-node/dist/index.mjs");
const { scriptedAgent } = await import("../../bindings-node/dist/testing.mjs");
const session = await createSession({ executable: scriptedAgent([[{ text: "Hello" }]]) });
await session.close();
