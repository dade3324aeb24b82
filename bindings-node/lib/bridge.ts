/** The bridge to the addon: waits for operations, delivers wake-ups and jobs, and keeps the process alive meanwhile. */

import type { Bridge as NativeBridge, Delivery } from "./addon.js";
import { type CallSite, callSite, type Entry, raisedAt } from "./call-site.js";
import { callNative, publicError } from "./native-errors.js";
import { type Handlers, type HandlerCall, JobContext, type JobOutcome, ToolJobContext } from "./handlers.js";
import { log } from "./log.js";
import { loadNative, type NativeModule } from "./native.js";
import { workerThreads } from "./node.js";
import { setOrigin } from "./messages.js";
import { parseMessages } from "./parse.js";
import { applyOperations, endSpans } from "./telemetry.js";
import { errorText, isError } from "./values.js";

/** Gets what is delivered to a turn or a replay. It must not keep the program's object from being collected. */
export interface TurnPeer {
  onReadable(): void;
  onSettled(): void;
}

/** A turn or a batch whose loss is logged if the program has not read it. */
export interface Unread {
  abandon(): void;
}

/** The exit code of Node for a module that waits for something that never comes. */
const UNSETTLED = 13;

interface Pending {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
  /** Kept from being collected while the call is pending. */
  owner: object | undefined;
  /** The caller's stack, for the error. */
  site: CallSite | undefined;
}

/**
 * The bridge of one JavaScript environment. It holds sessions and turns weakly, so that they can be collected unless the
 * program waits for something of them.
 */
export class Bridge {
  /** The addon. */
  readonly module: NativeModule;
  /** The addon's side of this. */
  readonly native: NativeBridge;

  readonly #pending = new Map<number, Pending>();
  readonly #turns = new Map<number, TurnPeer>();
  readonly #sessions = new Map<number, WeakRef<Handlers>>();
  readonly #jobs = new Map<number, JobContext>();
  /** The turns that have not settled, which keep the process alive. */
  readonly #active = new Set<number>();
  readonly #held = new Set<object>();
  /** The turns and batches that are neither collected nor read to their end. */
  readonly #unread = new Set<Unread>();
  #alive = false;

  constructor(module: NativeModule) {
    this.module = module;
    this.native = new module.Bridge(() => {
      this.#drain();
    });
    log.onLevel = (level) => {
      this.native.setLogLevel(level);
    };
    if (log.logger !== undefined) this.native.setLogLevel(log.level);
  }

  static #instance: Bridge | undefined;

