// Projects that use the npm packages: temporary folders with the tarballs as they are published, and little else.
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, realpathSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { unpack } from "../../bindings-node/scripts/unpack.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const dist = process.env.KIMI_AGENT_DIST ?? join(here, "../../.cache/packages");

/** Unpacks the packages into the folder `node_modules` of a project. */
export function install(folder) {
  unpack(dist, join(folder, "node_modules"));
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
