// Builds the addon with cargo and puts it where the loader looks: kimi-agent.<platform>-<arch>[-<libc>].node.
// `--debug` builds without optimisation; CARGO_TARGET_DIR and other cargo settings apply.
import { spawnSync } from "node:child_process";
import { copyFileSync, renameSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const profile = process.argv.includes("--debug") ? [] : ["--release"];
const cargo = spawnSync(
  process.env.CARGO ?? "cargo",
  ["build", "-p", "kimi-agent-node", ...profile, "--message-format=json-render-diagnostics"],
  { cwd: root, stdio: ["ignore", "pipe", "inherit"], encoding: "utf8", maxBuffer: 1 << 28 },
);
if (cargo.error) throw cargo.error;
if (cargo.status !== 0) process.exit(cargo.status ?? 1);

const library = cargo.stdout
  .split("\n")
  .filter((line) => line.startsWith("{"))
  .map((line) => JSON.parse(line))
  .filter((message) => message.reason === "compiler-artifact" && message.target.kind.includes("cdylib"))
  .flatMap((message) => message.filenames)
  .find((file) => /\.(so|dylib|dll)$/.test(file));
if (!library) throw new Error("cargo built no shared library of kimi-agent-node");

const { nativeFileName } = createRequire(import.meta.url)(`${root}/dist/native.js`);
const target = `${root}/${nativeFileName()}`;
// A rename leaves a process that has the old file loaded alone; writing into it would crash it.
copyFileSync(library, `${target}.new`);
renameSync(`${target}.new`, target);
console.log(target);
