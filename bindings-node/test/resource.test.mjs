// Files and other resources as content parts.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";

import { file, resource } from "../dist/index.mjs";

const folder = mkdtempSync(join(tmpdir(), "kimi-agent-test-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const notes = join(folder, "a b.md");
writeFileSync(notes, "# Notes\n");

for (const [what, given] of [
  ["path", notes],
  ["file URL", pathToFileURL(notes)],
]) {
  test(`file of a ${what} has its text`, () => {
    const part = { type: "resource", uri: pathToFileURL(notes).href, name: "a b.md", text: "# Notes\n", size: 8 };
    assert.deepEqual(file(given), part);
  });
}

test("binary file is a link", () => {
  const path = join(folder, "data");
  writeFileSync(path, Buffer.from([97, 0]));
  assert.deepEqual(file(path), { type: "resource", uri: pathToFileURL(path).href, name: "data", size: 2 });
});

test("resource has text or bytes", () => {
  assert.deepEqual(resource("issue:7"), { type: "resource", uri: "issue:7" });
  const text = { type: "resource", uri: "https://example.com/7", text: "It fails.", mime_type: "text/plain" };
  assert.deepEqual(resource(new URL(text.uri), { text: text.text, mimeType: text.mime_type }), text);
  for (const data of [Buffer.from("hi"), new Uint8Array(Buffer.from("hi")).buffer]) {
    assert.deepEqual(resource("mem:1", { data }), { type: "resource", uri: "mem:1", data: "aGk=" });
  }
});

for (const [problem, call] of [
  [/there is no file ".*missing\.md"; pass the path of a file/, () => file(join(folder, "missing.md"))],
  [/is a directory; pass the path of a file/, () => file(folder)],
  [/is a URL, not a path; make the part with `resource\(uri\)`/, () => file("https://example.com/a.md")],
  [/expected a `file:` URL, got `https:`; make the part with/, () => file(new URL("https://example.com/a.md"))],
  [/expected the path of a file; got 7/, () => file(7)],
  [/the `uri` is not a URI: "notes\.md"/, () => resource("notes.md")],
  [/both `text` and `data`/, () => resource("issue:7", { text: "a", data: Buffer.from("a") })],
  [/not a media type/, () => resource("issue:7", { mimeType: "text" })],
  [/`uri`: expected text; got 5/, () => resource(5)],
  [/`text`: expected text; got 5/, () => resource("issue:7", { text: 5 })],
  [/`data`: expected bytes; got "a"/, () => resource("issue:7", { data: "a" })],
  [/no field `mime_type`; expected `text`, `data` or `mimeType`/, () => resource("issue:7", { mime_type: "text/plain" })],
]) {
  test(`part is refused: ${problem.source}`, () => {
    assert.throws(call, { name: "InvalidOption", message: problem });
  });
}
