/** The dialog with the keys. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

import type { Settings } from "./state";

export const KEYS: readonly (readonly [string, string])[] = [
  ["j, ↓", "Next item"],
  ["k, ↑", "Previous item"],
  ["], [", "Next turn, previous turn"],
  ["e, E", "Next error or rejection, previous one"],
  ["a, A", "Next approval, question or policy decision, previous one"],
  ["d, D", "Next difference, previous one (two runs side by side)"],
  ["Home, End", "First item, last item"],
  ["Enter, o", "Show more or less of the item"],
  ["r", "Show or hide the details with the raw messages"],
  ["/", "Search"],
  ["Esc", "Leave the search; empty it"],
  ["m", "Conversation or messages"],
  ["t", "Turns and steps"],
  ["i", "Index of the recordings"],
  ["l", "Light, dark, or as the system"],
  ["?", "This help"],
];

const SEARCHES: readonly (readonly [string, string])[] = [
  ["two words", "both words, anywhere in an item"],
  ['"two words"', "the words in this order"],
  ["tool:shell", "calls of tools with this name"],
  ["turn:3", "items of this turn"],
  ["is:error", "errors, and tool calls that failed"],
  ["is:rejected", "approvals, rules and hooks that stopped an action"],
];

interface Props {
  open: boolean;
  onClose: () => void;
  settings: Settings;
  onSettings: (settings: Settings) => void;
}

export function Help({ open, onClose, settings, onSettings }: Props): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open && !dialog.current?.open) dialog.current?.showModal();
    if (!open) dialog.current?.close();
  }, [open]);
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={onClose}>
      <header>
        <h2 id="help-title">Help</h2>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </header>
      <div class="columns">
        <section>
          <h3>Keys</h3>
          <dl class="keys">
            {KEYS.map(([keys, meaning]) => (
              <>
                <dt>
                  {keys.split(", ").map((key, at) => (
                    <>
                      {at > 0 && " "}
                      <kbd>{key}</kbd>
                    </>
                  ))}
                </dt>
                <dd>{meaning}</dd>
              </>
            ))}
          </dl>
          <label>
            <input
              type="checkbox"
              checked={settings.shortcuts}
              onChange={(event) => {
                onSettings({ ...settings, shortcuts: event.currentTarget.checked });
              }}
            />{" "}
            Use keys of one letter
          </label>
        </section>
        <section>
          <h3>Search</h3>
          <dl class="keys">
            {SEARCHES.map(([query, meaning]) => (
              <>
                <dt>
                  <code>{query}</code>
                </dt>
                <dd>{meaning}</dd>
              </>
            ))}
          </dl>
          <h3>Marks</h3>
          <p>
            Invisible characters and controls of writing direction are shown as marks, for example{" "}
            <span class="mark">U+202E</span>. So are control sequences for terminals that are not colours. The page runs
            no content of a recording, and loads nothing from the network.
          </p>
        </section>
      </div>
    </dialog>
  );
}
