// Images as content parts.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";

import { createSession, image } from "../dist/index.mjs";
import { scriptedAgent } from "../dist/testing.mjs";

const folder = mkdtempSync(join(tmpdir(), "kimi-agent-test-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const PNG = Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), Buffer.from("a picture")]);
const PART = { type: "image_url", image_url: { url: `data:image/png;base64,${PNG.toString("base64")}` } };
const file = join(folder, "pictüre.txt");
writeFileSync(file, PNG);

for (const [what, given] of [
  ["a path", file],
  ["a file URL", pathToFileURL(file)],
  ["a Buffer", PNG],
  ["a Uint8Array that is part of a buffer", new Uint8Array(Buffer.concat([Buffer.from("xx"), PNG])).subarray(2)],
  ["an ArrayBuffer", new Uint8Array(PNG).buffer],
]) {
  test(`an image is made from ${what}`, () => assert.deepEqual(image(given), PART));
}

for (const [problem, given] of [
  [/there is no file ".*missing\.png".*; pass the path of an image/, join(folder, "missing.png")],
  [/is a directory; pass the path of an image file/, folder],
  [/is not an image of a known type: it starts with 68 65 6c 6c 6f; expected PNG, JPEG/, Buffer.from("hello")],
  [/is empty/, new Uint8Array()],
  [/is a URL, not a path; write `\{ type: "image_url"/, "https://example.org/picture.png"],
  [/expected a `file:` URL, got `https:`/, new URL("https://example.org/picture.png")],
  [/expected the path or the bytes of an image file; got nothing/, undefined],
  [/expected the path or the bytes of an image file; got 7/, 7],
]) {
  test(`an image is refused: ${problem.source}`, () => {
    assert.throws(() => image(given), { name: "InvalidOption", option: "image", message: problem });
  });
}

test("an image in a prompt reaches the agent", async () => {
  const session = await createSession({ executable: scriptedAgent([[{ text: "a picture" }]]) });
  try {
    const text = { type: "text", text: "What is it?" };
    const { value } = await session.prompt([text, image(PNG)]).next();
    assert.deepEqual(value, { type: "TurnBegin", payload: { user_input: [text, PART] } });
  } finally {
    await session.close();
  }
});
