/** The content of prompts: text, content parts, images. */

import { kindOf, reading, show, toJson, wrongOption } from "./arguments.js";
import { atCaller, callNative, type InvalidOption } from "./errors.js";
import { loadNative } from "./native.js";
import { nodeUrl } from "./node.js";
import { bytesOf, isPlain, isThenable, isUrl, remedyFor, textOf } from "./values.js";
import type { ContentPart, ImageURLPart } from "./wire.js";

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
      if (isUrl(given)) return native.imageFileJson(filePath(given));
      if (bytes !== undefined) return native.imageBytesJson(bytes);
      throw wrongImage(`expected the path or the bytes of an image file; got ${show(given)}`);
    });
    return JSON.parse(json) as ImageURLPart;
  }));
}

const AS_URL = 'write `{ type: "image_url", image_url: { url } }`, or download the image and pass its bytes';

function filePath(url: URL): string {
  if (url.protocol === "file:") return nodeUrl.fileURLToPath(url);
  throw wrongImage(`expected a \`file:\` URL, got \`${url.protocol}\`; download the image and pass its bytes`);
}

function wrongImage(problem: string): InvalidOption {
  return wrongOption("image", problem);
}
