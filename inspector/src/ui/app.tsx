/** The page: its bar, its keys, and the view that is open. */

import { options, type JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { buildRun, type Run } from "../model/build";
import type { Pair } from "../model/compare";
import type { Input } from "../model/input";
import { summarize, type Summary } from "../model/summary";
import { visible } from "../text/marks";
import { Compare } from "./compare";
import { Help } from "./help";
import { Index } from "./recordings";
import { bindKeys } from "./keys";
import type { ListHandle } from "./list";
import { RunView, type Commands } from "./run";
import { SharedContext, useLevels, useRoute, useSettings, type Route, type Settings } from "./state";
import { Visible } from "./text";

/** Whether the page is being printed. Then all rows have to be in it before the browser lays out the pages. */
function usePrinting(): boolean {
  const [printing, setPrinting] = useState(false);
  useEffect(() => {
    const set = (value: boolean): void => {
      options.debounceRendering = (draw) => {
        draw();
      };
      setPrinting(value);
      delete options.debounceRendering;
    };
    const begin = (): void => {
      set(true);
    };
    const end = (): void => {
      set(false);
    };
    addEventListener("beforeprint", begin);
    addEventListener("afterprint", end);
    return () => {
      removeEventListener("beforeprint", begin);
      removeEventListener("afterprint", end);
    };
  }, []);
  return printing;
}

const NEXT_THEME: Record<Settings["theme"], Settings["theme"]> = { system: "dark", dark: "light", light: "system" };

interface BarProps {
  input: Input;
  route: Route;
  go: (route: Route) => void;
  query: string;
  onQuery: (query: string) => void;
  settings: Settings;
  onSettings: (settings: Settings) => void;
  onHelp: () => void;
}

function Bar({ input, route, go, query, onQuery, settings, onSettings, onHelp }: BarProps): JSX.Element {
  const { recordings } = input;
  return (
    <header class="bar">
      <strong class="brand">kimi-agent inspector</strong>
      {recordings.length > 1 && (
        <>
          <button
            type="button"
            aria-pressed={route.view === "index"}
            onClick={() => {
              go({ view: "index" });
            }}
          >
            Index
          </button>
          <label>
            <span class="hidden">Recording</span>
            <select
              value={route.view === "run" ? String(route.run) : ""}
              onChange={(event) => {
                if (event.currentTarget.value !== "")
                  go({ view: "run", run: Number(event.currentTarget.value), messages: false });
              }}
            >
              {route.view !== "run" && <option value="">Choose a recording</option>}
              {recordings.map(({ name }, at) => (
                <option value={String(at)}>{visible(name)}</option>
              ))}
            </select>
          </label>
        </>
      )}
      <span class="space" />
      {route.view === "run" && (
        <input
          id="search"
          type="search"
          placeholder="Search (/)"
          aria-label="Search"
          autocomplete="off"
          spellcheck={false}
          value={query}
          onInput={(event) => {
            onQuery(event.currentTarget.value);
          }}
        />
      )}
      <button
        type="button"
        onClick={() => {
          onSettings({ ...settings, theme: NEXT_THEME[settings.theme] });
        }}
      >
        <span class="hidden">Colours: </span>
        {{ system: "Auto", light: "Light", dark: "Dark" }[settings.theme]}
      </button>
      <button type="button" aria-label="Help" aria-haspopup="dialog" onClick={onHelp}>
        ?
      </button>
    </header>
  );
}

/** Searches when the reader stops to type, so that typing stays fast in long recordings. */
function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => {
      setSettled(value);
    }, 120);
    return () => {
      clearTimeout(timer);
    };
  }, [value]);
  return settled;
}

