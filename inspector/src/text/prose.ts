/** Splits Markdown into the few parts that are shown with a style of their own. All other text stays as it is. */

export type ProseBlock =
  | { type: "text" | "heading"; text: string }
  | {
      type: "code";
      text: string;
      /** The text after the fence, such as the name of the language. */
      info: string;
    };

export interface Inline {
  type: "text" | "code" | "bold";
  text: string;
}

/** A fence and the text after it. A line of text can begin like a fence; it then has further backticks. */
const FENCE = /^ {0,3}(?:(`{3,})([^`]*)|(~{3,})([^\n]*))$/;

/** Splits a text into code between fences, headings, and the text between them. Only the marks are left out. */
export function splitProse(text: string): ProseBlock[] {
  const blocks: ProseBlock[] = [];
  let lines: string[] = [];
  let fence: string | undefined;
  let info = "";
  const close = (type: ProseBlock["type"]): void => {
    const joined = lines.join("\n");
    if (type === "code") blocks.push({ type, text: joined, info });
    else if (joined.trim() !== "") blocks.push({ type, text: joined.replace(/^\n+|\n+$/g, "") });
    lines = [];
  };
  for (const line of text.split("\n")) {
    const found = FENCE.exec(line);
    const marker = found?.[1] ?? found?.[3];
    const rest = (found?.[2] ?? found?.[4] ?? "").trim();
    if (fence === undefined && marker !== undefined) {
      close("text");
      [fence, info] = [marker, rest];
    } else if (fence !== undefined && marker?.startsWith(fence) && rest === "") {
      close("code");
      fence = undefined;
    } else if (fence === undefined && /^#{1,6} \S/.test(line)) {
      close("text");
      lines = [line.replace(/^#{1,6} /, "")];
      close("heading");
    } else lines.push(line);
  }
  close(fence === undefined ? "text" : "code");
  return blocks;
}

/** Splits a text into code between backticks, bold words, and the text between them. */
export function splitInline(text: string): Inline[] {
  const parts: Inline[] = [];
  let shown = 0;
  for (const match of text.matchAll(/`([^`\n]+)`|\*\*([^*\n]+)\*\*/g)) {
    if (match.index > shown) parts.push({ type: "text", text: text.slice(shown, match.index) });
    parts.push(match[1] === undefined ? { type: "bold", text: match[2] ?? "" } : { type: "code", text: match[1] });
    shown = match.index + match[0].length;
  }
  if (shown < text.length) parts.push({ type: "text", text: text.slice(shown) });
  return parts;
}
