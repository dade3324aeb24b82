/** Splits Markdown into the few parts that are shown with a style of their own. All other text stays as it is. */

export interface ProseBlock {
  type: "text" | "code" | "heading";
  text: string;
}

export interface Inline {
  type: "text" | "code" | "bold";
  text: string;
}

/** Splits a text into code between fences, headings, and the text between them. Only the fences are left out. */
export function splitProse(text: string): ProseBlock[] {
  const blocks: ProseBlock[] = [];
  let lines: string[] = [];
  let fence: string | undefined;
  const close = (type: ProseBlock["type"]): void => {
    const joined = lines.join("\n");
    if (type === "code" || joined.trim() !== "")
      blocks.push({ type, text: type === "code" ? joined : joined.replace(/^\n+|\n+$/g, "") });
    lines = [];
  };
  for (const line of text.split("\n")) {
    const marker = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (fence === undefined && marker !== undefined) {
      close("text");
      fence = marker;
    } else if (fence !== undefined && marker?.startsWith(fence) && line.trim() === marker) {
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
