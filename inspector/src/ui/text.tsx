/** Texts of agents: hidden characters become marks, searched words are highlighted, long texts are cut. */

import { Fragment, type ComponentChild, type JSX } from "preact";

import { formatCount, formatCounted } from "../format";
import { parseAnsi, type Style } from "../text/ansi";
import { clip, type Clipped } from "../text/clip";
import { splitHidden } from "../text/marks";
import { splitProse, splitInline, type Inline } from "../text/prose";
import { useShared } from "./state";

function highlighted(text: string, expression: RegExp | undefined): ComponentChild {
  if (!expression) return text;
  const parts: ComponentChild[] = [];
  let shown = 0;
  for (const match of text.matchAll(expression)) {
    if (match[0] === "") continue;
    parts.push(text.slice(shown, match.index), <mark>{match[0]}</mark>);
    shown = match.index + match[0].length;
  }
  if (parts.length === 0) return text;
  return [...parts, text.slice(shown)];
}

/** Longer labels are wrapped. */
const LONG_LABEL = 40;

export function Mark({ label, name }: { label: string; name: string }): JSX.Element {
  return (
    <span class={label.length > LONG_LABEL ? "mark long" : "mark"} title={name}>
      {label}
    </span>
  );
}

/** A text of an agent. */
export function Visible({ text, plain = false }: { text: string; plain?: boolean }): JSX.Element {
  const { highlight } = useShared();
  const pieces = splitHidden(text);
  return (
    <>
      {pieces.map((piece) =>
        piece.type === "mark" ? (
          <Mark {...piece} />
        ) : (
          <Fragment>{highlighted(piece.text, plain ? undefined : highlight)}</Fragment>
        ),
      )}
    </>
  );
}

function classOf(style: Style): string | undefined {
  const names: string[] = [];
  const { foreground, background } = style.inverse
    ? { foreground: undefined, background: style.foreground ?? 7 }
    : style;
  if (foreground !== undefined) names.push(`fg${String(foreground)}`);
  if (background !== undefined) names.push(`bg${String(background)}`);
  for (const name of ["bold", "dim", "italic", "underline", "strike", "concealed"] as const)
    if (style[name]) names.push(`ansi-${name}`);
  return names.length > 0 ? names.join(" ") : undefined;
}

/** Output for terminals. */
export function Terminal({ text }: { text: string }): JSX.Element {
  if (!/[\x1b\x9b]/.test(text)) return <Visible text={text} />;
  return (
    <>
      {parseAnsi(text).map((span) => {
        if (span.type === "mark") return <Mark {...span} />;
        const name = classOf(span.style);
        return name === undefined ? (
          <Visible text={span.text} />
        ) : (
          <span class={name}>{<Visible text={span.text} />}</span>
        );
      })}
    </>
  );
}

function InlineParts({ parts }: { parts: Inline[] }): JSX.Element {
  return (
    <>
      {parts.map(({ type, text }) => {
        if (type === "code")
          return (
            <code>
              <Visible text={text} />
            </code>
          );
        if (type === "bold")
          return (
            <strong>
              <Visible text={text} />
            </strong>
          );
        return <Visible text={text} />;
      })}
    </>
  );
}

/** A text in Markdown, of which code, headings and bold words are shown as such. Links and HTML stay text. */
export function Prose({ text }: { text: string }): JSX.Element {
  return (
    <>
      {splitProse(text).map((block) => {
        if (block.type === "code")
          return (
            <div class="fenced" dir="ltr">
              {block.info !== "" && (
                <p class="info muted">
                  <Visible text={block.info} />
                </p>
              )}
              <pre class="code">
                <Visible text={block.text} />
              </pre>
            </div>
          );
        if (block.type === "heading")
          return (
            <p class="heading" dir="auto">
              <InlineParts parts={splitInline(block.text)} />
            </p>
          );
        return (
          <p dir="auto">
            <InlineParts parts={splitInline(block.text)} />
          </p>
        );
      })}
    </>
  );
}

/** Lines and characters that are shown at each level after the first. */
const LIMITS = [
  [500, 60_000],
  [5_000, 500_000],
  [50_000, 5_000_000],
] as const;

/** The limits at first. Less of arguments is shown, and more of raw messages. */
const FIRST = { short: [4, 400], usual: [14, 3_000], long: [60, 8_000] } as const;

function restText({ lines, characters }: Clipped): string {
  return lines > 1 ? formatCounted(lines, "more line") : `${formatCount(characters)} more characters`;
}

interface BlockProps {
  /** The key of the level, for example the id of the item and the name of the part. */
  id: string;
  text: string;
  kind?: "terminal" | "prose" | "text";
  /** How much of the text is shown at first. */
  size?: keyof typeof FIRST;
}

/** The button that folds a long part again. `id` is the key of its level. */
export function ShowLess({ id }: { id: string }): JSX.Element {
  const { levels } = useShared();
  return (
    <button
      type="button"
      class="more"
      onClick={() => {
        levels.set(id, 0);
      }}
    >
      Show less
    </button>
  );
}

/** A text of any length. Its beginning is shown, and buttons show more. */
export function Block({ id, text, kind = "text", size = "usual" }: BlockProps): JSX.Element {
  const { levels, printing } = useShared();
  const level = Math.min(Math.max(levels.of(id), printing ? 1 : 0), LIMITS.length);
  const [lines, characters] = LIMITS[level - 1] ?? FIRST[size];
  const shown = clip(text, lines, characters);
  return (
    <div class="block">
      {kind === "prose" ? (
        <div class="prose">
          <Prose text={shown.text} />
        </div>
      ) : (
        <pre class={kind} dir={kind === "text" ? "auto" : "ltr"}>
          {kind === "terminal" ? <Terminal text={shown.text} /> : <Visible text={shown.text} />}
        </pre>
      )}
      {shown.characters > 0 && level < LIMITS.length && !printing && (
        <button
          type="button"
          class="more"
          onClick={() => {
            levels.set(id, level + 1);
          }}
        >
          Show more <span class="muted">({restText(shown)})</span>
        </button>
      )}
      {shown.characters > 0 && (level === LIMITS.length || printing) && (
        <p class="muted">The rest is not shown: {restText(shown)}.</p>
      )}
      {level > 0 && <ShowLess id={id} />}
    </div>
  );
}
