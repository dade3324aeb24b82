// Makes the pictures of docs/guides/inspect-a-run.md, with few colours, so that the files are small.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { deflateSync } from "node:zlib";
import { PNG } from "pngjs";
import type { Page } from "playwright-core";

import { settle } from "./checks";
import { openPage, startBrowser, writePage } from "./page";
import { ordinaryRun } from "./samples/run";

const ASSETS = join(process.cwd(), "../../docs/assets");
const LIMIT = 150_000;

/** Returns the 256 colours that most pixels have. */
function palette(pixels: Buffer): number[] {
  const counts = new Map<number, number>();
  for (let at = 0; at < pixels.length; at += 4) {
    const colour = pixels.readUIntBE(at, 3);
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  return [...counts.entries()]
    .sort(([, a], [, b]) => b - a)
    .slice(0, 256)
    .map(([colour]) => colour);
}

function distance(a: number, b: number): number {
  return [16, 8, 0].reduce((sum, shift) => sum + (((a >> shift) & 255) - ((b >> shift) & 255)) ** 2, 0);
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const whole = Buffer.alloc(body.length + 8);
  whole.writeUInt32BE(data.length, 0);
  body.copy(whole, 4);
  whole.writeUInt32BE(checksum(body), body.length + 4);
  return whole;
}

/** The CRC of PNG. */
function checksum(bytes: Buffer): number {
  let value = ~0;
  for (const byte of bytes) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  }
  return ~value >>> 0;
}

/** Writes a picture with a palette. A colour that is not in the palette becomes the closest one. */
function reduced(picture: Buffer): Buffer {
  const { width, height, data } = PNG.sync.read(picture);
  const colours = palette(data);
  const indexes = new Map(colours.map((colour, index) => [colour, index]));
  const rows = Buffer.alloc((width + 1) * height);
  for (let at = 0; at < width * height; at++) {
    const colour = data.readUIntBE(at * 4, 3);
    let index = indexes.get(colour);
    if (index === undefined) {
      index = colours.reduce(
        (best, each, place) => (distance(each, colour) < distance(colours[best] ?? 0, colour) ? place : best),
        0,
      );
      indexes.set(colour, index);
    }
    rows[at + Math.floor(at / width) + 1] = index;
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  const table = Buffer.from(colours.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([
    signature,
    chunk("IHDR", header),
    chunk("PLTE", table),
    chunk("IDAT", deflateSync(rows, { level: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

async function save(page: Page, name: string): Promise<void> {
  await settle(page);
  const picture = reduced(await page.screenshot());
  if (picture.length >= LIMIT) throw new Error(`${name} has ${String(picture.length)} bytes`);
  writeFileSync(join(ASSETS, name), picture);
  console.log(`docs/assets/${name}: ${String(picture.length)} bytes`);
}

const browser = await startBrowser();
const one = writePage([ordinaryRun()]);
const two = writePage([ordinaryRun({ name: "before.jsonl" }), ordinaryRun({ name: "after.jsonl", second: true })]);
const screen = { width: 1360, height: 940, scale: 1.5 };
for (const scheme of ["light", "dark"] as const) {
  const { page, close } = await openPage(browser, one, { ...screen, scheme });
  await page.waitForSelector(".conversation .row");
  for (const key of ["a", "a", "a"]) await page.keyboard.press(key);
  await save(page, `inspector-${scheme}.png`);
  await close();
}
const { page, close } = await openPage(browser, two, { ...screen, hash: "#compare=0,1" });
await page.waitForSelector(".pairs .row");
for (const key of ["d", "d", "d", "d"]) await page.keyboard.press(key);
await save(page, "inspector-compare.png");
await close();
await browser.close();
