// An addon in JavaScript that does what the test says: for what is written in TypeScript alone.

class FakeBridge {
  queue = [];
  jobsDone = [];
  progress = [];
  keepsAlive = false;
  level = undefined;
  #woken = false;

  constructor(wake) {
    this.wake = wake;
    FakeBridge.last = this;
  }

  /** Like the addon: one wake-up for any number of deliveries, and never from within a call. */
  deliver(...deliveries) {
    this.queue.push(...deliveries);
    if (this.#woken) return;
    this.#woken = true;
    setImmediate(() => {
      this.#woken = false;
      this.wake();
    });
  }

  drain() {
    return this.queue.splice(0);
  }

  jobDone(id, answerJson) {
    this.jobsDone.push({ id, answerJson });
    this.onJobDone?.();
  }

  jobFailed(id, reason) {
    this.jobsDone.push({ id, reason });
    this.onJobDone?.();
  }

  jobProgress(...report) {
    this.progress.push(report);
  }

  refuseAnswer(id, reason) {
    this.jobFailed(id, reason);
  }

  setKeepsAlive(keepsAlive) {
    this.keepsAlive = keepsAlive;
  }

  setLogLevel(level) {
    this.level = level;
  }
}

/** An error as the addon describes it. */
export function nativeError(code, message, fields = {}) {
  return { code, message, retryable: false, ...fields };
}

/** An error as the addon throws it. */
export function thrownError(...description) {
  const native = nativeError(...description);
  return Object.assign(new Error(native.message), { native });
}

class FakeTurn {
  id = "turn";
  discarded = 7;
  events = [];
  calls = [];
  acknowledged = 0;
  settled = null;
  #armed = false;
  #step = undefined;
  /** The size of the last batch, and how much of it the program has got. */
  #batch = 0;
  #taken = 0;
  #hasThrown = false;

  constructor(module, key) {
    this.module = module;
    this.key = key;
  }

  /** The agent sends events: `[step, event]` each, or bare text for a text part of step 1; a step has its number less one as index. */
  push(...events) {
    for (const event of events) {
      this.events.push(typeof event === "string" ? [1, text(event)] : event);
    }
    this.#readable();
  }

  /** The turn ends, with a result or with an error. */
  settle(outcome = { result: { status: "finished", steps: 1, text: "", usage: USAGE } }) {
    this.settled = outcome;
    this.#readable();
    this.module.bridge.deliver({ type: "settled", turn: this.key });
    for (const ticket of this.waiting ?? []) this.#answer(ticket);
  }

  #readable() {
    if (!this.#armed) return;
    this.#armed = false;
    this.module.bridge.deliver({ type: "readable", turn: this.key });
  }

  #answer(ticket) {
    const { result, error } = this.settled;
    if (error) this.module.bridge.deliver({ type: "failed", ticket, error });
    else this.module.bridge.deliver({ type: "done", ticket, json: JSON.stringify(result) });
  }

  startLoop() {
    this.calls.push("startLoop");
  }

