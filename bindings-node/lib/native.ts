/** Finds and loads the addon. Its types, in addon.ts, are made from the Rust sources. */

import { KimiAgentError, SpawnError } from "./errors.js";
import { installedFile } from "./installed.js";
import { fs, nodeModule } from "./node.js";

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
    throw new KimiAgentError(text, { cause: error });
  }
  return loaded;
}
