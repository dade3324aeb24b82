/** The one place where the addon and JavaScript meet: tickets, wake-ups, jobs, and what keeps the process alive. */

import { type CallSite, callSite, fromNative, raisedAt, translated } from "./errors.js";
import { errorText, type Handlers, type Job, JobContext } from "./handlers.js";
import { log } from "./log.js";
import { type Delivery, loadNative, type NativeBridge, type NativeModule } from "./native.js";
import { workerThreads } from "./node.js";
import { bindRequest } from "./requests.js";

/** A turn or a replay, for what is delivered to it. It must not keep the program's object from being collected. */
export interface TurnPeer {
  onReadable(): void;
  onSettled(): void;
}

interface Pending {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
  /** Kept from being collected while the call is pending. */
  owner: object | undefined;
  /** Where the program called. */
  site: CallSite;
}

/**
 * One a JavaScript environment. Sessions and turns are held weakly, so that one that the program has forgotten can be
 * collected, unless something is awaited of it.
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
  #alive = false;

  constructor(module: NativeModule) {
    this.module = module;
    this.native = new module.Bridge(() => {
      this.#drain();
    });
    log.onLevel = (level) => {
      this.native.setLogLevel(level);
    };
    if (log.level) this.native.setLogLevel(log.level);
  }

  static #instance: Bridge | undefined;

  /** The bridge of this JavaScript environment. */
  static get(): Bridge {
    if (this.#instance) return this.#instance;
    const module = loadNative();
    if (workerThreads.isMainThread) {
      // Agents that are left get the chance to end in order, instead of dying with this process.
      process.once("exit", () => {
        module.shutdown();
      });
    }
    return (this.#instance = new Bridge(module));
  }

  /** Waits for a ticket; `owner` is not collected meanwhile. An error's stack is that of the call, `site`. */
  wait<T>(ticket: number, owner?: object, site = callSite()): Promise<T> {
    return new Promise<T>((resolve, reject) => {
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

  /** A turn is gone: read to its end, or collected. */
  removeTurn(key: number): void {
    this.#turns.delete(key);
    this.#active.delete(key);
    this.#updateRef();
  }

  /** Keeps an object from being collected, while somebody waits for it to be called. */
  hold(object: object): void {
    this.#held.add(object);
  }

  release(object: object): void {
    this.#held.delete(object);
  }

  #updateRef(): void {
    const alive = this.#pending.size > 0 || this.#active.size > 0 || this.#jobs.size > 0;
    if (alive === this.#alive) return;
    this.#alive = alive;
    if (alive) this.native.ref();
    else this.native.unref();
  }

  #drain(): void {
    // What comes meanwhile wakes again.
    for (const delivery of JSON.parse(this.native.drain()) as Delivery[]) this.#deliver(delivery);
    this.#updateRef();
  }

  #deliver(delivery: Delivery): void {
    switch (delivery[0]) {
      case "done":
        this.#take(delivery[1])?.resolve(delivery[2]);
        break;
      case "failed": {
        const pending = this.#take(delivery[1]);
        pending?.reject(raisedAt(fromNative(delivery[2], delivery[3], delivery[4]), pending.site));
        break;
      }
      case "readable":
        this.#turns.get(delivery[1])?.onReadable();
        break;
      case "settled":
        this.#active.delete(delivery[1]);
        this.#turns.get(delivery[1])?.onSettled();
        break;
      case "job": {
        const [, id, session, kind, index, payload, inTurn, origin] = delivery;
        if (origin) bindRequest(payload, origin);
        this.#run(session, { id, kind, index, payload }, inTurn);
        break;
      }
      case "cancel_job":
        this.#cancelJob(delivery[1]);
        break;
      case "log":
        log.write({ level: delivery[1], target: delivery[2], message: delivery[3] });
    }
  }

  #take(ticket: number): Pending | undefined {
    const pending = this.#pending.get(ticket);
    this.#pending.delete(ticket);
    return pending;
  }

  #run(sessionKey: number, job: Job, inTurn: boolean): void {
    const { id } = job;
    const handlers = this.#sessions.get(sessionKey)?.deref();
    if (!handlers) {
      this.native.jobDone(id, null, "the session is gone");
      return;
    }
    const context = new JobContext();
    this.#jobs.set(id, context);
    handlers.run(job, context, inTurn, ({ value, error }) => {
      // A job that was cancelled is known no more, and may belong to a session that is closed.
      if (this.#jobs.delete(id)) this.#jobDone(id, value, error);
      this.#updateRef();
    });
  }

  /** Whatever a handler gave, the agent gets an answer: JSON that the addon refuses, too deep for one, is a failure. */
  #jobDone(id: number, value: string | null, error: string | null): void {
    try {
      translated(() => {
        this.native.jobDone(id, value, error);
      });
    } catch (refused) {
      this.native.jobDone(id, null, errorText(refused));
    }
  }

  #cancelJob(id: number): void {
    const context = this.#jobs.get(id);
    this.#jobs.delete(id);
    context?.abort();
  }
}
