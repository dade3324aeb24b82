// The package under Deno, whose `deno run` the scripted agent needs.
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { project, run } from "./project.mjs";

const deno = fileURLToPath(new URL("node_modules/.bin/deno", import.meta.url));
let folder;
before(() => (folder = project()));
after(() => rmSync(folder, { recursive: true, force: true }));

test("a session with the scripted agent runs under deno run -A", () => {
  const { status, output } = run(deno, ["run", "-A", join(folder, "app.mjs")], folder);
  assert.equal(output, "12 left");
  assert.equal(status, 0);
});
