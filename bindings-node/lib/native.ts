/** Finds the files of the installed package, and loads the addon. The addon's types are in addon.ts. */

import { KimiAgentError, SpawnError } from "./errors.js";
import { fs, nodeModule, path } from "./node.js";
import { VERSION } from "./version.js";

/** The addon. */
export type NativeModule = typeof import("./addon.js");

const TRIPLETS: Partial<Record<NodeJS.Platform, (arch: string) => string>> = {
  linux: (arch) => `linux-${arch}-${usesMusl() ? "musl" : "gnu"}`,
  win32: (arch) => `win32-${arch}-msvc`,
};

/** The name of the addon's file for the machine that this runs on. */
export function nativeFileName(): string {
  const triplet = TRIPLETS[process.platform] ?? ((arch: string) => `${process.platform}-${arch}`);
  return `kimi-agent.${triplet(process.arch)}.node`;
}

function usesMusl(): boolean {
  const loader = process.arch === "x64" ? "x86_64" : process.arch === "arm64" ? "aarch64" : process.arch;
  return fs.existsSync(`/lib/ld-musl-${loader}.so.1`) && !hasGlibc();
}

/** A glibc machine may have musl's loader installed beside its own. */
function hasGlibc(): boolean {
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return report.header?.glibcVersionRuntime !== undefined;
}

let loaded: NativeModule | undefined;

/** Loads the addon, once. */
export function loadNative(): NativeModule {
  if (loaded) return loaded;
  const file = installedFile(nativeFileName(), "its native module");
  try {
    // Not a plain `require`, which bundlers replace.
    loaded = nodeModule.createRequire(file)(file) as NativeModule;
  } catch (error) {
    const platform = `${process.platform}-${process.arch}`;
    const text = `kimi-agent could not load its native module for ${platform}, ${file}: ${String(error)}`;
    // The package is intact. The call can be repeated when there are descriptors again.
    if (text.includes("Too many open files")) {
      throw new SpawnError(`${text}; close files or sessions, or raise the limit (\`ulimit -n\`)`, { cause: error });
    }
    throw new KimiAgentError(`${text}; install the package again on this machine: \`npm install kimi-agent\``, { cause: error });
  }
  return loaded;
}

const NAME = "kimi-agent";

/** The folder of this file, or in a bundle that of the bundle. Bundlers put a constant here, or nothing at all. */
const here = typeof __dirname === "string" ? __dirname : undefined;

/**
 * Finds a file of the installed package, also from a program that was bundled with this code.
 *
 * @param name - The path of the file in the package, such as `dist/index.js`.
 * @param what - What the file is, for the error.
 * @throws {@link KimiAgentError} with the places that were searched, and how a bundler is told to leave the package alone.
 */
export function installedFile(name: string, what: string): string {
  const places = new Set<string>();
  for (const folder of folders()) {
    const place = path.join(folder, name);
    if (fs.existsSync(place)) return place;
    places.add(place);
  }
  const missing = [...places].join(" and ") + (places.size === 1 ? " is" : " are") + " missing";
  const platform = `${process.platform}-${process.arch}`;
  throw new KimiAgentError(
    `kimi-agent cannot find ${what} for ${platform}: ${missing}. ` +
      "If this program is a bundle, keep the package out of it: `external: [\"kimi-agent\"]` (esbuild, Rollup), " +
      "`externals: { \"kimi-agent\": \"commonjs kimi-agent\" }` (webpack), `ssr: { external: [\"kimi-agent\"] }` (Vite) or " +
      "`serverExternalPackages: [\"kimi-agent\"]` (Next.js); and install it where the bundle runs. " +
      "If it is not, install the package again on this machine: `npm install kimi-agent`",
  );
}

/**
 * Folders that may hold the package's files: the package, if this code is not in a bundle; the package that the main program
 * finds; the folders of the bundle and of the main program. Never the current directory: its files may be anybody's.
 */
function* folders(): Generator<string> {
  if (here !== undefined) yield path.join(here, "..");
  const main = process.argv[1];
  if (main !== undefined) yield* resolvedFrom(main);
  if (here !== undefined) yield here;
  if (main !== undefined) yield path.dirname(main);
}

/** The package of this version, as a file resolves it. */
function resolvedFrom(file: string): string[] {
  try {
    const description = nodeModule.createRequire(fs.realpathSync(file)).resolve(`${NAME}/package.json`);
    const { version } = JSON.parse(fs.readFileSync(description, "utf8")) as { version: string };
    return version === VERSION ? [path.dirname(description)] : [];
  } catch {
    return [];
  }
}
