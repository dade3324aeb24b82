// Runs the tests on another release of Node: `newer-node.mjs 24`. The release comes from npm and stays in .cache. With
// `--smoke` after it, only the tests of what depends on the release; with `--fetch`, none.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const [release, part] = process.argv.slice(2);
if (!release || ![undefined, "--smoke", "--fetch"].includes(part)) {
  throw new Error("usage: newer-node.mjs RELEASE [--smoke | --fetch]");
}

if (process.versions.node.split(".")[0] === release) {
  console.log(`these were the tests on Node ${release}`);
  process.exit(0);
}

const cache = fileURLToPath(new URL(`../../.cache/node-${release}`, import.meta.url));
const program = join(cache, "node_modules/node/bin", process.platform === "win32" ? "node.exe" : "node");
if (!existsSync(program)) {
  mkdirSync(cache, { recursive: true });
  // Without one of its own npm would install into the package above.
  writeFileSync(join(cache, "package.json"), "{}\n");
  const options = ["--no-audit", "--no-fund", "--no-save", "--loglevel=error"];
  const shell = process.platform === "win32";
  const npm = spawnSync("npm", ["install", ...options, `node@${release}`], { cwd: cache, shell, stdio: "inherit" });
  if (npm.status !== 0 || !existsSync(program)) {
    if (process.env.CI) throw new Error(`Node ${release} could not be installed`);
    console.log(`skipped: Node ${release} could not be installed`);
    process.exit(0);
  }
}

if (part === "--fetch") process.exit(0);
console.log(`on Node ${release}:`);
const argv = [join("scripts", "test.mjs"), ...(part ? [part] : [])];
const { status } = spawnSync(program, argv, { cwd: root, stdio: "inherit" });
process.exit(status ?? 1);
