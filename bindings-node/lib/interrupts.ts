/** Ctrl-C while batches run: their jobs are cancelled before the process exits. */

import { loadNative } from "./native.js";
import { workerThreads } from "./node.js";

/** Cancels a batch. The promise ends when all its jobs have ended. */
type Cancel = () => Promise<unknown>;

/** The exit code of a program that Ctrl-C ended, as shells report it. */
const EXIT_CODE = 130;

const batches = new Map<number, Cancel>();
let isDraining = false;

/** A batch runs: Ctrl-C cancels it. `cancel` must not keep the program's object from being collected. */
export function watchInterrupts(key: number, cancel: Cancel): void {
  // Workers get no signals.
  if (!workerThreads.isMainThread) return;
  // First of all listeners: later one of the program that listens once would be removed already.
  if (batches.size === 0 && !isDraining) process.prependListener("SIGINT", interrupted);
  batches.set(key, cancel);
}

/** A batch has ended. */
export function unwatchInterrupts(key: number): void {
  if (batches.delete(key) && batches.size === 0 && !isDraining) process.off("SIGINT", interrupted);
}

function interrupted(): void {
  if (isDraining) {
    // The exit waits for the agents.
    loadNative().killAgents();
    process.exit(EXIT_CODE);
  }
  if (hasOwnListener()) return;
  isDraining = true;
  const ended = Array.from(batches.values(), (cancel) => cancel());
  void Promise.allSettled(ended).then(() => process.exit(EXIT_CODE));
}

/**
 * Whether the program has a listener of its own, which decides what Ctrl-C does. The package signal-exit, which many packages
 * use to clean up, counts its listeners, so that they do not count here. They are called at the exit.
 */
function hasOwnListener(): boolean {
  const known = process as unknown as Record<string | symbol, { count?: unknown } | undefined>;
  const counts = [known[Symbol.for("signal-exit emitter")]?.count, known["__signal_exit_emitter__"]?.count];
  const exits = counts.reduce<number>((sum, count) => sum + (typeof count === "number" ? count : 0), 0);
  return process.listenerCount("SIGINT") - 1 > exits;
}
