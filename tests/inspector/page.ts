// Makes a page with recordings from the built inspector, as the command does, and opens it in a headless browser.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium, type Browser, type Page } from "playwright-core";

import { embedded, type Recording } from "./samples/recorder";

const SLOT = '<script type="application/json" id="kimi-agent-recordings"></script>';
const built = join(process.cwd(), "../../core/command/inspector.html");
const folder = mkdtempSync(join(tmpdir(), "kimi-agent-inspector-"));
process.on("exit", () => {
  rmSync(folder, { recursive: true, force: true });
});

export const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Starts the browser of the package @sparticuz/chromium, or the one that CHROMIUM names. */
export async function startBrowser(): Promise<Browser> {
  let executablePath = process.env.CHROMIUM;
  if (!executablePath) {
    // The package unpacks the browser into the folder for temporary files, where that of another version may be.
    process.env.TMPDIR = join(folder, "browser");
    mkdirSync(process.env.TMPDIR);
    const { default: packaged } = await import("@sparticuz/chromium");
    packaged.setGraphicsMode = false;
    executablePath = await packaged.executablePath();
  }
  return chromium.launch({
    executablePath,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--disable-background-networking",
      "--hide-scrollbars",
    ],
    timeout: 120_000,
  });
}

let pages = 0;

/** Writes a page with recordings, and returns its address. */
export function writePage(recordings: Recording[], text = embedded(recordings)): string {
  const page = readFileSync(built, "utf8");
  if (page.split(SLOT).length !== 2) throw new Error("the element for the recordings has to be in the page once");
  const path = join(folder, `page-${String(++pages)}.html`);
  writeFileSync(
    path,
    page.replace(SLOT, () => SLOT.replace("><", `>${text}<`)),
  );
  return pathToFileURL(path).href;
}

export interface Opened {
  page: Page;
  /** Errors and warnings of the page, new windows, and requests that are not files or data. */
  problems: string[];
  close: () => Promise<void>;
}

interface Options {
  width?: number;
  height?: number;
  scheme?: "light" | "dark";
  scale?: number;
  hash?: string;
}

/** Opens an address in a window of its own. */
export async function openPage(
  browser: Browser,
  address: string,
  { width = 1400, height = 900, scheme = "light", scale = 1, hash = "" }: Options = {},
): Promise<Opened> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    deviceScaleFactor: scale,
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("dialog", (dialog) => {
    problems.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("popup", () => problems.push("a new window"));
  page.on("request", (request) => {
    if (!/^(file|data):/.test(request.url())) problems.push(`a request to ${request.url()}`);
  });
  page.on("framenavigated", (frame) => {
    if (!frame.url().startsWith(address)) problems.push(`a frame with ${frame.url()}`);
  });
  await page.goto(address + hash);
  return { page, problems, close: () => context.close() };
}
