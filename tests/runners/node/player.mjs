// The operations of a program.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

import { createSession, KimiAgentError, prompt } from "../../../bindings-node/dist/index.mjs";
import { scriptedAgent } from "../../../bindings-node/dist/testing.mjs";
import { answer, sessionOptions, traceCall } from "./options.mjs";
import { Records } from "./records.mjs";
import { canonical, errorLine, outcome, print, snakeCase } from "./trace.mjs";

/** Something is wrong with the scenario, not with what it tests. */
class Problem extends Error {}

/** Plays one scenario. */
export class Player {
  #case;
  #executable;
  #recorded = { on_event: new Records(), on_stderr: new Records() };
  #sessions = [];
  /** The turns by name, each with the outcome that is waited for beside the program, if it is. */
  #turns = new Map();
  /** The last request that was printed. */
  #request;
  #stopped = false;

  constructor(scenario) {
    this.#case = scenario;
    const { script } = scenario.agent;
    const named = process.env.SCENARIO_EXECUTABLE;
    if (script !== undefined) this.#executable = scriptedAgent(script);
    else if (named !== undefined) this.#executable = JSON.parse(named);
    else throw new Problem("there is neither a script nor $SCENARIO_EXECUTABLE");
  }

  async play() {
    for (const op of this.#case.program) {
      if (this.#stopped) return;
      this.#print(await this.#step(op));
    }
    await this.finish();
  }

  /** Says nothing more: its time is over. */
  stop() {
    this.#stopped = true;
    this.finish().catch(() => undefined);
  }

  /** Ends what the program left open. */
  async finish() {
    for (const { turn } of this.#turns.values()) await turn.return();
    await Promise.allSettled(this.#sessions.map((session) => session.close()));
  }

  #print(line) {
    if (!this.#stopped) print(line);
  }

  /** Does one operation and gives its last line. */
  async #step(op) {
    try {
      const operation = OPERATIONS[op.op];
      if (!operation) throw new Problem(`there is no operation \`${op.op}\``);
      const outputs = await operation(this, op);
      return { op: op.op, ...(outputs ?? { ok: true }) };
    } catch (error) {
      if (error instanceof KimiAgentError) return errorLine(op, error);
      const message = error instanceof Problem ? error.message : String(error?.stack ?? error);
      return { op: op.op, error: "runner_problem", message };
    }
  }

  #options() {
    const context = {
      executable: this.#executable,
      recorded: this.#recorded,
      called: this.#case.trace_handlers ? traceCall : () => undefined,
    };
    return sessionOptions(this.#case.options ?? {}, context);
  }

  get session() {
    const session = this.#sessions.at(-1);
    if (!session) throw new Problem("no session is open");
    return session;
  }

  async open() {
    this.#sessions.push(await createSession(this.#options()));
  }

  prompt(op) {
    this.#turns.set(name(op), { turn: this.session.prompt(op.input), outcome: undefined });
  }

  #held(op) {
    const held = this.#turns.get(name(op));
    if (!held) throw new Problem(`there is no turn \`${name(op)}\``);
    return held;
  }

  /** A turn, whether its outcome is waited for or not. */
  anyTurn(op) {
    return this.#held(op).turn;
  }

  /** A turn that nobody waits for. */
  turn(op) {
    const { turn, outcome } = this.#held(op);
    if (outcome) throw new Problem("its outcome is waited for, nothing else");
    return turn;
  }

  async leave(op) {
    const turn = this.anyTurn(op);
    this.#turns.delete(name(op));
    // What `break` does in a `for await`.
    await turn.return();
  }

  spawnResult(op) {
    const outcome = this.turn(op).result();
    // It is awaited by `join`; until then a failure is nobody's.
    outcome.catch(() => undefined);
    this.#held(op).outcome = outcome;
  }

  async join(op) {
    const held = this.#held(op);
    if (!held.outcome) throw new Problem("its outcome is not waited for");
    const waiting = held.outcome;
    held.outcome = undefined;
    return outcome(await waiting);
  }

  /** Prints an event, and keeps a request for `respond`. */
  #show(event) {
    this.#print({ event: canonical(event) });
    if (event.type === "ApprovalRequest" || event.type === "QuestionRequest") this.#request = event;
  }