export function App({ input }: { input: Input }): JSX.Element {
  const { recordings } = input;
  const [route, go] = useRoute(recordings.length);
  const [settings, setSettings] = useSettings();
  const [query, setQuery] = useState("");
  const [help, setHelp] = useState(false);
  const [pair, setPair] = useState(-1);
  const levels = useLevels();
  const whole = usePrinting();
  const settled = useSettled(query);
  const commands = useRef<Commands>(null);
  const pairs = useRef<ListHandle>(null);
  const shownPairs = useRef<Pair[]>([]);
  // A recording becomes items when it is first shown.
  const built = useMemo(() => new Map<number, Run>(), []);
  const runOf = (at: number): Run | undefined => {
    const recording = recordings[at];
    const run = built.get(at) ?? (recording ? buildRun(recording) : undefined);
    if (run) built.set(at, run);
    return run;
  };
  const counted = useMemo(() => new Map<number, Summary>(), []);
  const summaryOf = (at: number): Summary | undefined => {
    const run = runOf(at);
    const summary = counted.get(at) ?? (run ? summarize(run) : undefined);
    if (summary) counted.set(at, summary);
    return summary;
  };
  const goTo = (next: Route): void => {
    if (next.view !== "run" || route.view !== "run" || next.run !== route.run) setQuery("");
    setPair(-1);
    go(next);
  };
  useEffect(() => {
    const name = route.view === "run" ? recordings[route.run]?.name : undefined;
    document.title = name === undefined ? "kimi-agent inspector" : `${visible(name)} – kimi-agent inspector`;
  }, [route]);
  if (route.view === "compare") {
    const show = (at: number): void => {
      setPair(at);
      pairs.current?.show(at, { focus: true });
    };
    commands.current = compareCommands(shownPairs, pair, show);
  }
  const latest = useRef({ route, settings, goTo });
  latest.current = { route, settings, goTo };
  useEffect(
    () =>
      bindKeys({
        commands,
        isOn: () => latest.current.settings.shortcuts,
        help: () => {
          setHelp(true);
        },
        clear: () => {
          setQuery("");
        },
        theme: () => {
          setSettings({ ...latest.current.settings, theme: NEXT_THEME[latest.current.settings.theme] });
        },
        messages: () => {
          const { route: now, goTo: open } = latest.current;
          if (now.view === "run") open({ ...now, messages: !now.messages });
        },
        index: () => {
          if (recordings.length > 1) latest.current.goTo({ view: "index" });
        },
      }),
    [],
  );
  const view = (): JSX.Element => {
    if (input.problem !== undefined)
      return (
        <main class="index">
          <h1>Nothing to show</h1>
          <p>
            <Visible text={input.problem} />
          </p>
        </main>
      );
    if (route.view === "index") {
      return (
        <Index
          summaries={recordings.flatMap((_, at) => summaryOf(at) ?? [])}
          onCompare={(left, right) => {
            goTo({ view: "compare", left, right });
          }}
        />
      );
    }
    if (route.view === "compare") {
      const [first, second] = [runOf(route.left), runOf(route.right)];
      if (!first || !second)
        return (
          <main class="index">
            <p>These recordings are not in the page.</p>
          </main>
        );
      return (
        <Compare
          first={first}
          second={second}
          left={route.left}
          right={route.right}
          whole={whole}
          handle={pairs}
          current={pair}
          onCurrent={setPair}
          shown={shownPairs}
          onSwap={() => {
            goTo({ view: "compare", left: route.right, right: route.left });
          }}
        />
      );
    }
    const run = runOf(route.run);
    if (!run)
      return (
        <main class="index">
          <p>This recording is not in the page.</p>
        </main>
      );
    return (
      <RunView
        key={route.run}
        run={run}
        query={settled}
        messages={route.messages}
        onMessages={(messages) => {
          goTo({ ...route, messages });
        }}
        whole={whole}
        levels={levels}
        commands={commands}
        initial={route.item}
      />
    );
  };
  return (
    <SharedContext.Provider value={{ levels, printing: whole, highlight: undefined }}>
      <div class={`page view-${route.view}`}>
        <Bar
          input={input}
          route={route}
          go={goTo}
          query={query}
          onQuery={setQuery}
          settings={settings}
          onSettings={setSettings}
          onHelp={() => {
            setHelp(true);
          }}
        />
        {view()}
      </div>
      <Help
        open={help}
        onClose={() => {
          setHelp(false);
        }}
        settings={settings}
        onSettings={setSettings}
      />
    </SharedContext.Provider>
  );
}

function compareCommands(shown: { current: Pair[] }, current: number, show: (at: number) => void): Commands {
  const none = (): void => {
    // This view has no such part.
  };
  const find: Commands["find"] = (what, step) => {
    const fits = (pair: Pair): boolean =>
      what === "turn" ? (pair.left ?? pair.right)?.kind === "turn" : what === "difference" && !pair.same;
    const count = shown.current.length;
    for (let at = (current < 0 && step < 0 ? count : current) + step; at >= 0 && at < count; at += step) {
      const pair = shown.current[at];
      if (pair && fits(pair)) {
        show(at);
        return;
      }
    }
  };
  return {
    move: (step) => {
      show(Math.max(0, Math.min(shown.current.length - 1, current < 0 ? 0 : current + step)));
    },
    edge: (last) => {
      show(last ? shown.current.length - 1 : 0);
    },
    find,
    toggle: none,
    details: none,
    outline: none,
  };
}
