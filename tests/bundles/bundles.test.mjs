// Programs that use the package, bundled whole: they build without warnings, with zod and without, and run.
import assert from "node:assert/strict";
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";

import esbuild from "esbuild";
import { build as viteBuild, createLogger } from "vite";
import webpack from "webpack";

import { project, run } from "./project.mjs";

/** Each bundles `entry` of a project into `out`, which ends as Node needs it, and returns its warnings. */
const bundlers = {
  async esbuild({ folder, entry, out, esm, external = [] }) {
    const format = esm ? "esm" : "cjs";
    const options = { bundle: true, platform: "node", format, external, logLevel: "silent" };
    const { warnings } = await esbuild.build({ absWorkingDir: folder, entryPoints: [entry], outfile: out, ...options });
    return warnings.map(({ text }) => text);
  },

  async webpack({ folder, entry, out, esm, external = [] }) {
    const kind = esm ? "module" : "commonjs";
    const stats = await promisify(webpack)({
      context: folder,
      mode: "production",
      target: "node20",
      entry: `./${entry}`,
      externals: Object.fromEntries(external.map((name) => [name, `${kind} ${name}`])),
      output: { path: join(out, ".."), filename: out.slice(join(out, "..").length + 1), module: esm, chunkFormat: kind },
      experiments: { outputModule: esm },
    });
    const { errors, warnings } = stats.toJson({ all: false, errors: true, warnings: true });
    assert.deepEqual(errors.map(({ message }) => message), []);
    return warnings.map(({ message }) => message);
  },

  async vite({ folder, entry, out, esm, external = [] }) {
    const warnings = [];
    const customLogger = { ...createLogger("silent"), warn: (text) => warnings.push(text) };
    await viteBuild({
      root: folder,
      configFile: false,
      logLevel: "warn",
      customLogger,
      ssr: { noExternal: external.length === 0 ? true : undefined, external, target: "node" },
      build: {
        ssr: entry,
        outDir: join(out, ".."),
        emptyOutDir: false,
        target: "node20",
        rollupOptions: { output: { format: esm ? "es" : "cjs", entryFileNames: out.slice(join(out, "..").length + 1) } },
      },
    });
    return warnings;
  },
};

const projects = {};
const scratch = [];
before(() => {
  projects.plain = project();
  projects.zod = project("zod");
  projects.zod41 = project("zod-4-1");
});
after(() => {
  for (const folder of [...Object.values(projects), ...scratch]) rmSync(folder, { recursive: true, force: true });
});

/** A new empty folder. */
function empty() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "kimi-agent-bundles-")));
  scratch.push(folder);
  return folder;
}

/** The native file that is installed in a project. */
function nativeFile() {
  const packages = join(projects.plain, "node_modules/@kimi-agent");
  return readdirSync(packages, { recursive: true }).filter((name) => name.endsWith(".node")).map((name) => join(packages, name))[0];
}

/** Bundles a program of a project and returns the bundle's path; a warning is a failure. */
async function bundle(bundler, name, entry, { external, to } = {}) {
  const folder = projects[name];
  const suffix = entry.slice(-3);
  const out = join(to ?? join(folder, "out"), `${bundler}-${entry.slice(0, -4)}.${suffix}`);
  const warnings = await bundlers[bundler]({ folder, entry, out, esm: suffix === "mjs", external });
  assert.deepEqual(warnings, []);
  return out;
}

for (const bundler of Object.keys(bundlers)) {
  describe(bundler, () => {
    for (const entry of ["app.mjs", "app.cjs"]) {
      test(`${entry} builds without zod, and runs`, async () => {
        const out = await bundle(bundler, "plain", entry);
        assert.deepEqual(run(process.execPath, [out], tmpdir()), { status: 0, output: "12 left" });
      });
    }

    for (const entry of ["zod.mjs", "zod.cjs"]) {
      test(`${entry} builds with zod, and runs`, async () => {
        const out = await bundle(bundler, "zod", entry);
        assert.deepEqual(run(process.execPath, [out], tmpdir()), { status: 0, output: "12 left" });
      });
    }

    test("bundle without the package beside it names the bundler option", async () => {
      const out = await bundle(bundler, "plain", "native.mjs", { to: empty() });
      const { output } = run(process.execPath, [out], projects.plain);
      assert.match(output, /^internal_error: kimi-agent cannot find its native module/);
      assert.match(output, /`external: \["kimi-agent"\]`.*`serverExternalPackages: \["kimi-agent"\]`/);
    });

    test("a package that is kept out of the bundle works", async () => {
      const out = await bundle(bundler, "plain", "app.mjs", { external: ["kimi-agent", "kimi-agent/testing"] });
      assert.deepEqual(run(process.execPath, [out], tmpdir()), { status: 0, output: "12 left" });
    });
  });
}

test("a schema of zod 4.1 is converted in a bundle, too", async () => {
  const out = await bundle("esbuild", "zod41", "zod.mjs");
  assert.deepEqual(run(process.execPath, [out], tmpdir()), { status: 0, output: "12 left" });
});

test("the native module may lie beside the bundle", async () => {
  const folder = empty();
  const out = await bundle("esbuild", "plain", "native.mjs", { to: folder });
  const file = nativeFile();
  copyFileSync(file, join(folder, basename(file)));
  assert.match(run(process.execPath, [out], tmpdir()).output, /^spawn_error: /);
});

test("the package for this system is enough beside the bundle", async () => {
  const folder = empty();
  const out = await bundle("esbuild", "plain", "native.mjs", { to: folder });
  cpSync(join(projects.plain, "node_modules/@kimi-agent"), join(folder, "node_modules/@kimi-agent"), { recursive: true });
  assert.match(run(process.execPath, [out], tmpdir()).output, /^spawn_error: /);
});

test("a package of another version is not mixed with the bundle", async () => {
  const folder = empty();
  const out = await bundle("esbuild", "plain", "native.mjs", { to: folder });
  const other = join(folder, "node_modules/kimi-agent");
  mkdirSync(other, { recursive: true });
  writeFileSync(join(other, "package.json"), '{"name": "kimi-agent", "version": "99.0.0"}');
  const file = nativeFile();
  copyFileSync(file, join(other, basename(file)));
  assert.match(run(process.execPath, [out], tmpdir()).output, /^internal_error: kimi-agent cannot find/);
});
