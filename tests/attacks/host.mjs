// A program that uses the SDK as its input says: operations arrive as JSON lines on stdin, and answers are JSON lines, too.
import { createInterface } from "node:readline";
import { createSession, setLogger, terminals } from "../../bindings-node/dist/index.mjs";

const kept = {};

const operations = {
  become({ uid }) {
    // The change is permanent.
    process.setgroups([]);
    process.setgid(uid);
    process.setuid(uid);
  },
  log() {
    setLogger((record) => process.stderr.write(`${record.level.toUpperCase()} ${record.message}\n`), "warn");
  },
  async open({ options, terminals: folder }) {
    const handlers = folder === undefined ? {} : { onTerminal: terminals(folder) };
    kept.session = await createSession({ ...options, ...handlers });
    return { pid: kept.session.pid };
  },
  async prompt({ input }) {
    const { status, text } = await kept.session.prompt(input).result();
    return { status, text };
  },
  async close() {
    await kept.session.close();
  },
  drop() {
    delete kept.session;
    globalThis.gc();
  },
};

function say(answer) {
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

say({});
for await (const line of createInterface({ input: process.stdin })) {
  const op = JSON.parse(line);
  try {
    say((await operations[op.op](op)) ?? {});
  } catch (error) {
    say({ error: error.code ?? error.name, message: error.message, exit_code: error.exitCode, signal: error.signal });
  }
}