  /** The bridge of this JavaScript environment. */
  static get(): Bridge {
    if (this.#instance) return this.#instance;
    const module = loadNative();
    if (workerThreads.isMainThread) {
      // Closes the sessions that the program has not closed, so that their agents are not killed with this process.
      process.once("exit", () => {
        module.shutdown();
      });
    }
    const made = new Bridge(module);
    // First of all listeners, because another one may export the spans.
    process.prependOnceListener("exit", (code: number) => {
      made.#exit(code);
    });
    return (this.#instance = made);
  }

  /**
   * Begins an operation of the addon and waits for its end. `owner` is not collected meanwhile.
   *
   * @param entry - The public function that was called, or its call. Errors have the stack of that call. Undefined: they keep
   * their own.
   * @param begin - Calls the addon and returns the ticket.
   * @returns The operation's value, if it has one.
   */
  run<T>(entry: Entry | CallSite | undefined, begin: () => number, owner?: object): Promise<T> {
    const site = entry === undefined || isError(entry) ? entry : callSite(entry);
    return new Promise((resolve, reject) => {
      let ticket: number;
      try {
        ticket = callNative(begin);
      } catch (error) {
        reject(raisedAt(error, site));
        return;
      }
      this.#pending.set(ticket, { resolve: resolve as (value: unknown) => void, reject, owner, site });
      this.#updateRef();
    });
  }

  addSession(key: number, handlers: Handlers): void {
    this.#sessions.set(key, new WeakRef(handlers));
  }

  removeSession(key: number): void {
    this.#sessions.delete(key);
  }

  /** A turn begins: the process stays alive until it has settled. */
  addTurn(key: number, peer: TurnPeer): void {
    this.#turns.set(key, peer);
    this.#active.add(key);
    this.#updateRef();
  }

  /** A turn has been read to its end, or collected. */
  removeTurn(key: number): void {
    this.#turns.delete(key);
    this.#active.delete(key);
    this.#updateRef();
  }

  /** A turn or a batch exists: if it is unread when the process exits, that is logged. */
  watch(unread: Unread): void {
    this.#unread.add(unread);
  }

  unwatch(unread: Unread): void {
    this.#unread.delete(unread);
  }

  /** Keeps an object from being collected, and the process alive, until it is released. For objects that a call waits for. */
  hold(object: object): void {
    this.#held.add(object);
    this.#updateRef();
  }

  release(object: object): void {
    this.#held.delete(object);
    this.#updateRef();
  }

  #updateRef(): void {
    // A turn settles a moment before its reader gets the end.
    const alive = this.#pending.size > 0 || this.#active.size > 0 || this.#jobs.size > 0 || this.#held.size > 0;
    if (alive === this.#alive) return;
    this.#alive = alive;
    this.native.setKeepsAlive(alive);
  }

  #drain(): void {
    // A delivery that arrives during the loop causes another wake-up.
    for (const delivery of this.native.drain()) {
      try {
        this.#deliver(delivery);
      } catch (error) {
        // An exception here would end the program, and the deliveries after this one would be lost.
        const message = `a delivery failed; this is a defect of kimi-agent, please report it error=${JSON.stringify(errorText(error))}`;
        log.write({ level: "error", target: "kimi_agent", message });
      }
    }
    this.#updateRef();
  }

  /** Logs what the program has not read, applies what was not delivered, and ends the spans. */
  #exit(code: number): void {
    log.exit();
    // A program that has failed has said why.
    if (code === 0 || code === UNSETTLED) for (const each of this.#unread) each.abandon();
    for (const delivery of this.native.drain()) {
      if (delivery.type === "telemetry" || delivery.type === "log") this.#deliver(delivery);
    }
    endSpans();
  }

  #deliver(delivery: Delivery): void {
    switch (delivery.type) {
      case "done":
        this.#take(delivery.ticket)?.resolve(delivery.json && parseMessages(delivery.json));
        break;
      case "job_result": {
        const { ticket, json, error } = delivery;
        this.#take(ticket)?.resolve(json && { fields: parseMessages(json), error: error && publicError(error) });
        break;
      }
      case "failed": {
        const pending = this.#take(delivery.ticket);
        pending?.reject(raisedAt(publicError(delivery.error), pending.site));
        break;
      }
      case "readable":
        this.#turns.get(delivery.turn)?.onReadable();
        break;
      case "settled":
        this.#active.delete(delivery.turn);
        this.#turns.get(delivery.turn)?.onSettled();
        break;
      case "job": {
        const { id, owner, kind, index, payloadJson, callId, inTurn, origin, span } = delivery;
        const payload: unknown = kind === "tool" || kind === "output" ? JSON.parse(payloadJson) : parseMessages(payloadJson);
        if (origin) setOrigin(payload, origin);
        this.#runJob(owner, { id, kind, index, payload, callId, inTurn, span });
        break;
      }
      case "telemetry":
        applyOperations(this.#sessions.get(delivery.owner)?.deref()?.tracing, delivery.opsJson);
        break;
      case "cancel_job":
        this.#cancelJob(delivery.id);
        break;
      case "log":
        log.write({ level: delivery.level, target: delivery.target, message: delivery.message });
    }
  }

  #take(ticket: number): Pending | undefined {
    const pending = this.#pending.get(ticket);
    this.#pending.delete(ticket);
    return pending;
  }

  #runJob(owner: number, job: HandlerCall): void {
    const { id } = job;
    const handlers = this.#sessions.get(owner)?.deref();
    if (!handlers) {
      this.native.jobFailed(id, "the session is gone");
      return;
    }
    const context = job.kind === "tool" ? this.#toolContext(job) : new JobContext();
    this.#jobs.set(id, context);
    handlers.run(job, context, (outcome) => {
      // A cancelled job is not in the map any more, and its session may be closed.
      if (this.#jobs.delete(id)) this.#endJob(id, outcome);
      this.#updateRef();
    });
  }

  #toolContext({ id, callId }: HandlerCall): ToolJobContext {
    return new ToolJobContext(callId ?? "", (fraction, message) => {
      this.native.jobProgress(id, fraction, message);
    });
  }

  /** The agent gets an answer in any case: an answer that the addon refuses, for example JSON that nests too deep, is a failure. */
  #endJob(id: number, outcome: JobOutcome): void {
    try {
      callNative(() => {
        if ("failure" in outcome) this.native.jobFailed(id, outcome.failure, outcome.kind);
        else if ("unsendable" in outcome) this.native.refuseAnswer(id, outcome.unsendable);
        else this.native.jobDone(id, outcome.answerJson);
      });
    } catch (refused) {
      this.native.refuseAnswer(id, errorText(refused));
    }
  }

  #cancelJob(id: number): void {
    const context = this.#jobs.get(id);
    this.#jobs.delete(id);
    context?.abort();
  }
}
