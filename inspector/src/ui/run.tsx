/** One run: its timeline, its conversation or messages, and the details of the selected item. */

import type { JSX, RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { formatCount, formatCounted, formatDuration, formatOffset } from "../format";
import type { Run } from "../model/build";
import { expressionOf, filterItems, GROUPS, isEmpty, parseQuery, type Query } from "../model/filter";
import type { Entry } from "../model/input";
import { isFailed, isRejected, type Item, type Kind } from "../model/items";
import { directionOf, filterEntries, summaryOfEntry } from "../model/messages";
import { summarize, totalOf, type Summary } from "../model/summary";
import { KIND_NAMES, titleOf } from "../model/words";
import { visible } from "../text/marks";
import { Details } from "./details";
import { StatusChip } from "./recordings";
import { estimateHeight, ItemView } from "./item";
import { VirtualList, type ListHandle } from "./list";
import { headingOf, Outline } from "./outline";
import { itemAt, Overview, TokenTable } from "./overview";
import { SharedContext, type Levels } from "./state";
import { Visible } from "./text";

/** The commands of the keys that a view carries out. */
export interface Commands {
  move(step: number): void;
  edge(last: boolean): void;
  find(what: "turn" | "problem" | "decision" | "difference", step: number): void;
  toggle(): void;
  details(): void;
  outline(): void;
}

const FINDS: Record<string, (item: Item) => boolean> = {
  turn: (item) => item.kind === "turn",
  problem: (item) => isFailed(item) || isRejected(item),
  decision: (item) =>
    ["approval", "question", "policy"].includes(item.kind) ||
    (item.kind === "tool" && item.attached.some(({ kind }) => kind !== "request")),
};

function Facts({ summary }: { summary: Summary }): JSX.Element {
  const facts: [string, string][] = [
    ["Agent", summary.agent],
    ["Model", summary.model ?? ""],
    ["Protocol", summary.dialect],
    ["Duration", formatDuration(summary.duration)],
    ["Turns", formatCount(summary.turns)],
    ["Steps", formatCount(summary.steps)],
    [
      "Tool calls",
      `${formatCount(summary.tools)}${summary.failedTools > 0 ? ` (${formatCount(summary.failedTools)} failed)` : ""}`,
    ],
    [
      "Approvals",
      `${formatCount(summary.approvals)}${summary.rejected > 0 ? ` (${formatCount(summary.rejected)} rejected)` : ""}`,
    ],
    ["Waits", formatDuration(summary.waiting)],
    ["Errors", formatCount(summary.errors)],
    ["Tokens", `${formatCount(totalOf(summary.usage))} (${formatCount(summary.usage.output)} output)`],
  ];
  return (
    <dl class="summary-facts">
      {facts.map(
        ([name, value]) =>
          value !== "" && (
            <div>
              <dt>{name}</dt>
              <dd>
                <Visible text={value} plain />
              </dd>
            </div>
          ),
      )}
    </dl>
  );
}

function Filters({
  hidden,
  onHidden,
}: {
  hidden: ReadonlySet<Kind>;
  onHidden: (hidden: Set<Kind>) => void;
}): JSX.Element {
  return (
    <div class="filters" role="group" aria-label="Kinds of items">
      {GROUPS.map(({ name, kinds }) => {
        const shown = kinds.some((kind) => !hidden.has(kind));
        return (
          <button
            type="button"
            aria-pressed={shown}
            onClick={() => {
              const next = new Set(hidden);
              for (const kind of kinds) {
                if (shown) next.add(kind);
                else next.delete(kind);
              }
              onHidden(next);
            }}
          >
            {name}
          </button>
        );
      })}
    </div>
  );
}

function EntryRow({ entry }: { entry: Entry }): JSX.Element {
  const direction = directionOf(entry);
  const words = { to: "to the agent", from: "from the agent", inside: "in the program" }[direction];
  return (
    <div class={`entry-line ${direction}`}>
      <span class="number">{entry.index + 1}</span>
      <span class="arrow" aria-label={words} role="img">
        {{ to: "→", from: "←", inside: "·" }[direction]}
      </span>
      <span class="what">
        <Visible text={summaryOfEntry(entry)} />
      </span>
      <time class="muted">{formatOffset(entry.time)}</time>
    </div>
  );
}

interface Props {
  run: Run;
  query: string;
  messages: boolean;
  onMessages: (messages: boolean) => void;
  whole: boolean;
  levels: Levels;
  /** Receives the commands of this view. */
  commands: { current: Commands | null };
  /** The item to select first. */
  initial: number | undefined;
}

function useParsed(text: string): Query {
  return useMemo(() => parseQuery(text), [text]);
}

export function RunView({
  run,
  query: text,
  messages,
  onMessages,
  whole,
  levels,
  commands,
  initial,
}: Props): JSX.Element {
  const query = useParsed(text);
  const [hidden, setHidden] = useState<Set<Kind>>(() => new Set());
  const [selected, setSelected] = useState<Item | undefined>(() => run.all.find((item) => item.id === initial));
  const [entry, setEntry] = useState<Entry>();
  const [showDetails, setShowDetails] = useState(() => innerWidth > 1100);
  const list = useRef<ListHandle>(null);
  const outline = useRef<ListHandle>(null);
  const [table, setTable] = useState(false);
  const [seen, setSeen] = useState<Item>();
  const filtered = useMemo(() => filterItems(run.items, query, hidden), [run, query, hidden]);
  const entries = useMemo(() => (messages ? filterEntries(run, query) : []), [run, query, messages]);
  const summary = useMemo(() => summarize(run), [run]);
  const items = filtered.items;
  const current = messages ? (entry ? entries.indexOf(entry) : -1) : selected ? items.indexOf(selected) : -1;
  const select = (index: number, focus = true): void => {
    const count = messages ? entries.length : items.length;
    const at = Math.max(0, Math.min(index, count - 1));
    if (messages) setEntry(entries[at]);
    else setSelected(items[at]);
    list.current?.show(at, { focus });
  };
  const jump = (item: Item): void => {
    const at = items.indexOf(item);
    if (messages) onMessages(false);
    setSelected(item);
    if (at >= 0) list.current?.show(at, { focus: true, align: "start" });
  };
  useEffect(() => {
    const at = selected ? items.indexOf(selected) : -1;
    if (at >= 0) list.current?.show(at);
  }, [items]);
  commands.current = {
    move(step) {
      select(current < 0 ? 0 : current + step);
    },
    edge(last) {
      select(last ? Infinity : 0);
    },
    find(what, step) {
      const fits = FINDS[what];
      if (messages || !fits) return;
      const start = current < 0 && step < 0 ? items.length : current;
      for (let at = start + step; at >= 0 && at < items.length; at += step) {
        const item = items[at];
        if (!item || !fits(item)) continue;
        setSelected(item);
        list.current?.show(at, { focus: true, align: "start" });
        return;
      }
    },
    toggle() {
      if (!selected || messages) return;
      for (const item of [selected, ...("attached" in selected ? selected.attached : [])])
        levels.toggleItem(String(item.id));
    },
    details() {
      setShowDetails((shown) => !shown);
    },
    outline() {
      document.querySelector<HTMLElement>(".outline button[aria-current], .outline button")?.focus();
    },
  };
  return (
    <SharedContext.Provider value={{ levels, printing: whole, highlight: expressionOf(query) }}>
      <section class="top" aria-label="Summary">
        <div class="heading">
          <h1>
            <Visible text={run.recording.name} plain />
          </h1>
          <StatusChip summary={summary} />
          <Facts summary={summary} />
        </div>
        {run.recording.isCut && (
          <p class="problem cut">
            The recording ends in the middle of a line, which is not shown. The program was killed, or still writes the
            recording.
          </p>
        )}
        <Overview
          run={run}
          time={selected?.start}
          onSelect={(time) => {
            const item = itemAt(items, time);
            if (item) jump(item);
          }}
        />
        <details
          class="tokens"
          onToggle={(event) => {
            setTable(event.currentTarget.open);
          }}
        >
          <summary>Tokens as a table</summary>
          {table && <TokenTable run={run} />}
        </details>
      </section>
      <div class={`body${showDetails ? " with-details" : ""}`}>
        <nav class="sidebar" aria-label="Timeline">
          <Outline run={run} current={selected ?? seen} onSelect={jump} whole={whole} handle={outline} />
        </nav>
        <main>
          <div class="controls">
            <div class="tabs" role="group" aria-label="View">
              <button
                type="button"
                aria-pressed={!messages}
                onClick={() => {
                  onMessages(false);
                }}
              >
                Conversation
              </button>
              <button
                type="button"
                aria-pressed={messages}
                onClick={() => {
                  onMessages(true);
                }}
              >
                Messages
              </button>
            </div>
            {!messages && <Filters hidden={hidden} onHidden={setHidden} />}
            <span role="status" class="muted">
              {messages
                ? formatCounted(entries.length, "line")
                : isEmpty(query)
                  ? formatCounted(items.length, "item")
                  : `${formatCount(filtered.matches)} found`}
            </span>
            <button
              type="button"
              aria-pressed={showDetails}
              class="details-button"
              onClick={() => {
                setShowDetails(!showDetails);
              }}
            >
              Details
            </button>
          </div>
          {messages ? (
            <MessageList
              entries={entries}
              current={current}
              onSelect={(at) => {
                setEntry(entries[at]);
              }}
              whole={whole}
              handle={list}
            />
          ) : items.length === 0 ? (
            <p class="nothing">
              {run.items.length === 0 ? "This recording has no items." : "No item fits the search and the filters."}
            </p>
          ) : (
            <VirtualList
              class="conversation"
              role="feed"
              label="Conversation"
              items={items}
              keyOf={(item) => item.id}
              estimate={estimateHeight}
              labelOf={(item) => `${KIND_NAMES[item.kind]} ${visible(titleOf(item))}`}
              classOf={(item) => `of-${item.kind}`}
              current={current}
              onSelect={(at) => {
                setSelected(items[at]);
              }}
              onScroll={(first) => {
                setSeen(headingOf(items[first]));
              }}
              whole={whole}
              handle={list}
              render={(item) => <ItemView item={item} />}
            />
          )}
        </main>
        {showDetails && (
          <aside class="details" aria-label="Details" tabIndex={0}>
            <Details
              recording={run.recording}
              item={messages ? undefined : selected}
              entry={messages ? entry : undefined}
            />
          </aside>
        )}
      </div>
    </SharedContext.Provider>
  );
}

interface MessageListProps {
  entries: Entry[];
  current: number;
  onSelect: (at: number) => void;
  whole: boolean;
  handle: RefObject<ListHandle | null>;
}

function MessageList({ entries, current, onSelect, whole, handle }: MessageListProps): JSX.Element {
  if (entries.length === 0) return <p class="nothing">No line fits the search.</p>;
  return (
    <VirtualList
      class="messages"
      role="feed"
      label="Messages"
      items={entries}
      keyOf={(each) => each.index}
      estimate={() => 27}
      labelOf={(each) => `Line ${String(each.index + 1)}, ${visible(summaryOfEntry(each))}`}
      current={current}
      onSelect={onSelect}
      whole={whole}
      handle={handle}
      render={(each) => <EntryRow entry={each} />}
    />
  );
}