  fetch(max, index) {
    this.took(this.#batch);
    if (this.events.length === 0) return this.#end() && { eventsJson: "[]", texts: "", ended: true };
    const isWanted = ([n]) => index === undefined || n === index + 1;
    const end = this.events.findIndex((event) => !isWanted(event));
    const here = this.events.splice(0, Math.min(max, end === -1 ? this.events.length : end));
    [this.#batch, this.#taken] = [here.length, 0];
    let texts = "";
    const longTexts = [];
    const packed = here.map(([, { type, payload }]) => {
      if (type !== "ContentPart" || payload.type !== "text" || Object.keys(payload).length > 2) return { type, payload };
      if (payload.text.length <= 256) {
        texts += payload.text;
        return payload.text.length;
      }
      longTexts.push(payload.text);
      return null;
    });
    return { eventsJson: JSON.stringify(packed), texts, longTexts, ended: here.length === 0 };
  }

  took(count) {
    this.acknowledged += Math.max(0, count - this.#taken);
    this.#taken = Math.max(this.#taken, count);
  }

  nextStep() {
    this.took(this.#batch);
    while (this.events.length > 0 && this.events[0][0] === this.#step) {
      this.events.shift();
      this.acknowledged += 1;
    }
    if (this.events.length === 0) return this.#end() && {};
    [[this.#step]] = this.events;
    return { step: { index: this.#step - 1, n: this.#step } };
  }

  /** No event is there. Returns whether none follows; throws the error of a turn that failed, once. */
  #end() {
    if (this.settled === null) {
      this.#armed = true;
      return null;
    }
    if (this.settled.error && !this.#hasThrown) {
      this.#hasThrown = true;
      throw Object.assign(new Error(), { native: this.settled.error });
    }
    return true;
  }

  get isSettled() {
    return this.settled !== null;
  }

  result() {
    const ticket = this.module.ticket();
    if (this.settled) this.#answer(ticket);
    else (this.waiting ??= []).push(ticket);
    return ticket;
  }

  cancel() {
    this.calls.push("cancel");
    this.cancelled();
    return this.module.done();
  }

  cancelled() {
    if (this.settled) return;
    this.events = [];
    this.settle({ result: { status: "cancelled", steps: 1, text: "", usage: USAGE } });
  }

  steer(content) {
    this.calls.push(["steer", JSON.parse(content)]);
    const ticket = this.module.ticket();
    this.module.bridge.deliver({ type: "failed", ticket, error: nativeError("no_active_turn", "no", { rpcCode: -32000 }) });
    return ticket;
  }

  respond(id, _origin, answer) {
    this.calls.push(["respond", id, JSON.parse(answer)]);
    return this.module.done();
  }

  usageJson() {
    return JSON.stringify(USAGE);
  }

  noteUsed() {
    this.isUsed = true;
  }

  checkWait() {
    // No handler runs.
  }

  abandon() {
    this.calls.push("abandon");
    this.module.abandoned.push(this.key);
    this.cancelled();
  }
}

class FakeSession {
  id = "session";
  workDir = "/work";
  state = "idle";
  protocolVersion = "1.10";
  pid = 4242;

  constructor(module, key) {
    this.module = module;
    this.key = key;
  }

  serverJson() {
    return JSON.stringify({ name: "fake", version: "1" });
  }

  capabilities() {
    return { planMode: true, hooks: [] };
  }

  externalToolsJson() {
    return JSON.stringify({ accepted: [], rejected: [] });
  }

  slashCommandsJson() {
    return "[]";
  }

  usageJson() {
    return JSON.stringify(USAGE);
  }

  statusJson() {
    return JSON.stringify({ plan_mode: true });
  }

  prompt(content, options) {
    this.promptOptions = JSON.parse(options);
    if (this.turn && !this.turn.settled) throw thrownError("turn_in_progress", "busy", { rpcCode: -32000 });
    this.prompted = JSON.parse(content);
    return (this.turn = new FakeTurn(this.module, this.module.ticket()));
  }

  replay() {
    return (this.turn = new FakeTurn(this.module, this.module.ticket()));
  }

  setPlanMode() {
    return this.module.done();
  }

  setConfigOption() {
    return this.module.done();
  }

  configOptionsJson() {
    return "[]";
  }

  undo() {
    return this.module.done();
  }

  respond(id, _origin, answer) {
    this.responded = [id, JSON.parse(answer)];
    return this.module.done();
  }

  close() {
    this.state = "closed";
    return this.module.done();
  }

  abandon() {
    this.module.abandoned.push(this.key);
    if (!this.opening) return;
    const error = nativeError("session_closed", "the session is closed");
    this.module.bridge.deliver({ type: "failed", ticket: this.opening, error });
  }
}

export const USAGE = { input_other: 0, output: 0, input_cache_read: 0, input_cache_creation: 0 };

export function text(words) {
  return { type: "ContentPart", payload: { type: "text", text: words } };
}

export function fakeModule() {
  let counter = 0;
  const module = {
    abandoned: [],
    sessions: [],
    ticket: () => (counter += 1),
    done() {
      const ticket = module.ticket();
      module.bridge.deliver({ type: "done", ticket });
      return ticket;
    },
    Bridge: class extends FakeBridge {
      constructor(wake) {
        super(wake);
        module.bridge = this;
      }
    },
    NativeSession: {
      open(bridge, options, callbacks) {
        module.opened = { options: JSON.parse(options), callbacks };
        const session = new FakeSession(module, module.ticket());
        module.session = session;
        module.sessions.push(session);
        const ticket = module.ticket();
        if (module.openStalls) session.opening = ticket;
        else if (module.openFailure) bridge.deliver({ type: "failed", ticket, error: module.openFailure });
        else bridge.deliver({ type: "done", ticket });
        return { session, ticket };
      },
      oneShot(bridge, content, promptOptions, options, callbacks) {
        module.opened = { options: JSON.parse(options), callbacks, content: JSON.parse(content) };
        const turn = new FakeTurn(module, module.ticket());
        return { turn, sessionKey: module.ticket() };
      },
    },
    runScriptedAgent: () => 0,
  };
  return module;
}