  async next(op) {
    const { count, until } = op;
    if ((count === undefined) === (until === undefined)) throw new Problem("either `count` or `until` must be there");
    const turn = this.turn(op);
    for (let left = count ?? Infinity; left > 0; left -= 1) {
      const { done, value: event } = await turn.next();
      if (done) return { ended: true };
      this.#show(event);
      if (canonical(event).type === until) break;
    }
    return undefined;
  }

  async drain(events) {
    for await (const event of events) this.#show(event);
  }

  async steps(op) {
    for await (const step of this.turn(op).steps) {
      let announced = false;
      for await (const event of step) {
        // Only with an event: a failure between steps is in none.
        if (!announced) this.#print({ step: step.n });
        announced = true;
        this.#show(event);
      }
    }
  }

  async respond(op) {
    if (!this.#request) throw new Problem("no request has been seen");
    const whom = op.scope === "session" ? this.session : this.turn(op);
    await whom.respond(this.#request, answer(op.answer));
  }

  async oneShot(op) {
    const turn = prompt(op.input, this.#options());
    await this.drain(turn);
    return outcome(await turn.result());
  }

  async state({ until }) {
    const { session } = this;
    // Nothing announces what happens between turns.
    while (until !== undefined && session.state !== until && !this.#stopped) await setTimeout(5);
    return { state: session.state };
  }

  info() {
    const { protocolVersion, server, capabilities, externalTools, slashCommands } = this.session;
    return {
      protocol_version: protocolVersion,
      capabilities: Object.fromEntries(Object.entries(capabilities).map(([key, value]) => [snakeCase(key), value])),
      external_tools: externalTools,
      slash_commands: slashCommands.map((command) => command.name),
      ...(server && { server }),
    };
  }

  async waitOutside({ until }) {
    if (until === "stderr") {
      this.#print({ stderr: await this.#recorded.on_stderr.next() });
      return;
    }
    for (;;) {
      const event = await this.#recorded.on_event.next();
      this.#show(event);
      if (canonical(event).type === until) return;
    }
  }
}

const OPERATIONS = {
  open: (player) => player.open(),
  prompt: (player, op) => player.prompt(op),
  next: (player, op) => player.next(op),
  drain: (player, op) => player.drain(player.turn(op)),
  steps: (player, op) => player.steps(op),
  result: async (player, op) => outcome(await player.turn(op).result()),
  raise_for_status: async (player, op) => void (await player.turn(op).result()).raiseForStatus(),
  cancel: (player, op) => player.anyTurn(op).cancel(),
  steer: (player, op) => player.anyTurn(op).steer(op.input),
  respond: (player, op) => player.respond(op),
  set_plan_mode: (player, op) => player.session.setPlanMode(op.on),
  replay: (player) => player.drain(player.session.replay()),
  usage: (player, op) => ({ turn: player.anyTurn(op).usage, session: player.session.usage }),
  state: (player, op) => player.state(op),
  info: (player) => player.info(),
  leave: (player, op) => player.leave(op),
  one_shot: (player, op) => player.oneShot(op),
  close: (player) => player.session.close(),
  touch: (_, op) => writeFileSync(op.path, ""),
  read: (_, op) => ({ content: existsSync(op.path) ? readFileSync(op.path, "utf8") : null }),
  exists: (_, op) => ({ exists: existsSync(op.path) }),
  wait_outside: (player, op) => player.waitOutside(op),
  spawn_result: (player, op) => player.spawnResult(op),
  join: (player, op) => player.join(op),
};

function name(op) {
  return op.as ?? "turn";
}
