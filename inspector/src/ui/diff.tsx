/** Two texts side by side. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { formatCount, formatCounted } from "../format";
import { countChanges, foldRows, sideBySide, type Row, type Side } from "../model/diff";
import { useShared } from "./state";
import { ShowLess, Visible } from "./text";

const ROWS = [40, 1000, 10_000] as const;

/** Characters of a line that are shown. */
const LINE = [600, 20_000, 200_000] as const;

function Cell({
  side,
  kind,
  level,
}: {
  side: Side | null;
  kind: "removed" | "added" | "same";
  level: number;
}): JSX.Element {
  if (!side) return <td class="empty" colSpan={2} />;
  let left: number = LINE[level] ?? LINE[0];
  const Change = kind === "removed" ? "del" : "ins";
  const parts = side.parts.map(({ text, changed }) => {
    const shown = text.slice(0, Math.max(0, left));
    left -= text.length;
    return changed && kind !== "same" ? (
      <Change>
        <Visible text={shown} />
      </Change>
    ) : (
      <Visible text={shown} />
    );
  });
  return (
    <>
      <td class="number">{side.line}</td>
      <td class={kind}>
        <span class="sign" aria-hidden="true">
          {kind === "same" ? " " : kind === "added" ? "+" : "−"}
        </span>
        {parts}
        {left < 0 && <span class="muted"> … {formatCount(-left)} more characters</span>}
      </td>
    </>
  );
}

function DiffRow({ row, level }: { row: Row; level: number }): JSX.Element {
  if (row.type === "fold") {
    return (
      <tr class="fold">
        <td colSpan={4}>{formatCounted(row.count, "unchanged line")}</td>
      </tr>
    );
  }
  const same = row.type === "same";
  return (
    <tr>
      <Cell side={row.left} kind={same ? "same" : "removed"} level={level} />
      <Cell side={row.right} kind={same ? "same" : "added"} level={level} />
    </tr>
  );
}

interface Props {
  id: string;
  left: string;
  right: string;
  /** The names of the two sides. */
  names: [string, string];
  /** The path of the file, or the name of the part. */
  title: string;
  starts?: { left: number; right: number };
  note?: string | undefined;
}

export function Diff({ id, left, right, names, title, starts, note }: Props): JSX.Element {
  const { levels, printing } = useShared();
  const level = Math.min(Math.max(levels.of(id), printing ? 1 : 0), ROWS.length - 1);
  const rows = useMemo(() => sideBySide(left, right, starts), [left, right, starts?.left, starts?.right]);
  const { added, removed } = countChanges(rows);
  const folded = level > 1 ? rows : foldRows(rows);
  const shown = folded.slice(0, ROWS[level]);
  const more = shown.length < folded.length || (level < 2 && folded.length < rows.length);
  return (
    <figure class="diff">
      <figcaption>
        <span class="path">
          <Visible text={title} />
        </span>
        <span class="plus">+{formatCount(added)}</span> <span class="minus">−{formatCount(removed)}</span>
        {note !== undefined && <span class="muted"> {note}</span>}
      </figcaption>
      <table>
        <caption class="hidden">Changes side by side</caption>
        <colgroup>
          <col class="numbers" />
          <col />
          <col class="numbers" />
          <col />
        </colgroup>
        <thead class="hidden">
          <tr>
            <th colSpan={2} scope="col">
              {names[0]}
            </th>
            <th colSpan={2} scope="col">
              {names[1]}
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => (
            <DiffRow row={row} level={level} />
          ))}
        </tbody>
      </table>
      {left !== right && added + removed === 0 && <p class="muted">Only the line feed at the end differs.</p>}
      {printing && shown.length < folded.length && (
        <p class="muted">The rest is not shown: {formatCounted(folded.length - shown.length, "more row")}.</p>
      )}
      {more && level < ROWS.length - 1 && (
        <button
          type="button"
          class="more"
          onClick={() => {
            levels.set(id, shown.length < folded.length ? level + 1 : 2);
          }}
        >
          {shown.length < folded.length
            ? `Show more (${formatCounted(folded.length - shown.length, "more row")})`
            : "Show unchanged lines"}
        </button>
      )}
      {level > 0 && <ShowLess id={id} />}
    </figure>
  );
}
