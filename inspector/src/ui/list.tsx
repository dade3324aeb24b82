/** A list of which only the visible rows are in the page. The heights of rows are measured when they are shown. */

import type { ComponentChildren, JSX, RefObject } from "preact";
import { useLayoutEffect, useMemo, useReducer, useRef } from "preact/hooks";

import { Offsets } from "../list/offsets";

/** The distance above and below the visible part in which rows are in the page, too. */
const OVERSCAN = 500;

export interface ListHandle {
  /** Scrolls to a row. `align` is its place in the visible part. */
  show(index: number, options?: { focus?: boolean; align?: "start" | "nearest" }): void;
}

interface Props<T> {
  items: readonly T[];
  keyOf(item: T): number | string;
  /** The height of a row that has not been shown yet. */
  estimate(item: T): number;
  render(item: T, index: number): ComponentChildren;
  labelOf?: (item: T, index: number) => string;
  classOf?: (item: T, index: number) => string | undefined;
  /** The list is a feed of articles, or a plain list. */
  role: "feed" | "list";
  label: string;
  class: string;
  /** The row that stays in the page when it is not visible, because it can have the focus. */
  current?: number;
  onSelect?: (index: number) => void;
  /** Whether all rows are in the page, for printing. */
  whole: boolean;
  handle?: RefObject<ListHandle | null>;
  /** Called with the first visible row. */
  onScroll?: (first: number) => void;
}

interface Target {
  index: number;
  focus: boolean;
  align: "start" | "nearest";
  attempts: number;
}

/** The state of a list between two drawings. */
class Window {
  offsets = new Offsets([]);
  scroller: HTMLElement | null = null;
  target: Target | null = null;
  range: [number, number] = [0, -1];
  readonly heights = new Map<number | string, number>();
  readonly observed = new WeakSet<Element>();

  visibleRange(): [number, number] {
    const top = this.scroller?.scrollTop ?? 0;
    const height = this.scroller?.clientHeight ?? 800;
    return [this.offsets.indexAt(top - OVERSCAN), this.offsets.indexAt(top + height + OVERSCAN)];
  }

  /** Measures the rows in the page. Returns whether a height was different; what is visible does not move. */
  measure(keyAt: (index: number) => number | string, observer: ResizeObserver): boolean {
    const { scroller } = this;
    if (!scroller || scroller.clientHeight === 0) return false;
    const top = scroller.scrollTop;
    let [changed, above] = [false, 0];
    for (const row of scroller.querySelectorAll<HTMLElement>(":scope > .rows > .row")) {
      if (!this.observed.has(row)) {
        this.observed.add(row);
        observer.observe(row);
      }
      const index = Number(row.dataset["index"]);
      const height = row.getBoundingClientRect().height;
      if (Math.abs(height - this.offsets.heightOf(index)) < 0.5) continue;
      const bottom = this.offsets.offsetOf(index + 1);
      const change = this.offsets.set(index, height);
      this.heights.set(keyAt(index), height);
      changed = true;
      if (bottom <= top) above += change;
    }
    if (above !== 0 && !this.target) scroller.scrollTop = top + above;
    return changed;
  }

  /** Scrolls towards the target. Returns whether it has been reached. */
  approach(): boolean {
    const { scroller, target } = this;
    if (!scroller || !target) return true;
    target.attempts += 1;
    if (target.index >= this.offsets.length || target.attempts > 50) {
      this.target = null;
      return true;
    }
    const top = this.offsets.offsetOf(target.index);
    const bottom = top + this.offsets.heightOf(target.index);
    const [from, to] = [scroller.scrollTop, scroller.scrollTop + scroller.clientHeight];
    let wanted = from;
    if (target.align === "start" || top < from || bottom - top > to - from) wanted = top;
    else if (bottom > to) wanted = bottom - (to - from);
    // A row that is taller than the visible part stays as it is while a part of it is visible.
    if (target.align === "nearest" && top <= from && bottom >= to) wanted = from;
    wanted = Math.max(0, Math.min(wanted, this.offsets.total - scroller.clientHeight));
    const row = scroller.querySelector<HTMLElement>(`:scope > .rows > .row[data-index="${String(target.index)}"]`);
    if (Math.abs(wanted - from) > 1) {
      scroller.scrollTop = wanted;
      // The end of the page can be nearer than it was computed.
      if (Math.abs(scroller.scrollTop - from) > 1) return false;
    }
    if (!row) return false;
    if (target.focus) row.focus({ preventScroll: true });
    this.target = null;
    return true;
  }
}

