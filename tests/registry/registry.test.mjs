// npm, pnpm, Yarn and Bun install the packages from a registry, which has them for all systems: the native file of this system
// is there, no other is, and a program has a turn.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { npmEnvironment, PLATFORMS, platformPackage, project, publishAll, run, startRegistry } from "./registry.mjs";

const tool = (name) => fileURLToPath(new URL(`node_modules/.bin/${name}`, import.meta.url));
const scratch = realpathSync(mkdtempSync(join(tmpdir(), "kimi-agent-registry-")));
let registry;
let built;
let env;

before(async () => {
  registry = await startRegistry(scratch);
  env = {
    ...npmEnvironment(registry.address, scratch),
    PNPM_CONFIG_REGISTRY: registry.address,
    YARN_NPM_REGISTRY_SERVER: registry.address,
    // Yarn leaves alone what was published today.
    YARN_NPM_MINIMAL_AGE_GATE: "0",
    YARN_UNSAFE_HTTP_WHITELIST: "127.0.0.1",
    YARN_ENABLE_TELEMETRY: "0",
    YARN_ENABLE_IMMUTABLE_INSTALLS: "false",
  };
  ({ built } = await publishAll(registry, scratch));
});
after(async () => {
  await registry.stop();
  rmSync(scratch, { recursive: true, force: true });
});

/** A project of one of the tools, which `name` stands for, and how to run programs in it. */
function start(name, files) {
  const cwd = project(join(scratch, name), { ".npmrc": `registry=${registry.address}/\n`, ...files });
  return { cwd, run: (command, ...args) => run(command, args, { cwd, env }) };
}

const inModules = (cwd) => readdirSync(join(cwd, "node_modules/@kimi-agent")).map((name) => `@kimi-agent/${name}`);

async function runsPrograms(runProgram) {
  for (const name of ["esm.mjs", "commonjs.cjs"]) assert.equal((await runProgram(name)).trim(), "hello world", name);
}

test("npm install, and npm ci from its lock file", async () => {
  const { cwd, run } = start("npm");
  await run("npm", "install", "kimi-agent");
  assert.deepEqual(inModules(cwd), [platformPackage(built)]);
  await runsPrograms((name) => run("node", name));

  await run("npm", "ci");
  assert.deepEqual(inModules(cwd), [platformPackage(built)]);
  await runsPrograms((name) => run("node", name));
});

test("npm install --omit=optional: the error says so", async () => {
  const { run } = start("omitted");
  await run("npm", "install", "--omit=optional", "kimi-agent");
  await assert.rejects(() => run("node", "esm.mjs"), ({ message }) => {
    assert.ok(message.includes(`the package ${platformPackage(built)} `), message);
    assert.ok(message.includes("--omit=optional"), message);
    return true;
  });
});

test("npm install for another system: the error names what is there", async () => {
  const { cwd, run } = start("copied");
  const { os, cpu } = PLATFORMS["win32-arm64-msvc"];
  await run("npm", "install", `--os=${os}`, `--cpu=${cpu}`, "kimi-agent");
  assert.deepEqual(inModules(cwd), ["@kimi-agent/win32-arm64-msvc"]);
  await assert.rejects(() => run("node", "esm.mjs"), /is not installed, but @kimi-agent\/win32-arm64-msvc for another system\. Delete node_modules/);
});

test("pnpm add", async () => {
  const { cwd, run } = start("pnpm");
  await run(tool("pnpm"), "add", "kimi-agent");
  const kept = readdirSync(join(cwd, "node_modules/.pnpm")).filter((name) => name.startsWith("@kimi-agent"));
  assert.deepEqual(kept.map((name) => name.replace("+", "/").replace(/@[^@]*$/, "")), [platformPackage(built)]);
  await runsPrograms((name) => run("node", name));
});

test("yarn add with node_modules", async () => {
  const { cwd, run } = start("yarn", { ".yarnrc.yml": "nodeLinker: node-modules\n", "yarn.lock": "" });
  await run("node", tool("yarn"), "add", "kimi-agent");
  assert.deepEqual(inModules(cwd), [platformPackage(built)]);
  await runsPrograms((name) => run("node", name));
});

test("yarn add with Plug'n'Play", async () => {
  const { cwd, run } = start("pnp", { ".yarnrc.yml": "nodeLinker: pnp\n", "yarn.lock": "" });
  await run("node", tool("yarn"), "add", "kimi-agent");
  assert.ok(existsSync(join(cwd, ".pnp.cjs")) && !existsSync(join(cwd, "node_modules")));
  await runsPrograms((name) => run("node", tool("yarn"), "node", name));
});

test("bun add, also with Bun as the runtime", async () => {
  const { cwd, run } = start("bun");
  await run(tool("bun"), "add", "kimi-agent");
  assert.deepEqual(inModules(cwd), [platformPackage(built)]);
  await runsPrograms((name) => run("node", name));
  await runsPrograms((name) => run(tool("bun"), name));
});
