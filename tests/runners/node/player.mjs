// The operations of a program.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

import { answer, camelKeys, optionsOf, output, traceCall } from "./options.mjs";
import { Records } from "./records.mjs";
import { createSession, file, KimiAgentError, openAgent, prompt, resource, saw, scriptedAgent } from "./touched.mjs";
import { canonical, errorLine, outcome, print, printToolCall, snakeCase, tokens } from "./trace.mjs";

// The recorder of spans and metrics, if the sessions have telemetry: with `SCENARIO_TELEMETRY=1`.
const { Recorder } = process.env.SCENARIO_TELEMETRY ? await import("../../telemetry/recorder.mjs") : {};

/** Something is wrong with the scenario, not with what it tests. */
class Problem extends Error {}

/** The content of a prompt, with `file()` and `resource()` as the scenario writes them. */
const input = (op) => (Array.isArray(op.input) ? op.input.map(part) : op.input);

function part(item) {
  const [only, ...others] = typeof item === "object" && item !== null ? Object.keys(item) : [];
  if (others.length > 0 || !["file", "resource"].includes(only)) return item;
  if (only === "file") return file(item.file);
  const { uri, text, data, mime_type: mimeType } = item.resource;
  return resource(uri, { text, data: data === undefined ? undefined : Buffer.from(data), mimeType });
}

