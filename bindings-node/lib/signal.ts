/** Abort signals, with which a program takes back what it has begun. */

import { reading, show, wrongOption } from "./arguments.js";

/** Returns a signal that a program passed in. Throws its reason if it has been aborted already. */
export function takeSignal(signal: AbortSignal | null | undefined): AbortSignal | undefined {
  if (signal === undefined || signal === null) return undefined;
  const { throwIfAborted, addEventListener } = reading("signal", () => {
    const { throwIfAborted, addEventListener } = signal as Partial<AbortSignal>;
    return { throwIfAborted, addEventListener };
  });
  if (typeof throwIfAborted !== "function" || typeof addEventListener !== "function") {
    throw wrongOption("signal", `expected an AbortSignal; got ${show(signal)}`);
  }
  signal.throwIfAborted();
  return signal;
}

interface Listener {
  readonly actions: Set<() => void>;
  readonly onAbort: () => void;
}

/** One listener for each signal, for any number of turns: Node warns of a leak if a signal has more than ten listeners. */
const listeners = new WeakMap<AbortSignal, Listener>();

function listen(signal: AbortSignal): Listener {
  const actions = new Set<() => void>();
  const onAbort = (): void => {
    for (const action of actions) action();
  };
  signal.addEventListener("abort", onAbort, { once: true });
  const listener = { actions, onAbort };
  listeners.set(signal, listener);
  return listener;
}

/**
 * Calls a function, which must not throw, when a signal is aborted; at once if it has been.
 *
 * @returns A function that undoes this.
 */
export function whenAborted(signal: AbortSignal | undefined, action: () => void): () => void {
  if (signal?.aborted) action();
  if (!signal || signal.aborted) return () => undefined;
  const { actions, onAbort } = listeners.get(signal) ?? listen(signal);
  actions.add(action);
  return () => {
    if (!actions.delete(action) || actions.size > 0) return;
    signal.removeEventListener("abort", onAbort);
    listeners.delete(signal);
  };
}