function rowIndexes([first, last]: [number, number], current: number, count: number): number[] {
  const indexes = [];
  for (let at = Math.max(0, first); at <= Math.min(last, count - 1); at++) indexes.push(at);
  if (current >= 0 && current < count && (current < first || current > last)) indexes.push(current);
  return indexes.sort((a, b) => a - b);
}

export function VirtualList<T>(props: Props<T>): JSX.Element {
  const { items, whole } = props;
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const state = useRef<Window>(null);
  const view = (state.current ??= new Window());
  const keyAt = (index: number): number | string => {
    const item = items[index];
    return item === undefined ? index : props.keyOf(item);
  };
  useMemo(() => {
    view.offsets = new Offsets(items.map((item) => view.heights.get(props.keyOf(item)) ?? props.estimate(item)));
    view.range = [0, -1];
  }, [items]);
  const observer = useMemo(
    () =>
      new ResizeObserver(() => {
        redraw(undefined);
      }),
    [],
  );
  useLayoutEffect(() => {
    if (view.scroller) observer.observe(view.scroller);
    return () => {
      observer.disconnect();
    };
  }, []);
  useLayoutEffect(() => {
    if (whole) return;
    const changed = view.measure(keyAt, observer);
    const reached = view.approach();
    const [first, last] = view.visibleRange();
    if (changed || !reached || first !== view.range[0] || last !== view.range[1]) redraw(undefined);
  });
  if (props.handle) {
    props.handle.current = {
      show(index, options) {
        view.target = { index, focus: options?.focus ?? false, align: options?.align ?? "nearest", attempts: 0 };
        redraw(undefined);
      },
    };
  }
  const follow = (): void => {
    const [first, last] = view.visibleRange();
    if (first !== view.range[0] || last !== view.range[1]) redraw(undefined);
    props.onScroll?.(view.offsets.indexAt((view.scroller?.scrollTop ?? 0) + 8));
  };
  view.range = view.visibleRange();
  const indexes = whole ? items.map((_, index) => index) : rowIndexes(view.range, props.current ?? -1, items.length);
  return (
    <div
      class={`scroller ${props.class}`}
      ref={(element) => {
        view.scroller = element;
      }}
      onScroll={follow}
    >
      <div
        class="rows"
        role={props.role}
        aria-label={props.label}
        style={whole ? {} : { height: `${String(view.offsets.total)}px` }}
      >
        {indexes.map((index) => {
          const item = items[index];
          if (item === undefined) return null;
          return (
            <Row
              key={props.keyOf(item)}
              list={props}
              item={item}
              index={index}
              top={whole ? undefined : view.offsets.offsetOf(index)}
            />
          );
        })}
      </div>
    </div>
  );
}

function Row<T>({
  list,
  item,
  index,
  top,
}: {
  list: Props<T>;
  item: T;
  index: number;
  top: number | undefined;
}): JSX.Element {
  const feed = list.role === "feed";
  const isCurrent = index === list.current;
  const selectable = feed || list.onSelect !== undefined;
  return (
    <div
      class={`row ${list.classOf?.(item, index) ?? ""}${isCurrent ? " current" : ""}`}
      role={feed ? "article" : "listitem"}
      data-index={index}
      aria-posinset={index + 1}
      aria-setsize={list.items.length}
      aria-label={list.labelOf?.(item, index)}
      aria-current={isCurrent ? "true" : undefined}
      tabIndex={!selectable ? undefined : isCurrent || (index === 0 && (list.current ?? -1) < 0) ? 0 : -1}
      style={top === undefined ? {} : { top: `${String(top)}px` }}
      onFocusIn={() => list.onSelect?.(index)}
      onClick={() => list.onSelect?.(index)}
    >
      {list.render(item, index)}
    </div>
  );
}
