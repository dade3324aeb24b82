/** The timeline of turns and steps as a list with durations. */

import type { JSX, RefObject } from "preact";
import { useMemo, useRef, useEffect } from "preact/hooks";

import { formatDuration } from "../format";
import type { Run } from "../model/build";
import { isFailed, type Item, type StepItem, type TurnItem } from "../model/items";
import { titleOf } from "../model/words";
import { VirtualList, type ListHandle } from "./list";
import { Visible } from "./text";

type Heading = TurnItem | StepItem;

interface Props {
  run: Run;
  current: Item | undefined;
  onSelect: (item: Item) => void;
  whole: boolean;
  handle: RefObject<ListHandle | null>;
}

function lengthOf(item: Item, run: Run): number {
  return (item.end ?? run.duration) - item.start;
}

function Bar({ item, run }: { item: Heading; run: Run }): JSX.Element {
  const whole = Math.max(run.duration, 0.001);
  const left = Math.min(98.5, (item.start / whole) * 100);
  const width = Math.max(1.5, Math.min(100 - left, (lengthOf(item, run) / whole) * 100));
  return (
    <span class="track" aria-hidden="true">
      <span
        class={`length ${item.kind}${isFailed(item) ? " failed" : ""}`}
        style={{ marginLeft: `${left.toFixed(2)}%`, width: `${width.toFixed(2)}%` }}
      />
    </span>
  );
}

/** Returns the turn or the step of the agent that an item belongs to. */
export function headingOf(item: Item | undefined): Item | undefined {
  for (let each: Item | null | undefined = item; each; each = each.parent) {
    if (each.kind === "turn" || (each.kind === "step" && each.depth === 0)) return each;
  }
  return undefined;
}

export function Outline({ run, current, onSelect, whole, handle }: Props): JSX.Element {
  const headings = useMemo(
    () =>
      run.items.filter((item): item is Heading => item.kind === "turn" || (item.kind === "step" && item.depth === 0)),
    [run],
  );
  const heading = headingOf(current);
  const at = heading ? headings.indexOf(heading as Heading) : -1;
  const shown = useRef(-1);
  useEffect(() => {
    if (at >= 0 && at !== shown.current) handle.current?.show(at);
    shown.current = at;
  }, [at]);
  if (headings.length === 0) return <p class="muted">No turns.</p>;
  return (
    <VirtualList
      class="outline"
      role="list"
      label="Turns and steps"
      items={headings}
      keyOf={(item) => item.id}
      estimate={(item) => (item.kind === "turn" ? 52 : 28)}
      current={at}
      whole={whole}
      handle={handle}
      render={(item, index) => (
        <button
          type="button"
          class={item.kind}
          aria-current={index === at ? "true" : undefined}
          onClick={() => {
            onSelect(item);
          }}
        >
          <span class="line">
            <span class="name">{item.kind === "turn" ? `Turn ${String(item.turn)}` : `Step ${String(item.n)}`}</span>
            <span class="duration">
              {isFailed(item) && <span class="problem">failed </span>}
              {formatDuration(lengthOf(item, run))}
            </span>
          </span>
          {item.kind === "turn" && (
            <span class="prompt">
              <Visible text={titleOf(item)} plain />
            </span>
          )}
          <Bar item={item} run={run} />
        </button>
      )}
    />
  );
}
