// Projects that use the npm package: temporary folders with the tarball as it is published, and little else.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const dist = process.env.KIMI_AGENT_DIST ?? join(here, "../../.cache/packages");

/** The packed npm package. */
export function tarball() {
  const found = readdirSync(dist).filter((name) => name.endsWith(".tgz"));
  if (found.length !== 1) throw new Error(`expected one npm tarball in ${dist}, found ${found.length}: run \`make build\``);
  return join(dist, found[0]);
}

/** Unpacks the package into the folder `node_modules/kimi-agent` of a project. */
export function install(folder) {
  const modules = join(folder, "node_modules");
  mkdirSync(modules, { recursive: true });
  rmSync(join(modules, "kimi-agent"), { recursive: true, force: true });
  const { status, stderr } = spawnSync("tar", ["-xzf", tarball(), "-C", modules], { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  renameSync(join(modules, "package"), join(modules, "kimi-agent"));
}

/** A new project with the package, the programs of this folder, and of zod the release that is named. */
export function project(zod) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "kimi-agent-bundles-")));
  writeFileSync(join(folder, "package.json"), '{"private": true}\n');
  cpSync(join(here, "programs"), folder, { recursive: true });
  install(folder);
  if (zod) cpSync(join(here, "node_modules", zod), join(folder, "node_modules/zod"), { recursive: true });
  return folder;
}

/** Runs a program; returns its exit code and all that it wrote. */
export function run(program, args, cwd) {
  const { status, signal, error, stdout, stderr } = spawnSync(program, args, { cwd, encoding: "utf8", timeout: 60_000 });
  if (error) throw error;
  return { status: status ?? signal, output: (stdout + stderr).trim() };
}
