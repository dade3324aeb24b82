// Packs the npm packages: `pack.mjs FOLDER [NATIVE]` writes the tarball of kimi-agent, which has JavaScript and types only, and
// that of a package @kimi-agent/… for each native file in the folder NATIVE, bindings-node by default. All have the version of
// package.json.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const { PLATFORMS, platformFile, platformPackage } = createRequire(import.meta.url)(`${root}/dist/platforms.js`);
/** What tools/third_party.py writes of the crates in the native file. */
const THIRD_PARTY = ["THIRD-PARTY-LICENSES.txt", "sbom.cdx.json"];
const [to, native = root] = process.argv.slice(2);
if (!to) throw new Error("usage: pack.mjs FOLDER [NATIVE]");
const built = Object.keys(PLATFORMS).filter((name) => existsSync(join(native, platformFile(name))));

const { devDependencies: _, scripts: __, ...description } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const { version, license, homepage, repository, bugs, engines } = description;

const staging = mkdtempSync(join(tmpdir(), "kimi-agent-pack-"));
try {
  for (const name of built) {
    const file = join(native, platformFile(name));
    pack(platformPackage(name), [file, ...THIRD_PARTY.map(own)], platformDescription(name), platformReadme(name));
  }
  const optionalDependencies = Object.fromEntries(Object.keys(PLATFORMS).map((name) => [platformPackage(name), version]));
  pack(description.name, [own("dist")], { ...description, optionalDependencies }, readFileSync(join(root, "README.md"), "utf8"));
} finally {
  rmSync(staging, { recursive: true, force: true });
}

function own(file) {
  return join(root, file);
}

function platformDescription(name) {
  const { os, cpu, libc } = PLATFORMS[name];
  return {
    name: platformPackage(name),
    version,
    description: `The native file of kimi-agent for ${name}`,
    license,
    homepage,
    repository,
    bugs,
    engines,
    os: [os],
    cpu: [cpu],
    ...(libc && { libc: [libc] }),
    type: "commonjs",
    main: platformFile(name),
    files: [platformFile(name), ...THIRD_PARTY],
    // Yarn without node_modules would leave the file in an archive, from which no system loads it.
    preferUnplugged: true,
  };
}

function platformReadme(name) {
  return `# ${platformPackage(name)}\n\nThe native file of [kimi-agent](${homepage}) for ${name}. Install kimi-agent.\n`;
}

function pack(name, files, packageJson, readme) {
  const folder = join(staging, name);
  mkdirSync(folder, { recursive: true });
  for (const file of [own("LICENSE"), ...files]) cpSync(file, join(folder, basename(file)), { recursive: true });
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(packageJson, undefined, 2)}\n`);
  writeFileSync(join(folder, "README.md"), readme);
  const options = { cwd: folder, stdio: "inherit", shell: process.platform === "win32" };
  const { status, error } = spawnSync("npm", ["pack", "--silent", "--pack-destination", resolve(to)], options);
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}
