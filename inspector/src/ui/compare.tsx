/** Two runs side by side. */

import type { JSX, RefObject } from "preact";
import { useMemo, useState } from "preact/hooks";

import { formatCount, formatDuration, excerpt } from "../format";
import type { Run } from "../model/build";
import { compareRuns, fieldsOf, headerFields, type Field, type Pair } from "../model/compare";
import type { Item } from "../model/items";
import { summarize, totalOf, type Summary } from "../model/summary";
import { KIND_NAMES, titleOf } from "../model/words";
import { visible } from "../text/marks";
import { Diff } from "./diff";
import { durationOf, Guard } from "./item";
import { VirtualList, type ListHandle } from "./list";
import { hashOf } from "./state";
import { Visible } from "./text";

const MEASURES: readonly (readonly [string, (summary: Summary) => number, (value: number) => string])[] = [
  ["Duration", ({ duration }) => duration, formatDuration],
  ["Waits for decisions", ({ waiting }) => waiting, formatDuration],
  ["Turns", ({ turns }) => turns, formatCount],
  ["Steps", ({ steps }) => steps, formatCount],
  ["Tool calls", ({ tools }) => tools, formatCount],
  ["Tool calls that failed", ({ failedTools }) => failedTools, formatCount],
  ["Rejections", ({ rejected }) => rejected, formatCount],
  ["Errors", ({ errors }) => errors, formatCount],
  ["Tokens", ({ usage }) => totalOf(usage), formatCount],
  ["Output tokens", ({ usage }) => usage.output, formatCount],
];

const WORDS: readonly (readonly [string, (summary: Summary) => string])[] = [
  ["Agent", ({ agent }) => agent],
  ["SDK", ({ sdk }) => sdk],
  ["Protocol", ({ dialect }) => dialect],
  ["End", ({ status }) => status],
];

function change(left: number, right: number, format: (value: number) => string): string {
  if (left === right) return "same";
  return `${right > left ? "+" : "−"}${format(Math.abs(right - left))}`;
}

interface Measured extends Merged {
  difference: string;
}

