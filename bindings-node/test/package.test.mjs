import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";

import native from "../dist/native.js";
import version from "../dist/version.js";
import { scriptedAgent } from "../dist/testing.mjs";
import { dist } from "./programs.mjs";

const root = join(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "..");
const require = createRequire(import.meta.url);
const folder = mkdtempSync(join(tmpdir(), "kimi-agent-test-"));
after(() => rmSync(folder, { recursive: true, force: true }));

function run(code, cwd = folder) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", code], { cwd, encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return stdout;
}

test("missing native module is an error with platform, file and remedy", () => {
  cpSync(join(root, "dist"), join(folder, "dist"), { recursive: true });
  const found = run(`
    import { createSession } from ${JSON.stringify(pathToFileURL(join(folder, "dist/index.mjs")).href)};
    await createSession().catch(({ name, code, message }) => console.log([name, code, message].join(" | ")));
  `);
  const file = join(folder, native.nativeFileName());
  const platform = `${process.platform}-${process.arch}`;
  for (const part of ["KimiAgentError | internal_error | ", platform, file, "external", "serverExternalPackages", "npm install"]) {
    assert.ok(found.includes(part), `${part}: ${found}`);
  }
});

test("command without its native module writes one line", () => {
  cpSync(join(root, "dist"), join(folder, "dist"), { recursive: true });
  const program = join(folder, "dist/command.cjs");
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, "--version"], { encoding: "utf8" });
  assert.deepEqual([status, stdout], [1, ""], stderr);
  assert.match(stderr, /^kimi-agent cannot find its native module for [^\n]* See https:[^\n]*\/troubleshooting\.md#[a-z-]+\n$/);
});

test("version of the package matches package.json", () => {
  assert.equal(version.VERSION, JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version);
});

test("TypeScript with the target ES2019 and the module resolution of CommonJS finds the types of each entry", () => {
  const project = join(folder, "node10");
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const entries = Object.keys(exports).filter((entry) => !entry.endsWith(".json"));
  mkdirSync(join(project, "node_modules"), { recursive: true });
  symlinkSync(root, join(project, "node_modules/kimi-agent"), "junction");
  const imports = entries.map((entry, n) => `import * as entry${n} from "kimi-agent${entry.slice(1)}";\nexport type T${n} = typeof entry${n};\n`);
  writeFileSync(join(project, "program.ts"), imports.join(""));
  const options = ["--target", "es2019", "--module", "commonjs", "--moduleResolution", "node10", "--strict", "--noEmit"];
  const types = ["--types", "node", "--typeRoots", join(root, "node_modules/@types")];
  const argv = [require.resolve("typescript/bin/tsc"), ...options, ...types, "program.ts"];
  const { status, stdout } = spawnSync(process.execPath, argv, { cwd: project, encoding: "utf8" });
  assert.equal(status, 0, stdout);
});

test("zod is not loaded by a program that does not use it", () => {
  const index = dist("index.mjs");
  const found = run(`
    import { createRequire } from "node:module";
    import { tool } from ${index};
    tool({ name: "t", description: "", parameters: {}, handler: () => "" });
    console.log(Object.keys(createRequire(${index}).cache).filter((file) => file.includes("zod")).length);
  `);
  assert.equal(found.trim(), "0");
});

test("Node without the symbols of `using` gets them, others keep theirs", () => {
  const file = join(root, "dist/dispose.js");
  const before = Symbol.asyncDispose;
  require(file);
  assert.equal(Symbol.asyncDispose, before);
  const seen = run(`
    import vm from "node:vm";
    import { readFileSync } from "node:fs";
    const context = vm.createContext({ exports: {} });
    vm.runInContext("for (const name of ['dispose', 'asyncDispose']) if (Object.getOwnPropertyDescriptor(Symbol, name)?.configurable !== false) delete Symbol[name];", context);
    vm.runInContext(readFileSync(${JSON.stringify(file)}, "utf8"), context);
    console.log(vm.runInContext("typeof Symbol.dispose + typeof Symbol.asyncDispose", context));
  `);
  assert.equal(seen.trim(), "symbolsymbol");
});

test("script becomes a file for the agent, which is deleted with the process", () => {
  const script = [[{ text: "hello" }]];
  const [node, program, file] = scriptedAgent(script);
  assert.equal(node, process.execPath);
  assert.ok(existsSync(program), program);
  assert.deepEqual(JSON.parse(readFileSync(file, "utf8")), script);
  assert.notEqual(scriptedAgent(script)[2], file);
  const copy = join(folder, "script.json");
  writeFileSync(copy, JSON.stringify(script));
  assert.equal(scriptedAgent(relative(process.cwd(), copy))[2], copy);

  const gone = run(`import { scriptedAgent } from ${dist("testing.mjs")}; console.log(scriptedAgent([])[2]);`).trim();
  assert.ok(gone.endsWith(".json") && !existsSync(gone), gone);
});

const inRemovedFolder = { skip: process.platform === "win32" && "Windows does not delete a folder in use" };
test("relative path of a script in a removed folder is an InvalidOption", inRemovedFolder, () => {
  const gone = join(folder, "gone");
  const home = process.cwd();
  mkdirSync(gone);
  process.chdir(gone);
  rmSync(gone, { recursive: true });
  try {
    assert.throws(() => scriptedAgent("script.json"), { option: "script", message: /relative path.*pass an absolute path/ });
  } finally {
    process.chdir(home);
  }
});

for (const [problem, script] of [
  [/turn 1, action 1: unknown action "txt"/, [[{ txt: "hello" }]]],
  [/turn 2, action 1: "delay" must be a number of seconds/, [[], [{ text: "a", delay: "long" }]]],
  [/expected a list of turns.*got nothing/, undefined],
  [/got a function/, () => []],
  [/BigInt/, [[{ text: 1n }]]],
  [/missing\.json: can't read it/, "missing.json"],
]) {
  test(`a wrong script is refused at the call: ${problem.source}`, () => {
    assert.throws(() => scriptedAgent(script), { name: "InvalidOption", option: "script", message: problem });
  });
}

test("package.json says where the project is", () => {
  const { repository, homepage, bugs } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  for (const url of [repository.url, homepage, bugs.url]) assert.match(url, /github\.com\/kimi-agent\/kimi-agent/);
});

test("scripted agent under Deno starts with `deno run`, and is refused in compiled programs", () => {
  const found = run(`
    import { scriptedAgent } from ${dist("testing.mjs")};
    Object.defineProperty(process, "versions", { value: { ...process.versions, deno: "2.0.0" } });
    console.log(scriptedAgent([]).slice(1, -2).join(" "));
    globalThis.Deno = { build: { standalone: true } };
    try {
      scriptedAgent([]);
    } catch ({ code, message }) {
      console.log(code + ": " + message);
    }
  `);
  assert.match(found, /^run --allow-all --no-config\nunsupported: .*`deno compile`.*`deno run`/);
});
