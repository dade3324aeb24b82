// Does what `tests/limits` asks of a program in Node: one operation a line on stdin, one answer a line on stdout.
// `tests/limits/README.md` lists the operations. Started with --expose-gc.
import { getEventListeners } from "node:events";
import { createInterface } from "node:readline";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";

import { createSession, openAgent, runBatch } from "../../../bindings-node/dist/index.mjs";

/** How far the opening of a session that is given up at once gets: so many turns of the event loop. */
const YIELDS = 20;

/** Counts up and down; a caller waits until the count is above zero. */
class Semaphore {
  #permits = 0;
  #waiting = [];

  release() {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#permits += 1;
  }

  async acquire() {
    if (this.#permits > 0) this.#permits -= 1;
    else await new Promise((resolve) => this.#waiting.push(resolve));
  }
}

/** How much text an event brings. */
function length({ type, payload }) {
  if (type === "ContentPart" && payload.type === "text") return payload.text.length;
  return type === "ToolResult" ? payload.return_value.output.length : 0;
}

const sessions = [];
let agent;
const asked = new Semaphore();
const mayAnswer = new Semaphore();
/** Sessions and turns that were made, to see what of them is left. */
let made = [];
let turn;
let reader;

function options({ executable, dialect, close_timeout: closeTimeout, approval, tool }) {
  return {
    executable,
    ...(dialect !== undefined && { dialect }),
    ...(closeTimeout !== undefined && { closeTimeout: closeTimeout * 1000 }),
    ...(approval && {
      onApproval: async () => {
        asked.release();
        await mayAnswer.acquire();
        return "approve";
      },
    }),
    ...(tool && {
      tools: [
        {
          name: "big",
          description: "Gives much",
          parameters: { type: "object" },
          handler: ({ size }) => "x".repeat(size),
        },
      ],
    }),
  };
}

function watched(object) {
  made.push(new WeakRef(object));
  return object;
}

/** Before a turn, in the middle of one, or after it. */
async function begin(described, n) {
  const session = watched(await createSession(described));
  if (n % 3 === 0) return;
  const begun = watched(session.prompt("again"));
  await begun.next();
  if (n % 3 === 2) await begun.result();
}

/** The ways to leave a session. */
const ways = {
  async close(described) {
    const session = watched(await createSession(described));
    await watched(session.prompt("again")).result();
    await session.close();
  },
  // Dropped objects are collected by the garbage collector, which runs at the end.
  drop: begin,
  async collect(described, n) {
    const circle = { held: undefined };
    circle.itself = circle;
    await begin(described, n);
    globalThis.gc();
  },
  /** At once, or when the agent has begun to run and does not answer. */
  async cancel(described, n) {
    const controller = new AbortController();
    const { signal } = controller;
    let runs;
    const running = new Promise((resolve) => (runs = resolve));
    const opening = watched(createSession({ ...described, signal, ...(n % 2 && { onStderr: () => runs() }) }));
    const rejected = opening.then(() => undefined, (reason) => reason);
    if (n % 2) await Promise.race([running, rejected]);
    else for (let i = 0; i < n % YIELDS; i += 1) await nextTurn();
    controller.abort(watched({}));
    if ((await rejected) !== signal.reason) throw new Error(`the opening ended as ${String(await rejected)}`);
    if (getEventListeners(signal, "abort").length > 0) throw new Error("a listener is left");
  },
};

function opened(described) {
  return agent ? agent.createSession(options(described)) : createSession(options(described));
}

const operations = {
  async open_agent({ options: { executable } }) {
    agent = await openAgent({ executable, dialect: "acp" });
  },
  async close_agent() {
    await agent.close();
    agent = undefined;
  },
  async open(op) {
    const session = await opened(op.options);
    sessions.push(session);
    return { pid: session.pid };
  },
  async open_many(op) {
    const opening = Array.from({ length: op.count }, () => opened(op.options));
    sessions.push(...(await Promise.all(opening)));
  },
  /** Runs so many jobs, which fail before an agent starts. */
  async batch({ count }) {
    function* jobs() {
      for (let n = 0; n < count; n += 1) yield { prompt: `job ${n}`, maxStepsPerTurn: 0 };
    }
    let failed = 0;
    for await (const { error } of runBatch(jobs(), { concurrency: 32, executable: "sh" })) {
      if (error) failed += 1;
      // So that the peak does not depend on the time at which garbage is collected.
      if (failed % 500 === 0) globalThis.gc();
    }
    return { failed };
  },
  async turns() {
    const turns = sessions.map((session, n) => session.prompt(`turn ${n}`).result());
    const outcomes = await Promise.all(turns);
    return { right: outcomes.filter(({ text }, n) => text === `Hello, turn ${n}!`).length };
  },
  prompt(op) {
    turn = sessions.at(-1).prompt(op.input);
    reader = undefined;
  },
  /** Reads so many events, or to the end where `count` is 0; `pause` seconds lie between any two. */
  async read({ count, pause }) {
    reader ??= turn[Symbol.asyncIterator]();
    let events = 0;
    let chars = 0;
    while (count === 0 || events < count) {
      const { done, value } = await reader.next();
      if (done) return { events, chars, ended: true };
      events += 1;
      chars += length(value);
      if (pause) await sleep(pause * 1000);
    }
    return { events, chars, ended: false };
  },
  /** As `break` does. */
  async leave() {
    await reader?.return();
  },
  async result() {
    const { status } = await turn.result();
    return { status, discarded: turn.discarded };
  },
  async cancel() {
    await turn.cancel();
    return { discarded: turn.discarded };
  },
  asked: () => asked.acquire(),
  answer: () => mayAnswer.release(),
  forget() {
    turn = reader = undefined;
  },
  async close() {
    turn = reader = undefined;
    for (const session of sessions.splice(0)) await session.close();
  },
  /** `times` sessions, `width` at once, left in the `way` that the operation says. */
  async cycle(op) {
    let n = 0;
    const work = async () => {
      while (n < op.times) {
        const mine = n;
        n += 1;
        await ways[op.way](options(op.options), mine);
      }
    };
    await Promise.all(Array.from({ length: op.width }, work));
  },
  async counts() {
    globalThis.gc();
    // Objects that a finaliser releases are collected the next time.
    await nextTurn();
    globalThis.gc();
    await nextTurn();
    made = made.filter((reference) => reference.deref() !== undefined);
    const resources = {};
    for (const name of process.getActiveResourcesInfo()) resources[name] = (resources[name] ?? 0) + 1;
    const listeners = process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
    return { objects: made.length, resources, listeners };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const op = JSON.parse(line);
  let answer;
  try {
    answer = (await operations[op.op](op)) ?? {};
  } catch (error) {
    answer = { error: `${error.code ?? error.name}: ${error.message}` };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
