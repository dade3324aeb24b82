// A registry of npm packages on this machine, which knows nothing but the packages of this project.
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { runServer } from "verdaccio";

import { tarballs, unpack } from "../../bindings-node/scripts/unpack.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const dist = process.env.KIMI_AGENT_DIST ?? join(root, ".cache/packages");
const { PLATFORMS, platformFile, platformName, platformPackage } = createRequire(import.meta.url)(
  `${root}/bindings-node/dist/platforms.js`,
);

export { platformName, platformPackage, PLATFORMS };

/** Starts a registry that keeps its files in a folder, and returns its address and how to stop it. */
export async function startRegistry(folder) {
  const everyone = { access: "$all", publish: "$all" };
  const server = await runServer({
    storage: join(folder, "storage"),
    auth: { htpasswd: { file: join(folder, "htpasswd") } },
    security: { api: { jwt: { sign: { expiresIn: "1h" } } } },
    uplinks: {},
    max_body_size: "100mb",
    packages: { "**": everyone },
    web: { enable: false },
    log: { type: "file", path: join(folder, "log"), level: "warn" },
    configPath: join(folder, "config.yaml"),
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${server.address().port}`;
  return { address, stop: () => new Promise((resolve) => (server.close(resolve), server.closeAllConnections())) };
}

/** The environment of npm: no configuration or cache of the machine. What is not in the registry is not there. */
export function npmEnvironment(address, folder) {
  return {
    PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
    HOME: project(join(folder, "home")),
    TMPDIR: tmpdir(),
    npm_config_registry: address,
    npm_config_audit: "false",
    npm_config_fund: "false",
    npm_config_update_notifier: "false",
  };
}

/** Publishes kimi-agent, the packages that were built, and an empty one for each other system. */
export async function publishAll({ address }, folder) {
  const env = npmEnvironment(address, folder);
  const publish = (what) => run("npm", ["publish", "--loglevel=error", "--access=public", what], { cwd: folder, env });
  const user = { name: "somebody", password: "for the tests only", email: "nobody@example.com", type: "user", roles: [] };
  const response = await fetch(`${address}/-/user/org.couchdb.user:${user.name}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...user, _id: `org.couchdb.user:${user.name}` }),
  });
  const { token } = await response.json();
  if (!token) throw new Error(`the registry gave no token: ${response.status}`);
  writeFileSync(join(folder, ".npmrc"), `registry=${address}/\n${address.replace("http:", "")}/:_authToken=${token}\n`);

  const modules = join(folder, "unpacked");
  unpack(dist, modules);
  const { main, platforms } = tarballs(dist);
  for (const tarball of [...platforms, main]) await publish(tarball);
  const [built] = platforms.map((tarball) => Object.keys(PLATFORMS).find((name) => tarball.includes(`-${name}-`)));
  const description = JSON.parse(readFileSync(join(modules, platformPackage(built), "package.json"), "utf8"));
  for (const [name, { os, cpu, libc }] of Object.entries(PLATFORMS)) {
    if (platforms.some((tarball) => tarball.includes(`-${name}-`))) continue;
    const file = platformFile(name);
    const place = join(modules, platformPackage(name));
    mkdirSync(place, { recursive: true });
    const own = { ...description, name: platformPackage(name), os: [os], cpu: [cpu], main: file, files: [file] };
    writeFileSync(join(place, "package.json"), JSON.stringify({ ...own, libc: libc && [libc] }));
    writeFileSync(join(place, file), "");
    await publish(place);
  }
  return { built };
}

/** Runs a program, which must end well; returns what it wrote. This process meanwhile serves the packages. */
export async function run(command, args, { cwd, env }) {
  try {
    return (await promisify(execFile)(command, args, { cwd, env, timeout: 120_000 })).stdout;
  } catch ({ message, stdout }) {
    throw new Error(`${message}\n${stdout}`);
  }
}

/** A new project in a folder, with a program. */
export function project(folder, files = {}) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{"name": "project", "version": "1.0.0", "private": true}\n');
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  for (const name of ["esm.mjs", "commonjs.cjs"]) cpSync(join(root, "tests/packages/programs", name), join(folder, name));
  return folder;
}