function TotalsTable({
  caption,
  names,
  rows,
}: {
  caption: string;
  names: [string, string];
  rows: Measured[];
}): JSX.Element {
  return (
    <table class="data totals">
      <caption class="hidden">{caption}</caption>
      <thead>
        <tr>
          <td />
          <th scope="col">
            <Visible text={names[0]} />
          </th>
          <th scope="col">
            <Visible text={names[1]} />
          </th>
          <th scope="col">Difference</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr class={row.left === row.right ? "same" : "changed"}>
            <th scope="row">
              <Visible text={row.name} />
            </th>
            <td>
              <Visible text={excerpt(row.left)} />
            </td>
            <td>
              <Visible text={excerpt(row.right)} />
            </td>
            <td>{row.difference}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Totals({ left, right, options }: { left: Summary; right: Summary; options: Merged[] }): JSX.Element {
  const names: [string, string] = [left.name, right.name];
  const measured = MEASURES.map(([name, of, format]) => ({
    name,
    left: format(of(left)),
    right: format(of(right)),
    difference: change(of(left), of(right), format),
  }));
  const words = WORDS.map(([name, of]) => ({ name, left: of(left), right: of(right) }));
  const given = options
    .filter((each) => each.left !== each.right)
    .map((each) => ({ ...each, name: `option ${each.name}` }));
  const rows = [...words, ...given].map((each) => ({
    ...each,
    difference: each.left === each.right ? "same" : "differs",
  }));
  return (
    <div class="both">
      <TotalsTable caption="Counts of the two runs" names={names} rows={measured} />
      <TotalsTable caption="Agents and options of the two runs" names={names} rows={rows} />
    </div>
  );
}

interface Merged {
  name: string;
  left: string;
  right: string;
}

/** Pairs the fields of both sides that have the same name and the same place among those of that name. */
export function mergeFields(left: Field[], right: Field[]): Merged[] {
  const merged: Merged[] = left.map(({ name, text }) => ({ name, left: text, right: "" }));
  const taken = new Set<Merged>();
  for (const { name, text } of right) {
    const found = merged.find((each) => each.name === name && !taken.has(each));
    const own = found ?? { name, left: "", right: "" };
    own.right = text;
    if (!found) merged.push(own);
    taken.add(own);
  }
  return merged;
}

function Side({ item, name, run }: { item: Item | null; name: string; run: number }): JSX.Element {
  if (!item)
    return (
      <div class="side empty">
        <span class="muted">not in {name === "left" ? "the first run" : "the second run"}</span>
      </div>
    );
  const duration = durationOf(item);
  return (
    <div class="side">
      <span class="kind">{item.kind === "turn" ? `Turn ${String(item.turn)}` : KIND_NAMES[item.kind]}</span>
      <a class="title" href={hashOf({ view: "run", run, messages: false, item: item.id })}>
        <Visible text={titleOf(item) || "(empty)"} />
      </a>
      {duration !== undefined && <span class="duration">{duration}</span>}
    </div>
  );
}

function Differences({ pair, at }: { pair: Pair; at: number }): JSX.Element | null {
  if (pair.same || !pair.left || !pair.right) return null;
  const different = mergeFields(fieldsOf(pair.left), fieldsOf(pair.right)).filter((each) => each.left !== each.right);
  return (
    <>
      {different.map((each, field) => (
        <Diff
          id={`compare.${String(at)}.${String(field)}`}
          left={each.left}
          right={each.right}
          names={["First run", "Second run"]}
          title={each.name}
        />
      ))}
    </>
  );
}

function stateOf({ same, left, right }: Pair): string {
  if (same) return "same";
  if (!left) return "only right";
  return right ? "different" : "only left";
}

const STATE_WORDS = new Map([
  ["same", "Same"],
  ["different", "Different"],
  ["only left", "Only in the first run"],
  ["only right", "Only in the second run"],
]);

function titleOfPair(pair: Pair): string {
  const item = pair.left ?? pair.right;
  return item ? `${KIND_NAMES[item.kind]}, ${visible(titleOf(item))}` : "";
}

interface Props {
  first: Run;
  second: Run;
  /** The places of the two runs in the page. */
  left: number;
  right: number;
  whole: boolean;
  handle: RefObject<ListHandle | null>;
  current: number;
  onCurrent: (index: number) => void;
  /** Receives the pairs that are shown, for the keys. */
  shown: { current: Pair[] };
  onSwap: () => void;
}

export function Compare({
  first,
  second,
  left,
  right,
  whole,
  handle,
  current,
  onCurrent,
  shown,
  onSwap,
}: Props): JSX.Element {
  const [onlyDifferent, setOnlyDifferent] = useState(false);
  const pairs = useMemo(() => compareRuns(first, second), [first, second]);
  const listed = useMemo(
    () => (onlyDifferent ? pairs.filter((pair) => !pair.same || pair.left?.kind === "turn") : pairs),
    [pairs, onlyDifferent],
  );
  shown.current = listed;
  const totals = useMemo(
    () => (
      <Totals
        left={summarize(first)}
        right={summarize(second)}
        options={mergeFields(headerFields(first), headerFields(second))}
      />
    ),
    [first, second],
  );
  const different = pairs.filter((pair) => !pair.same).length;
  return (
    <main class="compare">
      <details class="summary" open>
        <summary>
          <h1>Two runs side by side</h1>
        </summary>
        <div class="wide" tabIndex={0} role="region" aria-label="Totals">
          {totals}
        </div>
      </details>
      <div class="controls">
        <span role="status">
          {formatCount(different)} of {formatCount(pairs.length)} items differ
        </span>
        <label>
          <input
            type="checkbox"
            checked={onlyDifferent}
            onChange={(event) => {
              setOnlyDifferent(event.currentTarget.checked);
            }}
          />{" "}
          Only differences
        </label>
        <button type="button" onClick={onSwap}>
          Swap sides
        </button>
      </div>
      <VirtualList
        class="pairs"
        role="feed"
        label="Items of both runs"
        items={listed}
        keyOf={(pair) => `${String(pair.left?.id ?? "")}:${String(pair.right?.id ?? "")}`}
        estimate={(pair) => (pair.same || !pair.left || !pair.right ? 40 : 200)}
        labelOf={(pair) => `${STATE_WORDS.get(stateOf(pair)) ?? ""}: ${titleOfPair(pair)}`}
        classOf={(pair) => `pair ${stateOf(pair)} ${(pair.left ?? pair.right)?.kind === "turn" ? "of-turn" : ""}`}
        current={current}
        onSelect={onCurrent}
        whole={whole}
        handle={handle}
        render={(pair, at) => (
          <>
            <div class="sides">
              <Side item={pair.left} name="left" run={left} />
              <span class="state" title={STATE_WORDS.get(stateOf(pair))} aria-hidden="true">
                {pair.same ? "=" : !pair.left ? "+" : pair.right ? "≠" : "−"}
              </span>
              <Side item={pair.right} name="right" run={right} />
            </div>
            <Guard>
              <Differences pair={pair} at={at} />
            </Guard>
          </>
        )}
      />
    </main>
  );
}
