/** The run over time: turns, steps, tool calls and waits above a plot of the context and the tokens. */

import type { JSX, RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { formatCount, formatCounted, formatDuration, formatPercent, formatShort } from "../format";
import type { Run } from "../model/build";
import { isFailed, isRejected, type Item } from "../model/items";
import { contextOverTime, stepsWithUsage, totalOf, usageOfTurns } from "../model/summary";

const LABELS = 74;
const LANE = 12;
const PLOT = 54;
const TOP = 16;

export interface Span {
  start: number;
  end: number;
}

/**
 * Returns one path with a rectangle for each span. Spans that are drawn at the same pixels are drawn once.
 *
 * @param spans - The spans, in order.
 * @param x - The place of a time.
 * @param y - The upper end.
 * @param height - The height.
 */
export function spansPath(spans: readonly Span[], x: (time: number) => number, y: number, height: number): string {
  const parts: string[] = [];
  let drawn = "";
  for (const { start, end } of spans) {
    const from = x(start).toFixed(1);
    const width = Math.max(1.5, x(end) - x(start) - 0.5).toFixed(1);
    if (`${from} ${width}` === drawn) continue;
    drawn = `${from} ${width}`;
    parts.push(`M${from} ${String(y)}h${width}v${String(height)}h-${width}z`);
  }
  return parts.join("");
}

/** Returns the path of a line that has steps, in at most as many points as pixels. */
export function stepLine(
  points: readonly { time: number; value: number }[],
  x: (time: number) => number,
  y: (value: number) => number,
  end: number,
): string {
  const parts: string[] = [];
  let last = "";
  for (const { time, value } of points) {
    const [left, top] = [x(time).toFixed(0), y(value).toFixed(1)];
    if (left === last) parts.pop();
    parts.push(parts.length === 0 ? `M${left} ${top}` : `H${left}V${top}`);
    last = left;
  }
  return parts.length === 0 ? "" : `${parts.join("")}H${String(end)}`;
}

function spanOf(item: Item, duration: number): Span {
  return { start: item.start, end: item.end ?? (item.kind === "tool" ? duration : item.start) };
}

interface Lane {
  name: string;
  class: string;
  spans: Span[];
}

function lanesOf(run: Run): { lanes: Lane[]; waits: Span[]; marks: Span[] } {
  const of = (fits: (item: Item) => boolean): Span[] => run.all.filter(fits).map((item) => spanOf(item, run.duration));
  return {
    lanes: [
      { name: "Turns", class: "turn", spans: of((item) => item.kind === "turn") },
      { name: "Steps", class: "step", spans: of((item) => item.kind === "step" && item.depth === 0) },
      { name: "Tools", class: "tool", spans: of((item) => item.kind === "tool" && item.depth === 0) },
      { name: "Subagents", class: "subagent", spans: of((item) => item.kind === "subagent") },
    ].filter(({ name, spans }) => name !== "Subagents" || spans.length > 0),
    waits: run.all.flatMap((item) =>
      "decision" in item && item.decision?.duration
        ? [{ start: item.decision.time - item.decision.duration, end: item.decision.time }]
        : [],
    ),
    marks: of((item) => isFailed(item) || isRejected(item)),
  };
}

/** The times of the axis: round numbers, about `count` of them. */
export function ticksOf(duration: number, count: number): number[] {
  if (!(duration > 0)) return [0];
  const rough = duration / Math.max(1, count);
  const units = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 360_000];
  const step = units.flatMap((unit) => [unit, unit * 2, unit * 5]).find((each) => each >= rough) ?? rough;
  return Array.from({ length: Math.floor(duration / step) + 1 }, (_, at) => at * step);
}

function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(900);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      if (entry && entry.contentRect.width > 0) setWidth(Math.round(entry.contentRect.width));
    });
    if (element.current) observer.observe(element.current);
    return () => {
      observer.disconnect();
    };
  }, []);
  return width;
}

/** The item at a time: the last one that began before it. */
export function itemAt(items: readonly Item[], time: number): Item | undefined {
  let best: Item | undefined;
  for (const item of items) if (item.start <= time && (!best || item.start >= best.start)) best = item;
  return best ?? items[0];
}

interface Props {
  run: Run;
  /** The time of the selected item. */
  time: number | undefined;
  onSelect: (time: number) => void;
}

