// Builds core/command/inspector.html: one file with its script and style. The command puts recordings into its empty
// element.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const SLOT = '<script type="application/json" id="kimi-agent-recordings"></script>';
const LIMIT = 400_000;
const COMPRESSED_LIMIT = 150_000;

/** The hash by which the policy allows a script or a style. */
function hashOf(text) {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

/** The licences of the packages in the bundle, as a comment. */
function licencesOf(inputs) {
  const names = new Set(inputs.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []));
  const texts = [...names].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    if (!file) throw new Error(`The package ${name} has no licence`);
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}`;
  });
  return `<!--\nThis page contains these packages.\n\n${texts.join("\n\n").replaceAll("--", "- -")}\n-->`;
}

const common = {
  bundle: true,
  write: false,
  minify: true,
  metafile: true,
  target: "es2022",
  absWorkingDir: here,
  legalComments: "none",
  charset: "utf8",
};
const scripts = await build({
  ...common,
  entryPoints: ["src/main.tsx"],
  format: "iife",
  jsx: "automatic",
  jsxImportSource: "preact",
});
const styles = await build({ ...common, entryPoints: ["src/style.css"] });
const script = scripts.outputFiles[0].text.trim();
const style = styles.outputFiles[0].text.trim();
if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style))
  throw new Error("The script or the style would end its element");

const policy = [
  "default-src 'none'",
  `script-src ${hashOf(script)}`,
  `style-src ${hashOf(style)}`,
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");
const parts = { policy, licences: licencesOf(Object.keys(scripts.metafile.inputs)), style, script };
const template = readFileSync(join(here, "src/page.html"), "utf8");
const page = template.replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);

if (page.split(SLOT).length !== 2) throw new Error("The element for the recordings has to be in the page once");
const sizes = [Buffer.byteLength(page), gzipSync(page, { level: 9 }).length];
if (sizes[0] >= LIMIT || sizes[1] >= COMPRESSED_LIMIT)
  throw new Error(`The page is too large: ${sizes.join(" bytes, compressed ")} bytes`);
// Cargo takes only files below the crate into a package.
writeFileSync(join(here, "../core/command/inspector.html"), page);
console.log(`core/command/inspector.html: ${sizes[0]} bytes, ${sizes[1]} compressed`);
