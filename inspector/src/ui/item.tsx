/** The items of the conversation. */

import { Component, type ComponentChildren, type JSX } from "preact";

import { formatDuration, formatOffset, formatShort } from "../format";
import { listOf, member, printJson, textOf } from "../json";
import { isFailed, type Item, type NoteItem, type StepItem, type ToolItem, type TurnItem } from "../model/items";
import { totalOf } from "../model/summary";
import { KIND_NAMES, titleOf } from "../model/words";
import { Arguments, Content, diffKey, Display, repeatsArgument } from "./parts";
import { AttachedRequest, RequestBody } from "./requests";
import { Block, Visible } from "./text";

/** Shows a note instead of a part that cannot be shown, so that the rest of the page works. */
export class Guard extends Component<{ children: ComponentChildren }, { failed: boolean }> {
  override state = { failed: false };

  override componentDidCatch(): void {
    this.setState({ failed: true });
  }

  override render(): ComponentChildren {
    if (this.state.failed)
      return <p class="problem">This part cannot be shown. Its raw messages are in the details.</p>;
    return this.props.children;
  }
}

export function durationOf(item: Item): string | undefined {
  if (item.end === null || item.kind === "text" || item.kind === "thought" || item.end === item.start) return undefined;
  return formatDuration(item.end - item.start);
}

function Status({ item }: { item: TurnItem }): JSX.Element {
  const status = item.status ?? "incomplete";
  const kind = status === "finished" ? "approved" : status === "failed" ? "rejected" : "pending";
  return (
    <span class={`chip ${kind}`}>
      <Visible text={status.replaceAll("_", " ")} />
    </span>
  );
}

function Turn({ item }: { item: TurnItem }): JSX.Element {
  const output = member(item.result, "output");
  return (
    <>
      <div class="prompt">
        <Content id={`${String(item.id)}.prompt`} content={item.input} kind="prose" />
      </div>
      {output !== undefined && output !== null && (
        <section class="attached">
          <h4>Output</h4>
          <div>
            <Block id={`${String(item.id)}.output`} text={printJson(output)} kind="terminal" size="short" />
          </div>
        </section>
      )}
    </>
  );
}

function StepTokens({ item }: { item: StepItem }): JSX.Element | null {
  const { usage } = item;
  if (!usage) return null;
  const input = totalOf(usage) - usage.output;
  return (
    <span class="muted">
      {formatShort(input)} tokens in{usage.cacheRead > 0 && <> ({formatShort(usage.cacheRead)} from the cache)</>},{" "}
      {formatShort(usage.output)} out
    </span>
  );
}

function ToolState({ item }: { item: ToolItem }): JSX.Element {
  if (!item.result) return <span class="chip pending">No result</span>;
  return isFailed(item) ? <span class="chip rejected">Error</span> : <span class="chip fine">✓ success</span>;
}

function Tool({ item }: { item: ToolItem }): JSX.Element {
  const id = String(item.id);
  const display = listOf(item.result, "display");
  const diffs = new Set(display.filter((block) => textOf(block, "type") === "diff").map(diffKey));
  const message = textOf(item.result, "message") ?? "";
  const output = member(item.result, "output");
  return (
    <>
      <Arguments id={`${id}.input`} input={item.input} />
      {item.attached.map((each) => (
        <AttachedRequest item={each} skip={diffs} />
      ))}
      {item.result && (
        <section class="attached result">
          <h4>Result</h4>
          <div>
            <Display id={`${id}.display`} blocks={display.filter((block) => !repeatsArgument(block, item))} />
            {message !== "" && <Block id={`${id}.message`} text={message} kind="prose" size="short" />}
            <Content id={`${id}.output`} content={output} kind="terminal" />
          </div>
        </section>
      )}
    </>
  );
}

function Note({ item }: { item: NoteItem }): JSX.Element {
  const id = String(item.id);
  const kind = item.title.startsWith("Line ") ? "terminal" : "prose";
  return (
    <>
      {item.text !== "" && <Block id={`${id}.text`} text={item.text} kind={kind} />}
      {item.data !== undefined && item.data !== null && <Arguments id={`${id}.data`} input={printJson(item.data)} />}
    </>
  );
}

function Body({ item }: { item: Item }): JSX.Element | null {
  const id = String(item.id);
  switch (item.kind) {
    case "turn":
      return <Turn item={item} />;
    case "text":
      return <Block id={`${id}.text`} text={item.text} kind="prose" />;
    case "thought":
      return <Block id={`${id}.text`} text={item.text} kind="prose" size="short" />;
    case "media":
      return <Content id={`${id}.part`} content={[item.part]} kind="terminal" />;
    case "tool":
      return <Tool item={item} />;
    case "note":
    case "call":
    case "error":
      return <Note item={item} />;
    case "step":
    case "subagent":
      return null;
    default:
      return <RequestBody item={item} />;
  }
}

/** Kinds whose text is all that there is, so a title would repeat it. */
const UNTITLED: ReadonlySet<string> = new Set(["text", "thought", "media"]);

function Title({ item }: { item: Item }): JSX.Element {
  if (item.kind === "turn") return <>Turn {item.turn}</>;
  if (item.kind === "tool") {
    const rest = titleOf(item).slice(item.name.length).trim();
    return (
      <>
        <span class="name">
          <Visible text={item.name} />
        </span>{" "}
        <span class="summary">
          <Visible text={rest} />
        </span>
      </>
    );
  }
  return <Visible text={UNTITLED.has(item.kind) ? "" : titleOf(item)} />;
}

export function headingId(item: Item): string {
  return `item-${String(item.id)}`;
}

/** An item of the conversation, with its title, its time and its content. */
export function ItemView({ item }: { item: Item }): JSX.Element {
  const duration = durationOf(item);
  const Heading = item.kind === "turn" ? "h2" : "h3";
  return (
    <div class={`item ${item.kind}${isFailed(item) ? " failed" : ""}`} data-depth={Math.min(item.depth, 6)}>
      <header>
        {item.kind !== "turn" && item.kind !== "step" && <span class="kind">{KIND_NAMES[item.kind]}</span>}
        {item.depth > 6 && <span class="kind">level {item.depth}</span>}
        <Heading id={headingId(item)}>
          <Title item={item} />
        </Heading>
        {item.kind === "turn" && <Status item={item} />}
        {item.kind === "step" && <StepTokens item={item} />}
        {item.kind === "step" && item.interrupted && <span class="chip pending">Interrupted</span>}
        {item.kind === "tool" && <ToolState item={item} />}
        <span class="times">
          {duration !== undefined && <span class="duration">{duration}</span>}
          <time class="muted">{formatOffset(item.start)}</time>
        </span>
      </header>
      <Guard>
        <Body item={item} />
      </Guard>
    </div>
  );
}

/** The height of an item that has not been measured yet, in pixels. */
export function estimateHeight(item: Item): number {
  if (item.kind === "step" || item.kind === "subagent") return 36;
  if (item.kind === "turn") return 130;
  if (item.kind === "text") return 50 + Math.min(14, item.text.length / 90 + 1) * 22;
  if (item.kind === "thought") return 50 + Math.min(4, item.text.length / 90 + 1) * 22;
  if (item.kind === "tool") return 130 + item.attached.length * 40 + (item.result ? 120 : 0);
  return 80;
}
