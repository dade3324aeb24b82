/** Parts of items: content parts, display blocks, arguments. */

import type { JSX } from "preact";

import { formatBytes } from "../format";
import { listOf, member, numberOf, printJson, textOf, type Json } from "../json";
import type { ToolItem } from "../model/items";
import { argumentsOf, mediaUrl } from "../model/words";
import { isShownImage, mediaTypeOf } from "../text/images";
import { Diff } from "./diff";
import { Block, Visible } from "./text";

/** An image that the page contains. Of other media only the address is shown, as text. */
function Media({ id, part }: { id: string; part: Json }): JSX.Element {
  const url = mediaUrl(part);
  if (url === undefined) return <Block id={id} text={printJson(part)} kind="terminal" />;
  if (textOf(part, "type") === "image_url" && isShownImage(url)) {
    return (
      <figure class="image">
        <img src={url} alt="Image of the recording" loading="lazy" decoding="async" />
        <figcaption class="muted">
          {mediaTypeOf(url)}, {formatBytes(Math.round((url.length - url.indexOf(",")) * 0.75))}
        </figcaption>
      </figure>
    );
  }
  const type = mediaTypeOf(url);
  return (
    <div class="address">
      <p class="muted">
        Not shown: {type === undefined ? "the recording has only the address." : `the inspector does not show ${type}.`}
      </p>
      <Block id={id} text={url} size="short" />
    </div>
  );
}

/** A text, or a list of content parts. */
export function Content({
  id,
  content,
  kind,
}: {
  id: string;
  content: Json | undefined;
  kind: "prose" | "terminal";
}): JSX.Element | null {
  if (typeof content === "string") return content === "" ? null : <Block id={id} text={content} kind={kind} />;
  if (!Array.isArray(content)) return null;
  return (
    <>
      {content.map((part, at) => {
        const text = typeof part === "string" ? part : textOf(part, "text");
        const key = `${id}.${String(at)}`;
        if (text !== undefined) return <Block id={key} text={text} kind={kind} />;
        return <Media id={key} part={part} />;
      })}
    </>
  );
}

/** The arguments of a tool call. Long texts have a block of their own. */
export function Arguments({ id, input }: { id: string; input: string }): JSX.Element | null {
  const found = argumentsOf(input);
  if (typeof found === "string")
    return found.trim() === "" ? null : <Block id={id} text={found} kind="terminal" size="short" />;
  if (found.length === 0) return null;
  return (
    <dl class="arguments">
      {found.slice(0, 200).map(({ name, text }, at) => (
        <>
          <dt class={isLong(text) ? "long" : ""}>
            <Visible text={name} />
          </dt>
          <dd>
            {isLong(text) ? (
              <Block id={`${id}.${String(at)}`} text={text} kind="terminal" size="short" />
            ) : (
              <code dir="ltr">
                <Visible text={text} />
              </code>
            )}
          </dd>
        </>
      ))}
    </dl>
  );
}

function isLong(text: string): boolean {
  return text.length > 120 || text.includes("\n");
}

const TODO_SIGNS = new Map([
  ["done", "✓"],
  ["in_progress", "▸"],
  ["pending", "○"],
]);

function Todo({ block }: { block: Json }): JSX.Element {
  return (
    <ul class="todo">
      {listOf(block, "items")
        .slice(0, 200)
        .map((each) => {
          const status = textOf(each, "status") ?? "";
          return (
            <li class={`todo-${TODO_SIGNS.has(status) ? status : "other"}`}>
              <span aria-hidden="true">{TODO_SIGNS.get(status) ?? "·"}</span>{" "}
              <Visible text={textOf(each, "title") ?? ""} />
              <span class="hidden"> ({status.replace("_", " ")})</span>
            </li>
          );
        })}
    </ul>
  );
}

export function diffKey(block: Json): string {
  return JSON.stringify(["path", "old_text", "new_text"].map((name) => textOf(block, name)));
}

function DisplayBlock({ id, block }: { id: string; block: Json }): JSX.Element | null {
  const type = textOf(block, "type");
  if (type === "diff") {
    const starts = { left: numberOf(block, "old_start") ?? 1, right: numberOf(block, "new_start") ?? 1 };
    const note = member(block, "is_summary") === true ? "summary of the change" : undefined;
    const texts = { left: textOf(block, "old_text") ?? "", right: textOf(block, "new_text") ?? "" };
    return (
      <Diff
        id={id}
        {...texts}
        names={["Before", "After"]}
        title={textOf(block, "path") ?? "file"}
        starts={starts}
        note={note}
      />
    );
  }
  if (type === "shell") return <Block id={id} text={textOf(block, "command") ?? ""} kind="terminal" />;
  if (type === "todo") return <Todo block={block} />;
  if (type === "brief") return <Block id={id} text={textOf(block, "text") ?? ""} kind="prose" size="short" />;
  if (type === "background_task") {
    const words = ["kind", "task_id", "status", "description"]
      .map((name) => textOf(block, name) ?? "")
      .filter((each) => each !== "");
    return (
      <p>
        Background task: <Visible text={words.join(", ")} />
      </p>
    );
  }
  return <Block id={id} text={printJson(block)} kind="terminal" size="short" />;
}

/** Whether a block shows only the command that is also an argument of the call. */
export function repeatsArgument(block: Json, tool: ToolItem): boolean {
  if (textOf(block, "type") !== "shell") return false;
  const found = argumentsOf(tool.input);
  return typeof found !== "string" && found.some(({ text }) => text === textOf(block, "command"));
}

/** The display blocks of a tool result or an approval request. `skip` has the diffs that are shown elsewhere. */
export function Display({ id, blocks, skip }: { id: string; blocks: Json[]; skip?: ReadonlySet<string> }): JSX.Element {
  return (
    <>
      {blocks.map((block, at) =>
        textOf(block, "type") === "diff" && skip?.has(diffKey(block)) ? null : (
          <DisplayBlock id={`${id}.${String(at)}`} block={block} />
        ),
      )}
    </>
  );
}
