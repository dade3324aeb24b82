/** The keys of the page. */

import type { Commands } from "./run";

export interface Actions {
  commands: { current: Commands | null };
  /** Whether keys of one letter are on. */
  isOn: () => boolean;
  help: () => void;
  clear: () => void;
  theme: () => void;
  messages: () => void;
  index: () => void;
}

function searchField(): HTMLInputElement | null {
  return document.querySelector<HTMLInputElement>("#search");
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input:not([type=checkbox]), textarea, select");
}

/** Whether the focus is on something that uses the arrows, Home, End or Enter itself. */
function usesKeys(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    target.closest("button, a, summary, input, select, pre, .wide, .outline, aside, dialog") !== null
  );
}

type Act = (commands: Commands | null, actions: Actions) => void;

const LETTERS = new Map<string, Act>([
  ["j", (commands) => commands?.move(1)],
  ["k", (commands) => commands?.move(-1)],
  ["]", (commands) => commands?.find("turn", 1)],
  ["[", (commands) => commands?.find("turn", -1)],
  ["e", (commands) => commands?.find("problem", 1)],
  ["E", (commands) => commands?.find("problem", -1)],
  ["a", (commands) => commands?.find("decision", 1)],
  ["A", (commands) => commands?.find("decision", -1)],
  ["d", (commands) => commands?.find("difference", 1)],
  ["D", (commands) => commands?.find("difference", -1)],
  ["o", (commands) => commands?.toggle()],
  ["r", (commands) => commands?.details()],
  ["t", (commands) => commands?.outline()],
  [
    "m",
    (_, actions) => {
      actions.messages();
    },
  ],
  [
    "i",
    (_, actions) => {
      actions.index();
    },
  ],
  [
    "l",
    (_, actions) => {
      actions.theme();
    },
  ],
  [
    "?",
    (_, actions) => {
      actions.help();
    },
  ],
  [
    "/",
    () => {
      searchField()?.focus();
    },
  ],
]);

const NAMED = new Map<string, Act>([
  ["ArrowDown", (commands) => commands?.move(1)],
  ["ArrowUp", (commands) => commands?.move(-1)],
  ["Home", (commands) => commands?.edge(false)],
  ["End", (commands) => commands?.edge(true)],
  ["Enter", (commands) => commands?.toggle()],
]);

/** Listens to keys. Returns a function that stops it. */
export function bindKeys(actions: Actions): () => void {
  const follow = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const { key, target } = event;
    if (key === "Escape" && target === searchField()) {
      if (searchField()?.value === "") searchField()?.blur();
      actions.clear();
      return;
    }
    if (target === searchField() && (key === "Enter" || key === "ArrowDown")) {
      event.preventDefault();
      actions.commands.current?.edge(false);
      return;
    }
    if (isTyping(target)) return;
    const act = usesKeys(target) ? undefined : NAMED.get(key);
    const letter = actions.isOn() ? LETTERS.get(key) : undefined;
    if (!act && !letter) return;
    event.preventDefault();
    (act ?? letter)?.(actions.commands.current, actions);
  };
  document.addEventListener("keydown", follow);
  return () => {
    document.removeEventListener("keydown", follow);
  };
}
