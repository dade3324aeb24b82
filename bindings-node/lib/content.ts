/** The content of prompts: text, content parts, images, files and other resources. */

import { kindOf, reading, show, toJson, wrongOption } from "./arguments.js";
import { atCaller } from "./call-site.js";
import type { InvalidOption } from "./errors.js";
import { callNative } from "./native-errors.js";
import { loadNative } from "./native.js";
import { nodeUrl } from "./node.js";
import { bytesOf, isPlain, isThenable, isUrl, remedyFor, textOf } from "./values.js";
import type { ContentPart, ImageURLPart, ResourcePart } from "./wire.js";

/** The content of a prompt: text, a content part, or a list of both. */
export type UserInput = string | ContentPart | readonly (string | ContentPart)[];

/** The JSON of a prompt. The core checks parts; only what JSON would change is refused here. */
export function contentJson(content: UserInput): string {
  return reading("content", () => checkedContent(content));
}

function checkedContent(content: UserInput): string {
  const given: unknown = content;
  const list: unknown[] = Array.isArray(given) ? given : [given];
  for (const part of list) {
    const isBytes = bytesOf(part) !== undefined;
    const isOther = typeof part === "object" && part !== null && !Array.isArray(part) && !isPlain(part);
    if (!isBytes && !isOther && typeof part !== "undefined" && typeof part !== "function") continue;
    const hint = isOther && isThenable(part) ? `; ${remedyFor(part)}` : "";
    const got = isBytes ? "bytes; decode text first, or pass an image as `image(…)`" : `${kindOf(part)}${hint}`;
    const expected = 'expected text, a content part such as { type: "text", text: "…" }, or a list of these';
    throw wrongOption("content", `${expected}; got ${got}`);
  }
  try {
    return toJson(content);
  } catch (error) {
    throw wrongOption("content", textOf(error), error);
  }
}

/**
 * Makes a content part from an image: PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF or HEIC. The first bytes decide which, not the
 * file's name. The part holds the image itself, as a `data:` URL. A model may accept fewer types.
 *
 * @param pathOrBytes - The path of a file, which is read at once, a `file:` URL, or the bytes of a file.
 * @returns A part for {@link Session.prompt}, alone or in a list with text.
 * @throws {InvalidOption} if the file cannot be read, is empty, or is not an image of a known type.
 *
 * @example
 * ```ts
 * await session.prompt(["What is in this picture?", image("screenshot.png")]).result();
 * ```
 */
export function image(pathOrBytes: string | URL | Uint8Array | ArrayBuffer): ImageURLPart {
  return atCaller(image, () => reading("image", () => {
    const native = loadNative();
    const given: unknown = pathOrBytes;
    const bytes = bytesOf(given);
    const json = callNative(() => {
      if (typeof given === "string") {
        if (/^https?:\/\//i.test(given)) throw wrongImage(`${show(given)} is a URL, not a path; ${AS_URL}`);
        return native.imageFileJson(given);
      }
      if (isUrl(given)) return native.imageFileJson(filePath("image", given, "download the image and pass its bytes"));
      if (bytes !== undefined) return native.imageBytesJson(bytes);
      throw wrongImage(`expected the path or the bytes of an image file; got ${show(given)}`);
    });
    return JSON.parse(json) as ImageURLPart;
  }));
}

const AS_URL = 'write `{ type: "image_url", image_url: { url } }`, or download the image and pass its bytes';

function filePath(option: string, url: URL, remedy: string): string {
  if (url.protocol === "file:") return nodeUrl.fileURLToPath(url);
  throw wrongOption(option, `expected a \`file:\` URL, got \`${url.protocol}\`; ${remedy}`);
}

/**
 * Makes a content part from a file. Agents get it in the form that they take: its text, or a link to it. The file is read at
 * once. The part has the text of a file of UTF-8 with at most 1 MiB. The part of another file is a link.
 *
 * @param path - The path of the file, or a `file:` URL. A relative path is relative to the current directory of the program.
 * @returns A part for {@link Session.prompt}, alone or in a list with text.
 * @throws {InvalidOption} if there is no such file, or if it cannot be read or is not a regular file.
 *
 * @example
 * ```ts
 * await session.prompt(["Review this file.", file("parser.py")]).result();
 * ```
 */
export function file(path: string | URL): ResourcePart {
  return atCaller(file, () => reading("file", () => {
    const native = loadNative();
    const given: unknown = path;
    const json = callNative(() => {
      if (typeof given === "string") return native.filePartJson(given);
      if (isUrl(given)) return native.filePartJson(filePath("file", given, "make the part with `resource(uri)`"));
      throw wrongOption("file", `expected the path of a file; got ${show(given)}`);
    });
    return JSON.parse(json) as ResourcePart;
  }));
}

/** The content of a {@link resource}. */
export interface ResourceContent {
  /** The content, if it is text. At most 8 MiB. */
  readonly text?: string | undefined;
  /** The content, if it is not text. At most 8 MiB. */
  readonly data?: Uint8Array | ArrayBuffer | undefined;
  /** The media type, for example `text/markdown`. */
  readonly mimeType?: string | undefined;
}

/**
 * Makes a content part from a text or from bytes with an address. Without `text` and `data` it is a link. Agents get it in the
 * form that they take. An agent that takes no bytes throws `Unsupported` for a prompt with `data`.
 *
 * @param uri - The address: a URL, or another URI such as `issue:7`. The agent may not be able to read it.
 * @param content - The text or the bytes, and their media type.
 * @returns A part for {@link Session.prompt}, alone or in a list with text.
 * @throws {InvalidOption} if the `uri` is not a URI, if the content is too large, or if there are both `text` and `data`.
 *
 * @example
 * ```ts
 * const log = resource("run:12", { text: "The test failed.", mimeType: "text/plain" });
 * await session.prompt(["Why did it fail?", log]).result();
 * ```
 */
export function resource(uri: string | URL, content: ResourceContent = {}): ResourcePart {
  return atCaller(resource, () => reading("resource", () => {
    const native = loadNative();
    const wrong = (name: string, expected: string, given: unknown): InvalidOption =>
      wrongOption("resource", `\`${name}\`: expected ${expected}; got ${show(given)}`);
    const address: unknown = isUrl(uri) ? uri.href : uri;
    if (typeof address !== "string") throw wrong("uri", "text", uri);
    const given: unknown = content;
    if (typeof given !== "object" || given === null || !isPlain(given)) throw wrong("content", "an object", given);
    const { text, data, mimeType, ...others } = given as Record<string, unknown>;
    const other = Object.keys(others)[0];
    if (other !== undefined) throw wrongOption("resource", `no field \`${other}\`; expected \`text\`, \`data\` or \`mimeType\``);
    const bytes = bytesOf(data);
    if ((data ?? undefined) !== undefined && bytes === undefined) throw wrong("data", "bytes", data);
    const asText = (name: string, value: unknown): string | undefined => {
      if (value === undefined || value === null || typeof value === "string") return value ?? undefined;
      throw wrong(name, "text", value);
    };
    const [itsText, itsType] = [asText("text", text), asText("mimeType", mimeType)];
    const json = callNative(() => native.resourcePartJson(address, itsText, bytes, itsType));
    return JSON.parse(json) as ResourcePart;
  }));
}

function wrongImage(problem: string): InvalidOption {
  return wrongOption("image", problem);
}
