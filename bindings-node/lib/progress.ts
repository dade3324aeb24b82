/** Shows the progress of a batch on stderr: a bar on a terminal, lines otherwise. */

import type { Progress } from "./batch.js";

const WIDTH = 30;

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

function bar(stream: Sink): ProgressDisplay {
  let isOpen = false;
  return {
    update(progress) {
      const { done, total } = progress;
      const filled = total ? Math.min(WIDTH, Math.floor((done * WIDTH) / total)) : 0;
      const drawn = total ? `[${"#".repeat(filled)}${"-".repeat(WIDTH - filled)}] ` : "";
      stream.write(`\r\x1b[K${drawn}${counts(progress)}`);
      isOpen = true;
    },
    close() {
      if (isOpen) stream.write("\n");
      isOpen = false;
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
