// Plays plans of `plan.py` with the Node package: the path of a plan on stdin, a line of JSON for it on stdout.
// Started with --expose-gc. What `player.py` says of itself holds here, too.
import { readFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { createSession, KimiAgentError, openAgent, setLogger } from "../../bindings-node/dist/index.mjs";

const AGENT = process.env.KIMI_SOAK_AGENT;
const MARKER = /mark-\d+-\d+-[0-9a-f]{8}/g;
const ANSWER = /answer=(\w+)/g;
/** Sessions and turns that were made, to see which of them are left. */
let made = [];

function watched(object) {
  made.push(new WeakRef(object));
  return object;
}

function camelCase(name) {
  return name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
}

/** One session of a plan. */
class Actor {
  at = "not begun";
  over = false;
  wrong = [];
  session;
  turn;
  #release;
  #released = new Promise((resolve) => (this.#release = resolve));

  constructor(plan, agents) {
    this.plan = plan;
    this.marker = plan.marker;
    this.agents = agents;
  }

  /** Everything that reaches this actor passes here. */
  look(thing, where) {
    const text = JSON.stringify(thing) ?? "";
    for (const [marker] of text.matchAll(MARKER)) {
      if (marker !== this.marker) this.wrong.push(`crossed: ${where} has ${marker}: ${text.slice(0, 500)}`);
    }
    for (const [, answer] of text.matchAll(ANSWER)) {
      if (answer.startsWith("approve") && !this.mayApprove()) {
        this.wrong.push(`approved though nobody did: ${text.slice(0, 500)}`);
      } else if (answer === "reject" && this.plan.calm && this.mayApprove() && this.plan.approval === "handler") {
        // A request for a manual answer has no answer if the turn is not read.
        this.wrong.push(`rejected though it was approved: ${text.slice(0, 500)}`);
      }
    }
  }

  mayApprove() {
    const { approval, answer, behaviour } = this.plan;
    return approval !== "none" && answer !== "reject" && behaviour !== "raise";
  }

  options() {
    const { plan } = this;
    const look = (where) => (thing) => this.look(thing, where);
    return {
      workDir: plan.work_dir,
      ...Object.fromEntries(Object.entries(plan.deadlines).map(([name, seconds]) => [camelCase(name), seconds * 1000])),
      onEvent: look("onEvent"),
      onQuestion: (request) => {
        this.look(request, "onQuestion");
        return Object.fromEntries(request.questions.map((one) => [one.question, one.options[0].label]));
      },
      ...(plan.agent === null && {
        executable: [AGENT, plan.script_file],
        dialect: plan.dialect,
        onStderr: look("onStderr"),
      }),
      ...(plan.buffer && { eventBufferBytes: plan.buffer }),
      ...(plan.secret && { config: { secret: this.marker } }),
      ...(plan.tools && { tools: [this.#tool()] }),
      ...(plan.approval === "manual" && { onApproval: "manual" }),
      ...(plan.approval === "handler" && { onApproval: (request) => this.#asked(request) }),
    };
  }

  #tool() {
    const handler = (call) => {
      this.look(call, "a tool's call");
      return this.marker;
    };
    return { name: "echo", description: "Says it again", parameters: { type: "object" }, handler };
  }

  async #asked(request) {
    this.look(request, "onApproval");
    const { behaviour, answer } = this.plan;
    if (behaviour === "hang") await this.#released;
    if (behaviour === "slow") await sleep(50);
    if (behaviour === "raise") throw new Error(`${this.marker} fails`);
    return answer;
  }

  async play() {
    try {
      await this.#play();
    } catch (error) {
      this.#failed(error);
    } finally {
      this.over = true;
      this.#release();
      this.turn = this.session = undefined;
    }
  }

  /** An error of the package is to be expected unless the plan is calm; another one never is. */
  #failed(error) {
    if (!(error instanceof KimiAgentError)) {
      this.wrong.push(`odd error at ${this.at}: ${error?.stack ?? String(error)}`);
      return;
    }
    this.look([error.message, { ...error }], "an error");
    if (this.plan.calm) this.wrong.push(`failed at ${this.at}: ${error.stack}`);
  }

  async #play() {
    const meddling = this.plan.meddler && this.#meddle();
    // It is awaited below; until then its failure is not reported.
    meddling?.catch(() => undefined);
    try {
      await this.#through();
    } finally {
      this.#release();
      this.at += ", the meddler";
      await meddling?.catch((error) => {
        if (!(error instanceof KimiAgentError)) throw error;
      });
    }
  }

  async #meddle() {
    const { after_ms: after, do: what } = this.plan.meddler;
    await sleep(after);
    if (!this.session) return;
    if (what === "kill") this.#signal("SIGKILL");
    else if (what === "close") await this.session.close();
    else await this.turn?.cancel();
  }

  #signal(name) {
    const pid = this.session?.pid;
    if (!pid) return;
    try {
      process.kill(pid, name);
    } catch (error) {
      if (error.code !== "ESRCH") throw error;
    }
  }

  async #through() {
    const { plan } = this;
    this.at = "opening";
    const options = this.options();
    this.session = watched(await (plan.agent === null ? createSession(options) : this.agents[plan.agent].createSession(options)));
    for (const [number, turn] of plan.turns.entries()) {
      try {
        await this.#oneTurn(turn, number);
      } catch (error) {
        this.#failed(error);
        this.turn = undefined;
      }
    }
    this.at = `the end by ${plan.end}`;
    if (plan.end === "drop") return;
    if (plan.end === "block") await this.session[Symbol.asyncDispose]();
    else await this.session.close();
    if (plan.end === "twice") await this.session.close();
  }

  async #oneTurn(plan, number) {
    this.at = `turn ${number}, prompt`;
    const abort = new AbortController();
    const early = !["none", "timeout", "steer"].includes(plan.then);
    const words = `${this.marker} ${number}${" and so on".repeat(Math.floor(plan.prompt_size / 10))}`;
    let turn = (this.turn = watched(this.session.prompt(words, plan.then === "interrupt" ? { signal: abort.signal } : {})));
    this.at = `turn ${number}, ${plan.read}, then ${plan.then}`;
    let pieces = 0;
    const waiting = ["result", "both"].includes(plan.read) ? turn.result() : undefined;
    waiting?.catch(() => undefined);
    try {
      pieces = await this.#read(plan, turn, early);
      if (early) {
        await sleep(plan.pause_ms);
        await this.#endEarly(plan.then, turn, abort);
      }
      if (plan.then === "drop") this.turn = turn = undefined;
      else if (!["leave", "interrupt"].includes(plan.then) && !waiting) {
        this.at += ", the result";
        this.look(await turn.result(), "a result");
      }
    } catch (error) {
      if (waiting) await turn.cancel().catch(() => undefined);
      throw error;
    } finally {
      this.at += ", the wait beside";
      this.look(await waiting, "a result");
    }
    const counted = this.plan.calm && plan.pieces !== null && !["result", "both"].includes(plan.read);
    if (counted && pieces !== plan.pieces) this.wrong.push(`${pieces} pieces instead of ${plan.pieces} at ${this.at}`);
  }

  /** Reads as far as the plan says, and returns how many pieces of text came. */
  async #read(plan, turn, early) {
    let [seen, pieces] = [0, 0];
    if (plan.read === "result") {
      if (plan.then === "steer") await turn.steer(`${this.marker} steered`);
      return 0;
    }
    if (early && !plan.stop_after) return 0;
    const events = plan.read === "steps" ? eventsOf(turn.steps) : turn;
    // A `break` out of a loop cancels the turn, which only some plans want.
    for (let next = await events.next(); !next.done; next = await events.next()) {
      const event = next.value;
      seen += 1;
      this.look(event, "an event");
      if (event.type === "ContentPart" && event.payload.type === "text") pieces += 1;
      if (event.type === "ApprovalRequest" && this.plan.approval === "manual") await turn.respond(event, this.plan.answer);
      if (seen === plan.stop_after && plan.then === "steer") await turn.steer(`${this.marker} steered`);
      if (seen === plan.stop_after && early) return pieces;
    }
    return pieces;
  }

  async #endEarly(way, turn, abort) {
    if (way === "leave") await turn.return();
    else if (way === "cancel") await turn.cancel();
    else if (way === "interrupt") {
      abort.abort();
      await turn.result().catch(() => undefined);
    } else if (way === "close") await this.session.close();
    else if (way === "kill") this.#signal("SIGKILL");
    else if (way === "stop") {
      this.#signal("SIGSTOP");
      await this.session.close();
    }
  }
}