function Plot({
  run,
  x,
  top,
  width,
}: {
  run: Run;
  x: (time: number) => number;
  top: number;
  width: number;
}): JSX.Element {
  const { points, limit } = useMemo(() => contextOverTime(run.samples), [run]);
  const steps = useMemo(() => stepsWithUsage(run), [run]);
  const highest = points.reduce((max, { tokens }) => Math.max(max, tokens), 1);
  const most = steps.reduce((max, { usage }) => Math.max(max, totalOf(usage)), 1);
  const y = (part: number): number => top + PLOT - part * (PLOT - 6);
  const line = stepLine(
    points.map(({ time, tokens }) => ({ time, value: tokens / highest })),
    x,
    y,
    width,
  );
  const bars = (from: (item: (typeof steps)[number]) => number, to: (item: (typeof steps)[number]) => number): string =>
    steps
      .map((step) => {
        const [low, high] = [y(from(step) / most), y(to(step) / most)];
        const wide = Math.max(2, Math.min(14, x(step.end ?? step.start) - x(step.start) - 1));
        const [left, width] = [x(step.start).toFixed(1), wide.toFixed(1)];
        return `M${left} ${low.toFixed(1)}h${width}V${high.toFixed(1)}h-${width}z`;
      })
      .join("");
  return (
    <g>
      <line class="axis" x1={LABELS} x2={width} y1={top + PLOT} y2={top + PLOT} />
      <path
        class="tokens-in"
        d={bars(
          () => 0,
          ({ usage }) => totalOf(usage) - usage.output,
        )}
      />
      <path
        class="tokens-out"
        d={bars(
          ({ usage }) => totalOf(usage) - usage.output,
          ({ usage }) => totalOf(usage),
        )}
      />
      {line !== "" && (
        <path class="context-area" d={`${line}V${String(top + PLOT)}H${x(points[0]?.time ?? 0).toFixed(0)}z`} />
      )}
      {line !== "" && <path class="context-line" d={line} />}
      <text x={LABELS - 8} y={top + 14} class="label end context-text">
        {points.length > 0 ? formatShort(highest) : ""}
      </text>
      <text x={LABELS - 8} y={top + 28} class="label end tokens-text">
        {steps.length > 0 ? formatShort(most) : ""}
      </text>
      <text x={LABELS - 8} y={top + PLOT} class="label end">
        Tokens
      </text>
      {limit !== undefined && points.length > 0 && (
        <title>{`${formatPercent(highest / limit)} of the context was in use`}</title>
      )}
    </g>
  );
}

function describe(run: Run): string {
  const { points, limit } = contextOverTime(run.samples);
  const last = points.at(-1);
  const most = limit === undefined ? "" : ` of at most ${formatCount(limit)}`;
  const context = last ? ` The context had ${formatCount(last.tokens)} tokens at the end${most}.` : "";
  const timeline = `Timeline of ${formatDuration(run.duration)} with ${formatCounted(run.turns.length, "turn")}.`;
  return `${timeline}${context} The list of turns and the table of tokens have the same data.`;
}

/** The parts that do not depend on the pointer. Their paths can be large: they are drawn when the width changes. */
function drawRun(run: Run, width: number): { parts: JSX.Element; height: number } {
  const { x, duration } = scaleOf(run, width);
  const { lanes, waits, marks } = lanesOf(run);
  const plotTop = TOP + lanes.length * (LANE + 4) + 4;
  const parts = (
    <>
      {ticksOf(duration, Math.max(2, (width - LABELS) / 110)).map((tick) => (
        <g>
          <line class="tick" x1={x(tick)} x2={x(tick)} y1={TOP - 3} y2={plotTop + PLOT} />
          {x(tick) < width - 40 && (
            <text class="label" x={x(tick) + 3} y={TOP - 5}>
              {tickLabel(tick)}
            </text>
          )}
        </g>
      ))}
      {lanes.map((lane, at) => (
        <g>
          <text class="label end" x={LABELS - 8} y={TOP + at * (LANE + 4) + LANE - 2}>
            {lane.name}
          </text>
          <path class={`lane ${lane.class}`} d={spansPath(lane.spans, x, TOP + at * (LANE + 4), LANE)} />
          {lane.class === "tool" && (
            <path class="lane wait" d={spansPath(waits, x, TOP + at * (LANE + 4) + LANE - 4, 4)} />
          )}
          {lane.class === "tool" && (
            <path
              class="lane trouble"
              d={spansPath(
                marks.map(({ start }) => ({ start, end: start })),
                x,
                TOP + at * (LANE + 4) - 2,
                LANE + 4,
              )}
            />
          )}
        </g>
      ))}
      <Plot run={run} x={x} top={plotTop} width={x(duration)} />
    </>
  );
  return { parts, height: plotTop + PLOT + 4 };
}

