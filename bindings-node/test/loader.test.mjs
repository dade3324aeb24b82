// Where the loader finds the native file, and what it says if it does not: with other systems than this, in folders that are
// laid out as package managers do it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";

import native from "../dist/native.js";
import platforms from "../dist/platforms.js";
import version from "../dist/version.js";

const { PLATFORMS, platformFile, platformName } = platforms;
const { VERSION } = version;
const root = join(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "..");
const require = createRequire(import.meta.url);
const scratch = realpathSync(mkdtempSync(join(tmpdir(), "kimi-agent-loader-")));
after(() => rmSync(scratch, { recursive: true, force: true }));
let count = 0;

/** Puts packages into a new `node_modules`, and returns it with `findNative` of the kimi-agent there. */
function installed(...packages) {
  const modules = join(scratch, String(++count), "node_modules");
  add(modules, "kimi-agent");
  cpSync(join(root, "dist"), join(modules, "kimi-agent/dist"), { recursive: true });
  for (const [name, itsVersion] of packages) addPlatform(modules, name, itsVersion);
  const { findNative } = require(join(modules, "kimi-agent/dist/native.js"));
  return { modules, find: (name, main) => findNative({ ...PLATFORMS[name], main }) };
}

function add(modules, name, itsVersion = VERSION) {
  mkdirSync(join(modules, name), { recursive: true });
  writeFileSync(join(modules, name, "package.json"), JSON.stringify({ name, version: itsVersion }));
  return join(modules, name);
}

function addPlatform(modules, name, itsVersion) {
  const file = join(add(modules, `@kimi-agent/${name}`, itsVersion), platformFile(name));
  writeFileSync(file, "");
  return file;
}