async function* eventsOf(steps) {
  for await (const step of steps) yield* step;
}

async function playRound(plan, actors) {
  const agents = {};
  for (const { name, script_file: file, handshake_timeout: handshake, close_timeout: close } of plan.agents) {
    const executable = [AGENT, file];
    agents[name] = await openAgent({ executable, dialect: "acp", handshakeTimeout: handshake * 1000, closeTimeout: close * 1000 });
  }
  for (const one of plan.actors) actors.push(new Actor(one, agents));
  const waiting = [...actors].reverse();
  const work = async () => {
    for (let actor = waiting.pop(); actor; actor = waiting.pop()) {
      const began = performance.now();
      await actor.play();
      const took = ((performance.now() - began) / 1000).toFixed(2);
      if (process.env.KIMI_SOAK_SHOW) console.error(`${took} s ${actor.marker} calm=${actor.plan.calm} ${actor.at}`);
      const agent = plan.agents.find(({ name }) => name === actor.plan.agent);
      if (agent?.end === "early") await agents[agent.name].close();
      if (plan.collect) globalThis.gc();
    }
  };
  await Promise.all(Array.from({ length: plan.width }, work));
  for (const { name, end } of plan.agents) if (end !== "drop") await agents[name].close();
}

/** Says where everybody is, and ends the program. */
function dump(actors) {
  for (const { marker, at, over } of actors) writeSync(2, over ? `${marker}: over\n` : `${marker} hangs at ${at}\n`);
  writeSync(2, `${JSON.stringify(process.getActiveResourcesInfo())}\n`);
  process.exit(70);
}

async function play(path) {
  const plan = JSON.parse(readFileSync(path, "utf8"));
  const actors = [];
  const watchdog = setTimeout(dump, plan.patience * 1000, actors);
  try {
    await playRound(plan, actors);
  } finally {
    clearTimeout(watchdog);
  }
  // Dropped objects are collected by the garbage collector.
  globalThis.gc();
  return { wrong: actors.flatMap(({ marker, wrong }) => wrong.map((text) => `${marker}: ${text}`)) };
}

/** The live objects of the package. */
async function counts() {
  for (let n = 0; n < 3; n += 1) {
    globalThis.gc();
    await sleep(1);
  }
  made = made.filter((reference) => reference.deref());
  const resources = {};
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
  return { objects: made.length, resources };
}

// Many agents misbehave, which the package logs.
setLogger(null);
for await (const line of createInterface({ input: process.stdin })) {
  const answer = line === "counts" ? await counts() : await play(line);
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
