// Unpacks the npm packages that `pack.mjs` wrote, as npm would install them: `unpack.mjs FROM NODE_MODULES`.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

/** The tarballs in a folder: that of kimi-agent, and those for systems. */
export function tarballs(folder) {
  const all = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  const main = all.filter((name) => /^kimi-agent-\d/.test(name));
  if (main.length !== 1 || all.length < 2) throw new Error(`expected the npm packages in ${folder}: run \`make build\``);
  const path = (name) => join(folder, name);
  return { main: path(main[0]), platforms: all.filter((name) => name !== main[0]).map(path) };
}

/** Unpacks them into a folder `node_modules`, in the place of what was there of them. */
export function unpack(from, modules) {
  const { main, platforms } = tarballs(from);
  rmSync(join(modules, "@kimi-agent"), { recursive: true, force: true });
  for (const tarball of platforms) {
    const name = /^kimi-agent-(.*?)-\d+\./.exec(basename(tarball))[1];
    extract(tarball, join(modules, "@kimi-agent", name));
  }
  extract(main, join(modules, "kimi-agent"));
}

function extract(tarball, folder) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const { status, stderr } = spawnSync("tar", ["-xzf", tarball, "-C", folder, "--strip-components=1"], { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [from, modules] = process.argv.slice(2);
  unpack(from, modules);
}
