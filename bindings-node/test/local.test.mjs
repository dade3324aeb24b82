/** The ready handlers of files and terminals. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, mkdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";

import { createSession, files, InvalidOption, terminals } from "kimi-agent";
import { scriptedAgent } from "kimi-agent/testing";

const SAY = { text: "{{last.content}}" };

async function turn(root, action, write = false) {
  const project = files(root, { write, maxBytes: 1000 });
  const session = await createSession({
    executable: scriptedAgent({ release: "2.1.0", turns: [[action, SAY]] }),
    workDir: root,
    onReadFile: project.read,
    onWriteFile: project.write,
    onTerminal: terminals(root, { timeout: 60_000 }),
  });
  const result = await session.prompt("Go").result();
  await session.close();
  return { text: result.text, failures: result.handlerFailures.map((failure) => failure.message) };
}

async function project(t) {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "local-")));
  t.after(() => rm(folder, { recursive: true }));
  const root = join(folder, "root");
  await mkdir(root);
  await writeFile(join(folder, "secret"), "secret");
  await writeFile(join(root, "a.txt"), "words");
  return { folder, root };
}

test("files below the root are served", async (t) => {
  const { root } = await project(t);
  const read = await turn(root, { read_file: { path: join(root, "a.txt") } });
  assert.ok(read.text.startsWith("words"), read.text);
  await turn(root, { write_file: { path: join(root, "b.txt"), content: "new" } }, true);
  assert.equal(await readFile(join(root, "b.txt"), "utf8"), "new");
});

test("attacks are refused", async (t) => {
  const { folder, root } = await project(t);
  await writeFile(join(root, "long"), "x".repeat(1001));
  await symlink(join(folder, "secret"), join(root, "link"));
  await symlink(folder, join(root, "up"));
  execFileSync("mkfifo", [join(root, "fifo")]);
  for (const name of ["../secret", "link", "up/secret", "fifo", "long", "."]) {
    const { text, failures } = await turn(root, { read_file: { path: `${root}/${name}` } });
    assert.ok(!text.includes("secret"), name);
    assert.equal(failures.length, 1, name);
  }
  for (const name of ["../secret", "link", "up/secret", "fifo"]) {
    const { failures } = await turn(root, { write_file: { path: `${root}/${name}`, content: "mine" } }, true);
    assert.equal(failures.length, 1, name);
  }
  assert.equal(await readFile(join(folder, "secret"), "utf8"), "secret");
  const { failures } = await turn(root, { write_file: { path: join(root, "new"), content: "mine" } });
  assert.match(failures[0], /does not allow writing/);
});

test("wrong settings are refused", async (t) => {
  const { root } = await project(t);
  for (const given of [files(root, { maxBytes: -1 }).read, "text"]) {
    const opening = createSession({ executable: scriptedAgent({ turns: [[SAY]] }), onReadFile: given });
    await assert.rejects(opening, (error) => error instanceof InvalidOption && error.option === "onReadFile");
  }
  assert.throws(() => files(root).read({}), /onReadFile/);
});

test("output that is cut is truncated", async (t) => {
  const { root } = await project(t);
  for (const [script, limit, expected] of [["printf 123456789", 5, "true 56789"], ["printf 12345", 5, "false 12345"]]) {
    const command = { command: "sh", args: ["-c", script], cwd: root, output_byte_limit: limit };
    const turns = [[{ terminal: command }, { text: "{{last.truncated}} {{last.output}}" }]];
    const executable = scriptedAgent({ release: "2.1.0", turns });
    const session = await createSession({ executable, workDir: root, onTerminal: terminals(root) });
    const { text } = await session.prompt("Go").result();
    await session.close();
    assert.equal(text.toLowerCase(), expected);
  }
});
