// Starts the browser of the package @sparticuz/chromium, or the one that CHROMIUM names.

import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import puppeteer from "puppeteer-core";

const require = createRequire(import.meta.url);

export const axeSource = require.resolve("axe-core");

/** Starts a headless browser that opens files, and asks no other host for updates. */
export async function startBrowser() {
  let executablePath = process.env.CHROMIUM;
  if (!executablePath) {
    // The package unpacks the browser into the folder for temporary files, where that of another version may be.
    const folder = mkdtempSync(join(tmpdir(), "kimi-agent-site-"));
    process.env.TMPDIR = folder;
    process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
    const { default: chromium } = await import("@sparticuz/chromium");
    chromium.setGraphicsMode = false;
    executablePath = await chromium.executablePath();
  }
  const args = [
    "--allow-file-access-from-files",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
    "--no-sandbox",
  ];
  return puppeteer.launch({ executablePath, headless: "shell", args, timeout: 120_000, protocolTimeout: 120_000 });
}