/** The error of a search that finds nothing. */
function failure(search) {
  try {
    search();
  } catch (error) {
    assert.equal(error.name, "KimiAgentError");
    assert.equal(error.code, "internal_error");
    assert.match(error.help, /\/docs\/troubleshooting\.md#kimi-agent-cannot-find-its-native-module$/);
    return error.message;
  }
  throw new assert.AssertionError({ message: "it found something" });
}

test("platform names are those that its packages have", () => {
  for (const [name, platform] of Object.entries(PLATFORMS)) assert.equal(platformName(platform), name);
  assert.equal(platformName({ os: "freebsd", cpu: "x64" }), "freebsd-x64");
  assert.equal(platformName({ os: "linux", cpu: "riscv64", libc: "glibc" }), "linux-riscv64-gnu");
});

test("this system has a package", () => {
  const name = /^kimi-agent\.(.*)\.node$/.exec(native.nativeFileName())[1];
  assert.ok(name in PLATFORMS, name);
});

for (const name of Object.keys(PLATFORMS)) {
  test(`the file of the package for ${name} is found`, () => {
    const { modules, find } = installed([name]);
    assert.equal(find(name), join(modules, "@kimi-agent", name, platformFile(name)));
  });
}

test("a file in the folder of kimi-agent comes before the package", () => {
  const { modules, find } = installed(["linux-x64-gnu"]);
  const local = join(modules, "kimi-agent", platformFile("linux-x64-gnu"));
  writeFileSync(local, "");
  assert.equal(find("linux-x64-gnu"), local);
});

test("a package that only kimi-agent sees, as pnpm lays it out, is found", (t) => {
  const { modules } = installed();
  const store = join(modules, ".store/kimi-agent/node_modules");
  mkdirSync(store, { recursive: true });
  cpSync(join(modules, "kimi-agent"), join(store, "kimi-agent"), { recursive: true });
  rmSync(join(modules, "kimi-agent"), { recursive: true });
  try {
    symlinkSync(join(store, "kimi-agent"), join(modules, "kimi-agent"), "junction");
  } catch (error) {
    if (error.code !== "ENOTSUP") throw error;
    return t.skip("Wine cannot link folders");
  }
  const file = addPlatform(store, "linux-x64-gnu");
  const { findNative } = require(join(modules, "kimi-agent/dist/native.js"));
  assert.equal(findNative({ ...PLATFORMS["linux-x64-gnu"], main: undefined }), file);

  // A bundle somewhere else finds it through the main program.
  const bundle = installed();
  const main = join(dirname(modules), "main.js");
  writeFileSync(main, "");
  assert.equal(bundle.find("linux-x64-gnu", main), file);
});

test("a file next to the main program, which can be a document, comes last", () => {
  const { modules, find } = installed(["linux-x64-gnu"]);
  const folder = join(scratch, "letters");
  const [document, stranger] = [join(folder, "letter.txt"), join(folder, platformFile("linux-x64-gnu"))];
  mkdirSync(folder);
  writeFileSync(stranger, "");
  assert.equal(find("linux-x64-gnu", document), join(modules, "@kimi-agent/linux-x64-gnu", platformFile("linux-x64-gnu")));
  assert.equal(installed().find("linux-x64-gnu", document), stranger);
});

test("an argument of node -e is not the main program", () => {
  const { modules } = installed();
  const code = "try { require(process.argv[2]).installedFile('none', 'it') } catch (error) { console.log(error.message) }";
  const document = join(scratch, "documents", "letter.txt");
  const text = (argv, input) => spawnSync(process.execPath, argv, { input, encoding: "utf8", cwd: scratch }).stdout;
  const file = join(modules, "kimi-agent/dist/native.js");
  for (const said of [text(["-e", code, document, file]), text(["-", file], code)]) {
    assert.match(said, /cannot find it: .*kimi-agent.*none.* missing/);
    assert.doesNotMatch(said, /documents/);
    assert.ok(!said.includes(join(scratch, "none")), said);
  }
});

test("a package that is installed for the main program of a bundle is found", () => {
  const { modules } = installed(["linux-x64-gnu"]);
  rmSync(join(modules, "kimi-agent"), { recursive: true });
  const main = join(dirname(modules), "main.js");
  writeFileSync(main, "");
  assert.equal(installed().find("linux-x64-gnu", main), join(modules, "@kimi-agent/linux-x64-gnu", platformFile("linux-x64-gnu")));
});

test("a missing package is named with what left it out", () => {
  const { modules, find } = installed();
  const message = failure(() => find("win32-x64-msvc"));
  assert.match(message, /^kimi-agent cannot find its native module for win32-x64-msvc: the package @kimi-agent\/win32-x64-msvc /);
  for (const part of [
    ` ${VERSION} is not installed`,
    "`--omit=optional`",
    "`--no-optional`",
    "lock file was written on another system",
    "`npm install kimi-agent`",
    join(modules, "kimi-agent", platformFile("win32-x64-msvc")),
    'external: ["kimi-agent"]',
  ]) {
    assert.ok(message.includes(part), `${part}: ${message}`);
  }
});

test("package for another system is named with the remedy", () => {
  const { find } = installed(["darwin-arm64"]);
  const message = failure(() => find("linux-arm64-gnu"));
  assert.match(message, /@kimi-agent\/linux-arm64-gnu \S+ is not installed, but @kimi-agent\/darwin-arm64 for another system\. /);
  assert.match(message, /Delete node_modules and the lock file, and run `npm install kimi-agent` on the system that runs the program/);
});

for (const [host, there, libc] of [
  ["linux-x64-musl", "linux-x64-gnu", "musl"],
  ["linux-arm64-gnu", "linux-arm64-musl", "glibc"],
]) {
  test(`a package for the other C library is no match on ${host}`, () => {
    const { find } = installed([there]);
    const message = failure(() => find(host));
    const expected = `@kimi-agent/${host} ${VERSION} is not installed, but @kimi-agent/${there} for another C library: this Node uses ${libc}. `;
    assert.ok(message.includes(expected), message);
  });
}

test("package without its file is named with the folder", () => {
  const { modules, find } = installed(["linux-x64-gnu"]);
  const folder = join(modules, "@kimi-agent/linux-x64-gnu");
  rmSync(join(folder, platformFile("linux-x64-gnu")));
  const message = failure(() => find("linux-x64-gnu"));
  const file = platformFile("linux-x64-gnu");
  const expected = `linux-x64-gnu: the file ${file} of the package @kimi-agent/linux-x64-gnu ${VERSION} is missing in ${folder}. `;
  assert.ok(message.includes(expected), message);
  assert.ok(message.includes("Delete node_modules, and run `npm install kimi-agent`"), message);
  assert.doesNotMatch(message, /is not installed/);
});

test("a package of another version is not loaded", () => {
  const { find } = installed(["linux-x64-gnu", "9.8.7"]);
  const message = failure(() => find("linux-x64-gnu"));
  assert.match(message, /the package @kimi-agent\/linux-x64-gnu has version 9\.8\.7, and kimi-agent has /);
  assert.ok(message.includes(`\`npm install kimi-agent@${VERSION}\``), message);
});

test("a system without a package is told which systems have one", () => {
  const { modules } = installed();
  const { findNative } = require(join(modules, "kimi-agent/dist/native.js"));
  const message = failure(() => findNative({ os: "freebsd", cpu: "x64", main: undefined }));
  assert.match(message, /native module for freebsd-x64: there is no package for this system\. There are packages for darwin-arm64, /);
  for (const name of Object.keys(PLATFORMS)) assert.ok(message.includes(name), message);
});

test("a file that needs a newer C library says so", () => {
  const { message, code } = native.loadError(
    "linux-x64-gnu",
    "/there/file.node",
    new Error("/lib/libc.so.6: version `GLIBC_2.34' not found (required by /there/file.node)"),
  );
  assert.equal(code, "internal_error");
  assert.match(message, /for linux-x64-gnu, \/there\/file\.node: .*the C library of this system is older than GLIBC 2\.34/);
});

test("a file for another processor says to install again", () => {
  const { message } = native.loadError("linux-x64-gnu", "/there/file.node", new Error("/there/file.node: invalid ELF header"));
  assert.match(message, /invalid ELF header; delete node_modules and install the package again on this machine: `npm install kimi-agent`$/);
});

test("file that cannot be loaded without descriptors is a SpawnError", () => {
  const { name, message } = native.loadError("linux-x64-gnu", "/there/file.node", new Error("file.node: Too many open files"));
  assert.equal(name, "SpawnError");
  assert.match(message, /ulimit -n/);
});