function tickLabel(tick: number): string {
  return tick === 0
    ? "0"
    : formatDuration(tick)
        .replace(/ 00 (?:s|min)$/, "")
        .replace(".0 s", " s");
}

interface Scale {
  x: (time: number) => number;
  timeAt: (x: number) => number;
  duration: number;
}

function scaleOf(run: Run, width: number): Scale {
  const duration = Math.max(run.duration, 0.001);
  const span = Math.max(10, width - LABELS - 4);
  return {
    duration,
    x: (time) => LABELS + (Math.min(time, duration) / duration) * span,
    timeAt: (x) => Math.max(0, Math.min(duration, ((x - LABELS) / span) * duration)),
  };
}

export function Overview({ run, time, onSelect }: Props): JSX.Element {
  const frame = useRef<HTMLDivElement | null>(null);
  const width = useWidth(frame);
  const [hover, setHover] = useState<number>();
  const { x, timeAt } = scaleOf(run, width);
  const drawn = useMemo(() => drawRun(run, width), [run, width]);
  const label = useMemo(() => describe(run), [run]);
  const timeOf = (event: MouseEvent): number =>
    timeAt(event.clientX - (frame.current?.getBoundingClientRect().left ?? 0));
  const bottom = drawn.height - 4;
  return (
    <div class="overview" ref={frame}>
      <svg
        role="img"
        aria-label={label}
        width={width}
        height={drawn.height}
        onPointerMove={(event) => {
          setHover(timeOf(event));
        }}
        onPointerLeave={() => {
          setHover(undefined);
        }}
        onClick={(event) => {
          onSelect(timeOf(event));
        }}
      >
        {drawn.parts}
        {time !== undefined && <line class="cursor" x1={x(time)} x2={x(time)} y1={TOP - 3} y2={bottom} />}
        {hover !== undefined && <line class="hover" x1={x(hover)} x2={x(hover)} y1={TOP - 3} y2={bottom} />}
      </svg>
      <p class="legend">
        <span class="key tool">tool calls</span>
        <span class="key wait">waits for a decision</span>
        <span class="key trouble">errors, rejections</span>
        <span class="key context">context</span>
        <span class="key tokens-in">tokens of a step: input</span>
        <span class="key tokens-out">output</span>
        {hover !== undefined && <span class="readout">{readout(run, hover)}</span>}
      </p>
    </div>
  );
}

function readout(run: Run, time: number): string {
  const turn = run.turns.findLast((each) => each.start <= time);
  const context = contextOverTime(run.samples).points.findLast((point) => point.time <= time);
  const parts = [formatDuration(time), turn ? `turn ${String(turn.turn)}` : "before the first turn"];
  if (context) parts.push(`context ${formatCount(context.tokens)} tokens`);
  return parts.join(" · ");
}

/** The tokens of each turn as a table, which screen readers can read. */
export function TokenTable({ run }: { run: Run }): JSX.Element {
  const usages = useMemo(() => usageOfTurns(run), [run]);
  const rows = [...usages.entries()].slice(0, 1000);
  if (rows.length === 0) return <p class="muted">The agent reported no tokens.</p>;
  return (
    <table class="data">
      <caption class="hidden">Tokens of each turn</caption>
      <thead>
        <tr>
          <th scope="col">Turn</th>
          <th scope="col">Input</th>
          <th scope="col">Read from the cache</th>
          <th scope="col">Written to the cache</th>
          <th scope="col">Output</th>
          <th scope="col">Total</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([turn, usage]) => (
          <tr>
            <th scope="row">{turn}</th>
            {[usage.inputOther, usage.cacheRead, usage.cacheCreation, usage.output, totalOf(usage)].map((each) => (
              <td>{formatCount(each)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
