// An application of Next.js uses the package without any configuration, and with the package kept out of the bundle.
// NEXT_BUILDS names the builds: `turbopack`, `turbopack-external`, `webpack`, `webpack-external`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { install } from "../project.mjs";

const folder = fileURLToPath(new URL(".", import.meta.url));
const next = fileURLToPath(new URL("node_modules/next/dist/bin/next", import.meta.url));
const builds = (process.env.NEXT_BUILDS ?? "turbopack").split(/[ ,]+/);

function start(args, env = {}) {
  const options = { cwd: folder, env: { ...process.env, NEXT_TELEMETRY_DISABLED: "1", ...env }, stdio: ["ignore", "pipe", "inherit"] };
  return spawn(process.execPath, [next, ...args], options);
}

install(folder);
for (const build of builds) {
  test(`a route handler in a build with ${build} has a session`, async () => {
    rmSync(`${folder}.next`, { recursive: true, force: true });
    const flags = build.startsWith("webpack") ? ["--webpack"] : [];
    const building = start(["build", ...flags], { EXTERNAL: build.endsWith("-external") ? "1" : "" });
    let output = "";
    building.stdout.on("data", (text) => (output += text));
    const [status] = await once(building, "close");
    assert.equal(status, 0, output);
    assert.doesNotMatch(output, /warning/i);

    const server = start(["start", "--port", "0"]);
    try {
      let address;
      for await (const line of createInterface({ input: server.stdout })) {
        address ??= /Local:\s+(\S+)/.exec(line)?.[1];
        if (address !== undefined && line.includes("Ready")) break;
      }
      assert.equal(await (await fetch(`${address}/ask`)).text(), "12 left");
    } finally {
      server.kill();
    }
  });
}
