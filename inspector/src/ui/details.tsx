/** The details of the selected item: its times and ids, and the raw messages behind it. */

import type { ComponentChildren, JSX } from "preact";

import { formatClock, formatDuration, formatOffset } from "../format";
import { printJson, textOf } from "../json";
import type { Entry, Recording } from "../model/input";
import type { Item } from "../model/items";
import { KIND_NAMES, titleOf } from "../model/words";
import { entriesOf, summaryOfEntry } from "../model/messages";
import { Guard } from "./item";
import { deciderOf, verdictText } from "./requests";
import { Block, Visible } from "./text";
import { useShared } from "./state";

function Facts({ children }: { children: ComponentChildren }): JSX.Element {
  return <dl class="facts">{children}</dl>;
}

function Fact({ name, value }: { name: string; value: string | undefined }): JSX.Element | null {
  if (value === undefined || value === "") return null;
  return (
    <>
      <dt>{name}</dt>
      <dd>
        <Visible text={value} plain />
      </dd>
    </>
  );
}

function clock(recording: Recording, time: number): string | undefined {
  return formatClock(textOf(recording.header, "started") ?? "", time);
}

function ItemFacts({ item, recording }: { item: Item; recording: Recording }): JSX.Element {
  const decision = "decision" in item ? item.decision : undefined;
  return (
    <Facts>
      <Fact name="Turn" value={item.turn === null ? "outside of turns" : String(item.turn)} />
      <Fact name="Step" value={item.step > 0 ? String(item.step) : undefined} />
      <Fact name="Began" value={[formatOffset(item.start), clock(recording, item.start)].filter(Boolean).join(", ")} />
      <Fact name="Ended" value={item.end === null ? undefined : formatOffset(item.end)} />
      <Fact name="Duration" value={item.end === null ? undefined : formatDuration(item.end - item.start)} />
      <Fact name="Tool call" value={item.kind === "tool" ? item.callId : undefined} />
      <Fact name="Request" value={"requestId" in item && item.type !== "HookTriggered" ? item.requestId : undefined} />
      <Fact name="Decision" value={"decision" in item ? verdictText(item) : undefined} />
      <Fact name="Decided by" value={decision ? deciderOf(decision) : undefined} />
      <Fact name="Wait" value={decision?.duration == null ? undefined : formatDuration(decision.duration)} />
    </Facts>
  );
}

/** Messages that are in the page at first; more are added on demand. */
const FIRST = 20;

function Raw({ entries, name }: { entries: Entry[]; name: string }): JSX.Element {
  const { levels } = useShared();
  const key = `raw.${name}`;
  const shown = entries.slice(0, FIRST * (levels.of(key) * 5 + 1));
  return (
    <>
      {shown.map((entry) => (
        <section class="entry">
          <h4>
            Line {entry.index + 1}{" "}
            <span class="muted">
              {formatOffset(entry.time)} · <Visible text={summaryOfEntry(entry)} plain />
            </span>
          </h4>
          <Guard>
            <Block id={`raw.${String(entry.index)}`} text={printJson(entry.data)} kind="terminal" size="long" />
          </Guard>
        </section>
      ))}
      {shown.length < entries.length && (
        <button
          type="button"
          class="more"
          onClick={() => {
            levels.set(key, levels.of(key) + 1);
          }}
        >
          Show more <span class="muted">({entries.length - shown.length} more messages)</span>
        </button>
      )}
    </>
  );
}

interface Props {
  recording: Recording;
  item?: Item | undefined;
  entry?: Entry | undefined;
}

export function Details({ recording, item, entry }: Props): JSX.Element {
  if (entry) {
    return (
      <>
        <h2>Line {entry.index + 1}</h2>
        <Facts>
          <Fact name="Type" value={entry.type} />
          <Fact
            name="Time"
            value={[formatOffset(entry.time), clock(recording, entry.time)].filter(Boolean).join(", ")}
          />
        </Facts>
        <Raw entries={[entry]} name={`line ${String(entry.index)}`} />
      </>
    );
  }
  if (!item) return <p class="muted">Select an item to see its details and its raw messages.</p>;
  const entries = entriesOf(recording, item);
  return (
    <>
      <h2>{KIND_NAMES[item.kind]}</h2>
      <p class="title">
        <Visible text={titleOf(item)} plain />
      </p>
      <ItemFacts item={item} recording={recording} />
      <h3>{entries.length === 1 ? "Raw message" : `Raw messages (${String(entries.length)})`}</h3>
      <Raw entries={entries} name={`item ${String(item.id)}`} />
    </>
  );
}
