// What of the package's public names a program really uses: there is a recorder in front of every function, and of every
// method and property of the public classes. Which names there are is told as well, so that one that nobody uses is
// noticed.
import { appendFileSync } from "node:fs";

import { Step } from "../../../bindings-node/dist/reader.js";
import * as sdk from "../../../bindings-node/dist/index.mjs";
import * as testing from "../../../bindings-node/dist/testing.mjs";

const report = process.env.SCENARIO_TOUCHED;
const publicNames = new Set();
const touched = new Set();

const own = new Set([...Object.values(sdk).filter(isClass), Step]);

function isClass(value) {
  return typeof value === "function" && /^class\b/.test(Function.prototype.toString.call(value));
}

/** The same exports, with recorders where names are to be recorded. */
function watched(module, prefix) {
  if (!report) return module;
  const entries = Object.entries(module).filter(([name]) => name !== "__esModule").map(([name, value]) => {
    publicNames.add(prefix + name);
    if (isClass(value)) watchMethods(value);
    if (isClass(value) || typeof value !== "function") return [name, value];
    return [name, (...args) => (touched.add(prefix + name), value(...args))];
  });
  return Object.fromEntries(entries);
}

function watchMethods(cls) {
  const { prototype } = cls;
  for (const key of Reflect.ownKeys(prototype)) {
    const descriptor = Object.getOwnPropertyDescriptor(prototype, key);
    const what = typeof descriptor.get === "function" ? "get" : "value";
    const original = descriptor[what];
    // A property that only throws, to say where the right one is, is not public.
    if (original?.name === "hint") continue;
    if (key === "constructor" || typeof original !== "function" || !descriptor.configurable) continue;
    if (typeof key === "string") publicNames.add(`${cls.name}.${key}`);
    descriptor[what] = function recorder(...args) {
      for (const known of own) if (this instanceof known) touchMember(known, key);
      return original.apply(this, args);
    };
    Object.defineProperty(prototype, key, descriptor);
  }
}

function touchMember(cls, key) {
  touched.add(cls.name);
  touched.add(`${cls.name}.${String(key)}`);
}

/** A value that the program got: its class, and those that this one is derived from, are touched. */
export function saw(value) {
  for (const cls of own) if (value instanceof cls) touched.add(cls.name);
  return value;
}

export const { createSession, file, openAgent, output, prompt, resource, terminals, Block, Reject, KimiAgentError } = watched(sdk, "");
// Its type is public, the class itself is not.
watched({ Step }, "");
export const { replayedAgent, scriptedAgent } = watched(testing, "testing.");

if (report) {
  process.on("exit", () => {
    appendFileSync(report, `${JSON.stringify({ public: [...publicNames], touched: [...touched] })}\n`);
  });
}
