/** Finds the files of the installed package, and loads the addon. The addon's types are in addon.ts. */

import { KimiAgentError } from "./error-base.js";
import { SpawnError } from "./errors.js";
import { ERRORS_PAGE } from "./errors-page.js";
import { fs, nodeModule, path } from "./node.js";
import { type Platform, platformFile, platformName, platformPackage, PLATFORMS } from "./platforms.js";
import { VERSION } from "./version.js";

/** The addon. */
export type NativeModule = typeof import("./addon.js");

/** The system that this runs on, and the main program. Tests pass others. */
export interface Host extends Platform {
  main: string | undefined;
}

function thisHost(): Host {
  const { platform: os, arch: cpu } = process;
  return { os, cpu, ...(os === "linux" && { libc: usesMusl() ? "musl" : "glibc" }), main: mainProgram() };
}

/** The main program. With `node -e` or `node -`, the first argument is not a program. */
function mainProgram(): string | undefined {
  const given = process.argv[1];
  const hasNone = process.execArgv.some((option) => /^(-e|-p|-pe|--eval|--print)(=|$)/.test(option));
  return given === undefined || hasNone || !path.isAbsolute(given) ? undefined : given;
}

/** The name of the addon's file for the machine that this runs on. */
export function nativeFileName(): string {
  return platformFile(platformName(thisHost()));
}

function usesMusl(): boolean {
  const loader = process.arch === "x64" ? "x86_64" : process.arch === "arm64" ? "aarch64" : process.arch;
  return fs.existsSync(`/lib/ld-musl-${loader}.so.1`) && !hasGlibc();
}

/** A glibc machine may have musl's loader installed next to its own. */
function hasGlibc(): boolean {
  const report = process.report as typeof process.report & { excludeNetwork?: boolean };
  const before = report.excludeNetwork;
  // The report would look up the names of all hosts that the program is connected to.
  report.excludeNetwork = true;
  try {
    const { header } = report.getReport() as { header?: { glibcVersionRuntime?: string } };
    return header?.glibcVersionRuntime !== undefined;
  } finally {
    if (before === undefined) delete report.excludeNetwork;
    else report.excludeNetwork = before;
  }
}

let loaded: NativeModule | undefined;

/** Loads the addon, once. */
export function loadNative(): NativeModule {
  if (loaded) return loaded;
  const host = thisHost();
  const file = findNative(host);
  try {
    // Not a plain `require`, which bundlers replace.
    loaded = nodeModule.createRequire(file)(file) as NativeModule;
  } catch (error) {
    throw loadError(platformName(host), file, error);
  }
  return loaded;
}

