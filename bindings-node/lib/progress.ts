/** Shows the progress of a batch on stderr: a bar on a terminal, lines otherwise. */

import type { Progress } from "./batch.js";

/** The widths of the bar. If there is less space, only the numbers are shown. */
const WIDTH = 30;
const LEAST_WIDTH = 10;
/** The milliseconds between two drawings. */
const REDRAW_MS = 100;

/** A display of the progress. */
export interface ProgressDisplay {
  /** Shows the numbers. */
  update(progress: Progress): void;
  /** Ends the display. */
  close(): void;
}

/** The stream that it writes to. Tests pass others. */
export interface Sink {
  /** Whether it is a terminal. */
  readonly isTTY?: boolean | undefined;
  /** The width of the terminal, in characters. */
  readonly columns?: number | undefined;
  /** Writes a text. */
  write(text: string): unknown;
}

/** Returns a display for a stream. */
export function progressDisplay(stream: Sink = process.stderr): ProgressDisplay {
  return stream.isTTY ? bar(stream) : lines(stream);
}

function counts({ done, total, running, waiting, failed, tokens }: Progress): string {
  const parts = [`${String(done)}${total === null ? "" : ` of ${String(total)}`} jobs done`, `${String(running)} running`];
  if (waiting > 0) parts.push(`${String(waiting)} waiting`);
  if (failed > 0) parts.push(`${String(failed)} failed`);
  return [...parts, `${tokens.toLocaleString("en")} tokens`].join(", ");
}

/** Returns the rate, and the time that is left if the number of jobs is known. */
function rate({ done, total, elapsed }: Progress): string {
  if (done === 0 || elapsed <= 0) return "";
  const perSecond = (done * 1000) / elapsed;
  const left = total === null || done >= total ? "" : `, ${String(Math.ceil((total - done) / perSecond))} s left`;
  return `, ${perSecond.toFixed(1)} jobs/s${left}`;
}

/** Returns a line that is shorter than the terminal is wide, because a longer one could not be drawn again. */
function line(progress: Progress, columns: number | undefined): string {
  const { done, total } = progress;
  // Some terminals say that their width is 0.
  const space = (columns === undefined || columns === 0 ? Number.MAX_SAFE_INTEGER : columns) - 1;
  const text = counts(progress) + rate(progress);
  const width = Math.min(WIDTH, space - text.length - "[] ".length);
  if (!total || width < LEAST_WIDTH) return text.slice(0, space);
  const filled = Math.min(width, Math.floor((done * width) / total));
  return `[${"#".repeat(filled)}${"-".repeat(width - filled)}] ${text}`;
}

function bar(stream: Sink): ProgressDisplay {
  let latest: Progress | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isDrawn = true;
  const draw = (): void => {
    timer = undefined;
    if (isDrawn || latest === undefined) return;
    isDrawn = true;
    stream.write(`\r\x1b[K${line(latest, stream.columns)}`);
    timer = setTimeout(draw, REDRAW_MS).unref();
  };
  return {
    update(progress) {
      latest = progress;
      isDrawn = false;
      if (timer === undefined) draw();
    },
    close() {
      if (latest === undefined) return;
      draw();
      clearTimeout(timer);
      stream.write("\n");
      latest = undefined;
    },
  };
}

/** A line for each percent, or at 1, 2, … 10, 20, … 100, 200, … jobs if their number is unknown. */
function lines(stream: Sink): ProgressDisplay {
  let shown: number | undefined;
  return {
    update(progress) {
      const { done, total } = progress;
      const step = 10 ** (String(done).length - 1);
      const level = total ? Math.floor((done * 100) / total) : Math.floor(done / step) * step;
      if (done === 0 || level === shown) return;
      shown = level;
      stream.write(`${counts(progress)}\n`);
    },
    close() {
      // Each line is complete.
    },
  };
}
