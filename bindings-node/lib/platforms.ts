/** The systems that the npm package is published for: a package `@kimi-agent/…` each, with one native file. */

/** A system, in the terms of the fields `os`, `cpu` and `libc` of package.json. */
export interface Platform {
  os: string;
  cpu: string;
  libc?: "glibc" | "musl";
}

/** The systems by the ends of the names of their packages. */
export const PLATFORMS: Readonly<Record<string, Platform>> = {
  "darwin-arm64": { os: "darwin", cpu: "arm64" },
  "darwin-x64": { os: "darwin", cpu: "x64" },
  "linux-arm64-gnu": { os: "linux", cpu: "arm64", libc: "glibc" },
  "linux-arm64-musl": { os: "linux", cpu: "arm64", libc: "musl" },
  "linux-x64-gnu": { os: "linux", cpu: "x64", libc: "glibc" },
  "linux-x64-musl": { os: "linux", cpu: "x64", libc: "musl" },
  "win32-arm64-msvc": { os: "win32", cpu: "arm64" },
  "win32-x64-msvc": { os: "win32", cpu: "x64" },
};

/** Returns the name of a system, also of one that has no package, such as `freebsd-x64`. */
export function platformName({ os, cpu, libc }: Platform): string {
  if (os === "linux") return `linux-${cpu}-${libc === "musl" ? "musl" : "gnu"}`;
  return os === "win32" ? `win32-${cpu}-msvc` : `${os}-${cpu}`;
}

/** Returns the package that holds the native file for a system. */
export function platformPackage(name: string): string {
  return `@kimi-agent/${name}`;
}

/** Returns the name of the native file for a system. */
export function platformFile(name: string): string {
  return `kimi-agent.${name}.node`;
}