/** Returns the error for a native file that is there and cannot be loaded. */
export function loadError(name: string, file: string, error: unknown): KimiAgentError {
  const text = `kimi-agent could not load its native module for ${name}, ${file}: ${String(error)}`;
  // The package is intact. The call can be repeated when there are descriptors again.
  if (text.includes("Too many open files")) {
    return new SpawnError(`${text}; close files or sessions, or raise the limit (\`ulimit -n\`)`, { cause: error });
  }
  const oldGlibc = /version [`'](GLIBC_[\d.]+)' not found/.exec(text)?.[1];
  const remedy =
    oldGlibc === undefined
      ? `${REINSTALL}: \`npm install kimi-agent\``
      : `the C library of this system is older than ${oldGlibc.replace("_", " ")}; use a newer release of the system`;
  return new KimiAgentError(`${text}; ${remedy}`, { cause: error });
}

const NAME = "kimi-agent";
const REINSTALL = "delete node_modules and install the package again on this machine";
const EXTERNAL =
  "If this program is a bundle, keep the package out of it: `external: [\"kimi-agent\"]` (esbuild, Rollup), " +
  "`externals: { \"kimi-agent\": \"commonjs kimi-agent\" }` (webpack), `ssr: { external: [\"kimi-agent\"] }` (Vite) or " +
  "`serverExternalPackages: [\"kimi-agent\"]` (Next.js); and install it where the bundle runs.";

/** The section of the documentation about a native file that is missing. */
const HELP = new URL("../troubleshooting.md#kimi-agent-cannot-find-its-native-module", ERRORS_PAGE).href;

/** The folder of this file, or in a bundle that of the bundle. Bundlers put a constant here, or nothing at all. */
const here = typeof __dirname === "string" ? __dirname : undefined;

/**
 * Finds the native file: in a folder that may hold files of the package, then in the package for this system, then next to
 * the main program, which in an Electron application can be a document.
 *
 * @throws {@link KimiAgentError} with the system, its package, and what to do.
 */
export function findNative(host: Host): string {
  const name = platformName(host);
  const inFolder = (folder: string): string => path.join(folder, platformFile(name));
  const exists = (place: string): boolean => fs.existsSync(place);
  const local = [...folders(host.main)].map(inFolder);
  const found = local.find(exists);
  if (found !== undefined) return found;

  let other: string | undefined;
  let incomplete: string | undefined;
  for (const { folder, version } of installed(platformPackage(name), host.main)) {
    const file = path.join(folder, platformFile(name));
    if (version === VERSION && fs.existsSync(file)) return file;
    if (version === VERSION) incomplete ??= file;
    else other ??= version;
  }
  const beside = besideMain(host.main).map(inFolder);
  const last = beside.find(exists);
  if (last !== undefined) return last;
  const problem = incomplete === undefined ? cause(host, name, other) : incompletePackage(name, incomplete);
  const error = new KimiAgentError(`kimi-agent cannot find its native module for ${name}: ${problem}. ${missing([...local, ...beside])}. ${EXTERNAL}`);
  throw Object.assign(error, { help: HELP });
}

function incompletePackage(name: string, file: string): string {
  const [folder, base] = [path.dirname(file), path.basename(file)];
  const problem = `the file ${base} of the package ${platformPackage(name)} ${VERSION} is missing in ${folder}`;
  return `${problem}. Delete node_modules, and run \`npm install kimi-agent\``;
}

/** Says why the package for this system is not there, as far as can be seen, and what to do. */
function cause(host: Host, name: string, otherVersion: string | undefined): string {
  const wanted = platformPackage(name);
  if (!(name in PLATFORMS)) {
    return `there is no package for this system. There are packages for ${list(Object.keys(PLATFORMS))}`;
  }
  if (otherVersion !== undefined) {
    const both = `the package ${wanted} has version ${otherVersion}, and kimi-agent has ${VERSION}`;
    return `${both}. Install the same version of both: \`npm install kimi-agent@${VERSION}\``;
  }
  const others = Object.keys(PLATFORMS).filter((other) => !installed(platformPackage(other), host.main).next().done);
  const absent = `the package ${wanted} ${VERSION} is not installed`;
  if (others.length === 0) {
    return (
      `${absent}. It is an optional dependency of kimi-agent: install without \`--omit=optional\` (npm), \`--no-optional\` (pnpm) and ` +
      "`--ignore-optional` (yarn). If the lock file was written on another system, delete it and node_modules, and run `npm install kimi-agent`"
    );
  }
  const { os, cpu, libc } = host;
  const sameButLibc = others.some((other) => PLATFORMS[other]?.os === os && PLATFORMS[other].cpu === cpu);
  const difference = sameButLibc ? `another C library: this Node uses ${String(libc)}` : "another system";
  return (
    `${absent}, but ${list(others.map(platformPackage))} for ${difference}. ` +
    "Delete node_modules and the lock file, and run `npm install kimi-agent` on the system that runs the program"
  );
}

/**
 * Finds a file of the installed package, also from a program that was bundled with this code.
 *
 * @param name - The path of the file in the package, such as `dist/index.js`.
 * @param what - What the file is, for the error.
 * @throws {KimiAgentError} with the places that were searched, and how a bundler is told to leave the package alone.
 */
export function installedFile(name: string, what: string): string {
  const main = mainProgram();
  const places = [...folders(main), ...besideMain(main)].map((folder) => path.join(folder, name));
  const file = places.find((place) => fs.existsSync(place));
  if (file !== undefined) return file;
  throw new KimiAgentError(
    `kimi-agent cannot find ${what}: ${missing(places)}. ${EXTERNAL} If it is not, ${REINSTALL}: \`npm install kimi-agent\``,
  );
}

function missing(places: string[]): string {
  const distinct = [...new Set(places)];
  return `${list(distinct)} ${distinct.length === 1 ? "is" : "are"} missing`;
}

function list(items: string[]): string {
  return items.length < 2 ? items.join() : `${items.slice(0, -1).join(", ")} and ${String(items.at(-1))}`;
}

/**
 * Folders that may hold the package's files: the package, if this code is not in a bundle; the package that the main program
 * finds; the folder of the bundle. Never the current directory, because it may contain files of strangers.
 */
function* folders(main: string | undefined): Generator<string> {
  if (here !== undefined) yield path.join(here, "..");
  if (main !== undefined) yield* packageOf(main);
  if (here !== undefined) yield here;
}

/** The folder of the main program, for bundles that do not know their own. */
function besideMain(main: string | undefined): string[] {
  return main === undefined ? [] : [path.dirname(main)];
}

/** The folder of kimi-agent in this version, as a file resolves it. */
function packageOf(file: string): string[] {
  const found = resolved(NAME, file);
  return found?.version === VERSION ? [found.folder] : [];
}

interface Installed {
  folder: string;
  version: string;
}

/** Where a package is installed, for this file, for the kimi-agent of the main program, and for the main program. */
function* installed(name: string, main: string | undefined): Generator<Installed> {
  const files = here === undefined ? [] : [path.join(here, "native.js")];
  if (main !== undefined) files.push(...packageOf(main).map((folder) => path.join(folder, "package.json")), main);
  for (const file of files) {
    const found = resolved(name, file);
    if (found) yield found;
  }
}

/** Loads a package of the program, for this file or for the main program. Undefined if it is not installed. */
export function requireInstalled(name: string): unknown {
  const files = here === undefined ? [] : [path.join(here, "native.js")];
  const main = mainProgram();
  if (main !== undefined) files.push(main);
  for (const file of files) {
    try {
      // Not a plain `require`, which bundlers replace.
      return nodeModule.createRequire(fs.existsSync(file) ? fs.realpathSync(file) : file)(name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  return undefined;
}

function resolved(name: string, file: string): Installed | undefined {
  try {
    const from = fs.existsSync(file) ? fs.realpathSync(file) : file;
    const description = nodeModule.createRequire(from).resolve(`${name}/package.json`);
    const { version } = JSON.parse(fs.readFileSync(description, "utf8")) as { version: string };
    return { folder: path.dirname(description), version };
  } catch {
    return undefined;
  }
}
