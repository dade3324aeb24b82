/** The state that parts of the page share. */

import { createContext } from "preact";
import { useContext, useEffect, useMemo, useReducer, useState } from "preact/hooks";

import { isObject, type Json } from "../json";

/** How much of each long text is shown. It is kept here: rows outside of the visible part are not in the page. */
export class Levels {
  readonly #levels = new Map<string, number>();
  /** The items of which more is shown. The keys of their texts begin with the id of the item and a dot. */
  readonly #opened = new Set<string>();

  constructor(private readonly changed: () => void) {}

  of(key: string): number {
    return this.#levels.get(key) ?? (this.#opened.has(key.slice(0, key.indexOf("."))) ? 1 : 0);
  }

  set(key: string, level: number): void {
    this.#levels.set(key, level);
    this.changed();
  }

  /** Shows more of all texts of an item, or less of all if more of one is shown. */
  toggleItem(item: string): void {
    const own = [...this.#levels.entries()].filter(([key]) => key.startsWith(`${item}.`));
    const open = this.#opened.has(item) || own.some(([, level]) => level > 0);
    for (const [key] of own) this.#levels.delete(key);
    if (open) this.#opened.delete(item);
    else this.#opened.add(item);
    this.changed();
  }
}

/** Keeps levels. Their parts of the page are drawn again when a level changes. */
export function useLevels(): Levels {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  return useMemo(
    () =>
      new Levels(() => {
        redraw(undefined);
      }),
    [],
  );
}

export interface Shared {
  levels: Levels;
  /** Whether the page is being printed: more of long texts is shown then. */
  printing: boolean;
  /** The words to highlight. */
  highlight: RegExp | undefined;
}

export const SharedContext = createContext<Shared | null>(null);

const ALONE: Shared = {
  levels: new Levels(() => {
    // Without a page, nothing is drawn again.
  }),
  printing: false,
  highlight: undefined,
};

export function useShared(): Shared {
  return useContext(SharedContext) ?? ALONE;
}

/** The place in the page, which its address has after the `#`. */
export type Route =
  | { view: "index" }
  | { view: "run"; run: number; messages: boolean; item?: number }
  | { view: "compare"; left: number; right: number };

export function readRoute(hash: string, count: number): Route {
  const number = (text: string | undefined): number => Math.min(Math.max(0, Number(text ?? 0)), Math.max(0, count - 1));
  const compared = /^#compare=(\d+),(\d+)$/.exec(hash);
  if (compared) return { view: "compare", left: number(compared[1]), right: number(compared[2]) };
  const run = /^#run=(\d+)(&messages)?(?:&item=(\d{1,9}))?$/.exec(hash);
  if (run)
    return {
      view: "run",
      run: number(run[1]),
      messages: run[2] !== undefined,
      ...(run[3] === undefined ? {} : { item: Number(run[3]) }),
    };
  return count > 1 ? { view: "index" } : { view: "run", run: 0, messages: false };
}

export function hashOf(route: Route): string {
  if (route.view === "compare") return `#compare=${String(route.left)},${String(route.right)}`;
  if (route.view === "index") return "#index";
  const item = route.item === undefined ? "" : `&item=${String(route.item)}`;
  return `#run=${String(route.run)}${route.messages ? "&messages" : ""}${item}`;
}

export function useRoute(count: number): [Route, (route: Route) => void] {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = (): void => {
      setHash(location.hash);
    };
    addEventListener("hashchange", follow);
    return () => {
      removeEventListener("hashchange", follow);
    };
  }, []);
  const go = (route: Route): void => {
    location.hash = hashOf(route);
    setHash(hashOf(route));
  };
  return [useMemo(() => readRoute(hash, count), [hash, count]), go];
}

export interface Settings {
  theme: "system" | "light" | "dark";
  shortcuts: boolean;
}

const STORED = "kimi-agent-inspector";

/** Browsers can refuse storage to files; then the settings last as long as the page. */
function readSettings(): Settings {
  const settings: Settings = { theme: "system", shortcuts: true };
  try {
    const stored = JSON.parse(localStorage.getItem(STORED) ?? "{}") as Json;
    if (!isObject(stored)) return settings;
    if (stored["theme"] === "light" || stored["theme"] === "dark") settings.theme = stored["theme"];
    settings.shortcuts = stored["shortcuts"] !== false;
  } catch {
    // The defaults.
  }
  return settings;
}

export function useSettings(): [Settings, (settings: Settings) => void] {
  const [settings, setSettings] = useState(readSettings);
  useEffect(() => {
    if (settings.theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = settings.theme;
    try {
      localStorage.setItem(STORED, JSON.stringify(settings));
    } catch {
      // Not stored.
    }
  }, [settings]);
  return [settings, setSettings];
}
