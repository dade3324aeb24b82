// A program with less memory than its agent sends.
import assert from "node:assert/strict";
import { test } from "node:test";

import { run } from "./programs.mjs";

const LINUX = process.platform === "linux" ? {} : { skip: "limits the address space as Linux does" };

test("line too large for memory does not end the program", LINUX, async () => {
  const code = `
    import { execFileSync } from "node:child_process";
    import { readFileSync } from "node:fs";
    const before = '{"jsonrpc":"2.0","method":"event","params":{"type":"ContentPart","payload":{"type":"text","text":"';
    const raw = { before, repeat: "abcdefg\\\\n", times: 200 * 2 ** 20 / 9 | 0, after: '"}}}' };
    const executable = scriptedAgent([[{ raw }]]);
    const session = await createSession({ executable, maxLineBytes: 2 ** 30 });
    const turn = session.prompt("go");
    const pages = Number(readFileSync("/proc/self/statm", "utf8").split(" ")[0]);
    const limit = (bytes) => execFileSync("prlimit", ["--pid", String(process.pid), "--as=" + bytes + ":"]);
    limit(pages * 4096 + 150 * 2 ** 20);
    const error = await turn.result().catch((error) => error);
    console.log(error.code, error.message);
    await session.close();
    process.exit(0);
  `;
  const { status, signal, stdout, stderr } = await run(code);
  assert.deepEqual([status, signal], [0, null], stdout + stderr);
  assert.match(stdout, /^protocol_error there is not enough memory for a line of/);
});