/** Plays one scenario. */
export class Player {
  #case;
  #executable;
  #recorded = { on_event: new Records(), on_stderr: new Records() };
  #agents = new Map();
  /** The sessions by name; one that is opened again takes the name of the one before. */
  #sessions = new Map();
  /** The turns by name, each with its outcome, if a task waits for it. */
  #turns = new Map();
  /** The requests that were printed, by id; the last one is the last printed. */
  #requests = new Map();
  #stopped = false;
  #recorder = Recorder && new Recorder();

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
    await Promise.allSettled([...this.#sessions.values()].map((session) => session.close()));
    await Promise.allSettled([...this.#agents.values()].map((agent) => agent.close()));
    if (!this.#recorder) return;
    await this.#recorder.wait();
    print({ recorded: await this.#recorder.recorded() });
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
      if (error instanceof KimiAgentError) return errorLine(op, saw(error));
      const message = error instanceof Problem ? error.message : String(error?.stack ?? error);
      return { op: op.op, error: "runner_problem", message };
    }
  }

  #context(op) {
    return {
      // A session of an agent has that of the agent.
      executable: op.op === "open" && op.agent ? undefined : this.#executable,
      recorded: this.#recorded,
      called: this.#case.trace_handlers ? traceCall : () => undefined,
    };
  }

  #options(op) {
    const resumes = op.resume !== undefined && !op.agent;
    const former = resumes ? { session_id: this.session({ session: op.resume }).id } : {};
    const traced = this.#recorder ? { telemetry: this.#recorder.telemetry() } : {};
    return optionsOf({ ...traced, ...this.#case.options, ...op.options, ...former }, this.#context(op));
  }

  /** The options of one prompt: in milliseconds here. */
  #promptOptions({ prompt_options: given = {} }) {
    const { timeout, idle_timeout: idleTimeout, budget, output: described, ...others } = given;
    const milliseconds = (seconds) => (seconds === undefined ? undefined : seconds * 1000);
    const limits = { timeout: milliseconds(timeout), idleTimeout: milliseconds(idleTimeout), budget: camelKeys(budget) };
    // Absent, so that it does not replace the session's.
    const asked = described === undefined ? {} : { output: output(described, this.#context({}).called) };
    return { ...limits, ...asked, ...others };
  }

  session(op) {
    const session = this.#sessions.get(sessionName(op));
    if (!session) throw new Problem("no session is open");
    return session;
  }

  async open(op) {
    this.#sessions.set(sessionName(op), await this.#opened(op));
  }

  #opened(op) {
    const options = this.#options(op);
    if (!op.agent) return createSession(options);
    const agent = this.agent(op);
    if (op.resume !== undefined) return agent.resume(this.#past(op.resume), options);
    if (op.fork !== undefined) return agent.fork(this.#past(op.fork), options);
    return agent.createSession(options);
  }

  /** The session whose past another begins with: it is given, or it is one of the program's. */
  #past(named) {
    return this.#sessions.get(named)?.id ?? named;
  }

  async openAgent(op) {
    this.#agents.set(agentName(op), await openAgent(optionsOf(op.options ?? {}, this.#context(op))));
  }

  agent(op) {
    const agent = this.#agents.get(agentName(op));
    if (!agent) throw new Problem("no agent is open");
    return agent;
  }

  async listSessions(op) {
    const listed = await this.agent(op).listSessions({ workDir: op.work_dir, archived: op.archived });
    const facts = ({ id, workDir, title, updatedAt, archived }) => ({
      ...{ id, work_dir: workDir, title, dated: updatedAt !== null },
      ...(op.archived !== undefined && { archived }),
    });
    return { sessions: listed.map(facts) };
  }

  async renameSession(op) {
    return { title: await this.agent(op).renameSession(this.#past(op.of), op.title) };
  }

  async archiveSession(op) {
    await this.agent(op).archiveSession(this.#past(op.of));
  }

  async unarchiveSession(op) {
    await this.agent(op).unarchiveSession(this.#past(op.of));
  }

  async deleteSession(op) {
    await this.agent(op).deleteSession(this.#past(op.of));
  }

  configOptions(op) {
    const facts = ({ id, category, value, choices }) => ({ id, category, value, choices: choices.map((choice) => choice.value) });
    return { options: this.session(op).configOptions.map(facts) };
  }

  async closeAgent(op) {
    const agent = this.agent(op);
    if (op.how === "block") await agent[Symbol.asyncDispose]();
    else await agent.close(closeOptions(op));
  }

  async prompt(op) {
    const turn = this.session(op).prompt(input(op), this.#promptOptions(op));
    // One that could not begin has no name; its result says why.
    if (turn.id === "") await turn.result();
    this.#turns.set(name(op), { turn, outcome: undefined });
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

  /** A turn for which no operation waits. */
  turn(op) {
    const { turn, outcome } = this.#held(op);
    if (outcome) throw new Problem("its outcome is waited for, nothing else");
    return turn;
  }

  async leave(op) {
    const turn = this.anyTurn(op);
    this.#turns.delete(name(op));
    // What `break` does in a `for await`, and the end of an `await using`.
    if (op.how === "block") await turn[Symbol.asyncDispose]();
    else await turn.return();
  }

  async close(op) {
    const session = this.session(op);
    if (op.how === "block") await session[Symbol.asyncDispose]();
    else await session.close(closeOptions(op));
  }

  async textStream(op) {
    for await (const text of this.turn(op).textStream) this.#print({ text });
  }

  spawnResult(op) {
    const outcome = this.turn(op).result();
    // `join` awaits it; until then a failure is not handled.
    outcome.catch(() => undefined);
    this.#held(op).outcome = outcome;
  }

  spawnDrain(op) {
    const turn = this.turn(op);
    const held = this.#held(op);
    const beside = [];
    const read = async () => {
      for await (const event of turn) beside.push(event);
    };
    held.beside = beside;
    held.outcome = read();
    held.outcome.catch(() => undefined);
  }

  async join(op) {
    const held = this.#held(op);
    if (!held.outcome) throw new Problem("its outcome is not waited for");
    const { outcome: waiting, beside } = held;
    held.outcome = held.beside = undefined;
    if (!beside) return outcome(await waiting);
    try {
      await waiting;
    } finally {
      for (const event of beside) this.#show(event);
    }
    return undefined;
  }

  async resultAndDrain(op) {
    const turn = this.turn(op);
    const result = turn.result();
    result.catch(() => undefined);
    for await (const event of turn) {
      this.#show(event);
      const isRequest = event.type === "ApprovalRequest" || event.type === "QuestionRequest";
      if (isRequest && op.answer !== undefined) await turn.respond(event, answer(op.answer));
    }
    return outcome(await result);
  }

  async twoLoops(op) {
    const turn = this.turn(op);
    const first = turn[Symbol.asyncIterator]();
    while (canonical((await first.next()).value).type !== op.until);
    await turn[Symbol.asyncIterator]().next();
  }

  /** Prints an event, and keeps a request for `respond`. */
  #show(event) {
    this.#print({ event: canonical(event) });
    if (event.type !== "ApprovalRequest" && event.type !== "QuestionRequest") return;
    this.#requests.delete(event.payload.id);
    this.#requests.set(event.payload.id, event);
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

  async drain(events, op = {}) {
    for await (const event of events) {
      this.#show(event);
      if (op.tool_calls === true) printToolCall(event);
    }
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
    const request = op.request === undefined ? [...this.#requests.values()].at(-1) : this.#requests.get(op.request);
    if (!request) throw new Problem("no such request has been seen");
    const whom = op.scope === "session" ? this.session(op) : this.turn(op);
    await whom.respond(request, answer(op.answer));
  }

  async oneShot(op) {
    const turn = prompt(input(op), { ...this.#options(op), ...this.#promptOptions(op) });
    await this.drain(turn);
    return outcome(await turn.result());
  }

  async state(op) {
    const session = this.session(op);
    const { until } = op;
    // Nothing announces what happens between turns.
    while (until !== undefined && session.state !== until && !this.#stopped) await setTimeout(5);
    return { state: session.state };
  }

  async waitFile({ path }) {
    // Files are made by others, who do not announce it.
    while (!existsSync(path) && !this.#stopped) await setTimeout(5);
  }

  sessionFacts(op) {
    const { id, workDir, pid, status } = this.session(op);
    return { id, work_dir: workDir, runs: pid !== null, status };
  }

  turnFacts(op) {
    const { id, discarded } = this.anyTurn(op);
    return { id, discarded };
  }

  info(op) {
    const { protocolVersion, server, capabilities, externalTools, slashCommands } = this.session(op);
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
  open: (player, op) => player.open(op),
  open_agent: (player, op) => player.openAgent(op),
  list_sessions: (player, op) => player.listSessions(op),
  delete_session: (player, op) => player.deleteSession(op),
  rename_session: (player, op) => player.renameSession(op),
  archive_session: (player, op) => player.archiveSession(op),
  unarchive_session: (player, op) => player.unarchiveSession(op),
  config_options: (player, op) => player.configOptions(op),
  set_config_option: (player, op) => player.session(op).setConfigOption(op.id, op.value),
  close_agent: (player, op) => player.closeAgent(op),
  prompt: (player, op) => player.prompt(op),
  next: (player, op) => player.next(op),
  drain: (player, op) => player.drain(player.turn(op), op),
  steps: (player, op) => player.steps(op),
  result: async (player, op) => outcome(await player.turn(op).result(), op.details, op.ended),
  raise_for_status: async (player, op) => void (await player.turn(op).result()).raiseForStatus(),
  text_stream: (player, op) => player.textStream(op),
  cancel_session: (player, op) => player.session(op).cancel(),
  cancel: (player, op) => player.anyTurn(op).cancel(),
  steer: (player, op) => player.anyTurn(op).steer(input(op)),
  cancel_subagent: (player, op) => player.anyTurn(op).cancelSubagent(op.subagent),
  respond: (player, op) => player.respond(op),
  set_plan_mode: (player, op) => player.session(op).setPlanMode(op.on),
  undo: (player, op) => player.session(op).undo(...("count" in op ? [op.count] : [])),
  replay: (player, op) => player.drain(player.session(op).replay()),
  usage: (player, op) => ({ turn: tokens(player.anyTurn(op).usage), session: tokens(player.session(op).usage) }),
  state: (player, op) => player.state(op),
  wait_closed: async (player, op) => ({ by: (await player.session(op).closed)?.code ?? null }),
  info: (player, op) => player.info(op),
  session: (player, op) => player.sessionFacts(op),
  turn: (player, op) => player.turnFacts(op),
  leave: (player, op) => player.leave(op),
  one_shot: (player, op) => player.oneShot(op),
  close: (player, op) => player.close(op),
  run: (_, op) => run(op.argv),
  remove: (_, op) => unlinkSync(op.path),
  wait_file: (player, op) => player.waitFile(op),
  touch: (_, op) => writeFileSync(op.path, op.text ?? ""),
  read: (_, op) => ({ content: existsSync(op.path) ? readFileSync(op.path, "utf8") : null }),
  exists: (_, op) => ({ exists: existsSync(op.path) }),
  wait_outside: (player, op) => player.waitOutside(op),
  spawn_result: (player, op) => player.spawnResult(op),
  spawn_drain: (player, op) => player.spawnDrain(op),
  join: (player, op) => player.join(op),
  result_and_drain: (player, op) => player.resultAndDrain(op),
  two_loops: (player, op) => player.twoLoops(op),
};

/** Runs another program to its end; `{pid}` stands for this process. */
function run(argv) {
  const [program, ...args] = argv.map((word) => word.replaceAll("{pid}", String(process.pid)));
  const { status, signal, error } = spawnSync(program, args, { stdio: ["ignore", "inherit", "inherit"] });
  if (status !== 0) throw new Problem(`${program}: ${error ?? signal ?? status}`);
}

function closeOptions({ timeout }) {
  return timeout === undefined ? undefined : { timeout: timeout * 1000 };
}

function agentName(op) {
  return op.agent ?? "agent";
}

function sessionName(op) {
  return op.session ?? "session";
}

function name(op) {
  return op.as ?? "turn";
}
