/**
 * The modules of Node that this package uses. Bundlers that write ES modules cannot translate `require` of a module of Node in
 * a CommonJS source, such as this one; `process.getBuiltinModule` (Node 20.16 and later) needs no translation.
 */

/* eslint-disable @typescript-eslint/no-require-imports -- for earlier releases */

const own = process as Omit<NodeJS.Process, "getBuiltinModule"> & Partial<Pick<NodeJS.Process, "getBuiltinModule">>;

export const asyncHooks =
  own.getBuiltinModule?.("node:async_hooks") ?? (require("node:async_hooks") as typeof import("node:async_hooks"));
export const fs = own.getBuiltinModule?.("node:fs") ?? (require("node:fs") as typeof import("node:fs"));
export const nodeModule =
  own.getBuiltinModule?.("node:module") ?? (require("node:module") as typeof import("node:module"));
export const path = own.getBuiltinModule?.("node:path") ?? (require("node:path") as typeof import("node:path"));
export const nodeUrl = own.getBuiltinModule?.("node:url") ?? (require("node:url") as typeof import("node:url"));
export const workerThreads =
  own.getBuiltinModule?.("node:worker_threads") ??
  (require("node:worker_threads") as typeof import("node:worker_threads"));
