/** The index of the recordings in the page. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { formatClock, formatCount, formatDuration } from "../format";
import { totalOf, type Summary } from "../model/summary";
import { hashOf } from "./state";
import { Visible } from "./text";

export function StatusChip({ summary }: { summary: Summary }): JSX.Element {
  const kind = summary.status === "failed" ? "rejected" : summary.status === "closed" ? "approved" : "pending";
  const words = summary.status === "incomplete" ? "No end" : summary.status === "failed" ? "Failed" : "Closed";
  return (
    <>
      <span class={`chip ${kind}`}>{words}</span>
      {summary.isCut && <span class="chip pending">Cut</span>}
    </>
  );
}

/** The names of the columns with numbers. */
const NUMBERS = ["Duration", "Turns", "Steps", "Tool calls", "Rejected", "Errors", "Tokens"];

interface Props {
  summaries: Summary[];
  onCompare: (left: number, right: number) => void;
}

export function Index({ summaries, onCompare }: Props): JSX.Element {
  const [chosen, setChosen] = useState<number[]>([0, 1]);
  const [left, right] = [...chosen].sort((a, b) => a - b);
  const toggle = (at: number): void => {
    setChosen(chosen.includes(at) ? chosen.filter((each) => each !== at) : [...chosen.slice(-1), at]);
  };
  return (
    <main class="index">
      <h1>{summaries.length} recordings</h1>
      <div class="wide" tabIndex={0} role="region" aria-label="Recordings">
        <table class="data">
          <thead>
            <tr>
              <th scope="col">Compare</th>
              <th scope="col">Recording</th>
              <th scope="col">State</th>
              <th scope="col">Agent</th>
              <th scope="col">Began</th>
              {NUMBERS.map((name) => (
                <th scope="col" class="right">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {summaries.map((summary, at) => (
              <tr>
                <td>
                  <input
                    type="checkbox"
                    checked={chosen.includes(at)}
                    aria-label={`Compare recording ${String(at + 1)}`}
                    onChange={() => {
                      toggle(at);
                    }}
                  />
                </td>
                <th scope="row">
                  <a href={hashOf({ view: "run", run: at, messages: false })}>
                    <Visible text={summary.name} />
                  </a>
                </th>
                <td>
                  <StatusChip summary={summary} />
                </td>
                <td>
                  <Visible text={summary.agent} />
                </td>
                <td>
                  <Visible text={formatClock(summary.started) ?? summary.started} />
                </td>
                <td class="right">{formatDuration(summary.duration)}</td>
                {[
                  summary.turns,
                  summary.steps,
                  summary.tools,
                  summary.rejected,
                  summary.errors,
                  totalOf(summary.usage),
                ].map((count) => (
                  <td class="right">{formatCount(count)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <button
        type="button"
        class="primary"
        disabled={left === undefined || right === undefined}
        onClick={() => {
          if (left !== undefined && right !== undefined) onCompare(left, right);
        }}
      >
        Compare the two chosen runs
      </button>
    </main>
  );
}
