// Handlers of files and terminals: their signal is aborted as soon as their requests need no answer any more.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";

import { createSession } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

const CREATE = { type: "terminal/create", payload: { command: "serve" } };
const CANCEL = { raw: '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}' };
const FILE = { path: "/a" };
const WRITE = { ...FILE, content: "" };
const ending = (name) => ({ request: { type: `terminal/${name}`, payload: { terminalId: "terminal-1" } } });

/** The option, the action that has it called, the request alone, and the action by which the agent gives the request up. */
const KINDS = [
  ["onReadFile", { read_file: FILE }, { type: "fs/read_text_file", payload: FILE }, CANCEL],
  ["onWriteFile", { write_file: WRITE }, { type: "fs/write_text_file", payload: WRITE }, CANCEL],
  ["onTerminal", { terminal: { command: "serve" } }, CREATE, ending("kill")],
  ["onTerminal", { terminal: { command: "serve" } }, CREATE, ending("release")],
];

const folder = mkdtempSync(join(tmpdir(), "services-"));
after(() => rmSync(folder, { recursive: true }));
let files = 0;

/** A handler that waits until its signal is aborted. */
function hanging() {
  files += 1;
  const file = join(folder, String(files));
  let begin, abort;
  const begun = new Promise((resolve) => (begin = resolve));
  const aborted = new Promise((resolve) => (abort = resolve));
  const handler = async (request, { signal }) => {
    const end = once(signal, "abort");
    begin();
    writeFileSync(file, "");
    await end;
    abort();
    throw new Error("aborted");
  };
  return { handler, file, begun, aborted };
}

const open = (option, handler, ...actions) =>
  createSession({
    executable: scriptedAgent({ wire: "acp", turns: [actions] }),
    dialect: "acp",
    [option]: handler,
  });

describe("handler of a file or a terminal", { timeout: 240_000 }, () => {
  for (const [option, action, request, giveUp] of KINDS) {
    const name = `${option} (${giveUp.request?.type ?? "$/cancel_request"})`;

    test(`${name} is aborted when its turn is cancelled`, async () => {
      const { handler, begun, aborted } = hanging();
      const session = await open(option, handler, action);
      const turn = session.prompt("Go");
      await begun;
      await turn.cancel();
      await aborted;
      const { status, handlerFailures } = await turn.result();
      assert.deepEqual([status, handlerFailures], ["cancelled", []]);
      await session.close();
    });

    test(`${name} is aborted when the agent gives its request up`, async () => {
      const { handler, file, aborted } = hanging();
      const actions = [{ request, wait: false }, { wait_file: file }, giveUp, { text: "on" }];
      const session = await open(option, handler, ...actions);
      const { text, handlerFailures } = await session.prompt("Go").result();
      await aborted;
      assert.deepEqual([text, handlerFailures], ["on", []]);
      await session.close();
    });

    test(`${name} is aborted when the session is closed`, async () => {
      const { handler, begun, aborted } = hanging();
      const session = await open(option, handler, action);
      const turn = session.prompt("Go");
      await begun;
      await session.close();
      await aborted;
      assert.equal((await turn.result()).status, "cancelled");
    });
  }

  test("onTerminal outlives its turn and is aborted with the session", async () => {
    const { handler, file, aborted } = hanging();
    const session = await open("onTerminal", handler, { request: CREATE }, { wait_file: file });
    await session.prompt("Go").result();
    let isAborted = false;
    const noted = aborted.then(() => (isAborted = true));
    await session.prompt("Again").result();
    assert.equal(isAborted, false);
    await session.close();
    await noted;
  });
});
