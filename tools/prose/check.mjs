// Checks the language of the documents: words and sentences by textlint.json, spelling, also of comments in code, by cspell.json.
// First every rule has to find the example that is written with it, so that a rule that finds nothing is an error.

import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createLinter, loadLinterFormatter, loadTextlintrc } from "textlint";

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(dirname(here));
const { rules } = JSON.parse(readFileSync(join(here, "textlint.json"), "utf8"));
const linter = createLinter({ descriptor: await loadTextlintrc({ configFilePath: join(here, "textlint.json"), node_modulesDir: join(here, "node_modules") }) });

const examples = rules["@textlint-rule/pattern"].patterns.map(({ example, message }) => [example, message]);
examples.push([`${"word ".repeat(rules.sentence.words + 1)}.`, `A sentence of ${rules.sentence.words + 1} words`]);
examples.push([`two${": two".repeat(rules.sentence.stops + 1)}.`, `A sentence with ${rules.sentence.stops + 1} colons`]);
for (const [example, message] of examples) {
  for (const text of [`${example}\n`, `- ${example}\n`]) {
    const found = (await linter.lintText(text, "example.md")).messages;
    if (!found.some((one) => one.message.startsWith(message))) {
      console.error(`The rule “${message}” does not find its example in: ${text}`);
      process.exit(1);
    }
  }
}

const tracked = execFileSync("git", ["ls-files"], { cwd: root, encoding: "utf8" }).trim().split("\n");
// docs/api is generated from comments in the sources.
const pages = tracked.filter((path) => path.endsWith(".md") && !path.startsWith("docs/api/"));
const sources = tracked.filter((path) => /\.(rs|py|m?tsx?|[cm]?js|sh|toml|yml)$|Makefile$/.test(path));

const results = await linter.lintFiles(pages.map((path) => join(root, path)));
const formatter = await loadLinterFormatter({ formatterName: "unix" });
const wrong = results.some(({ messages }) => messages.length > 0);
if (wrong) console.error(formatter.format(results).replaceAll(`${root}/`, ""));

const misspelt = "A mispelled word.";
const cspell = (files, input) =>
  spawnSync(join(here, "node_modules/.bin/cspell"), ["lint", "-c", join(here, "cspell.json"), "--no-progress", "--no-summary", "--root", root, ...files], { cwd: root, input, stdio: ["pipe", input ? "ignore" : "inherit", "inherit"] }).status;
if (cspell(["stdin://example.md"], misspelt) === 0) {
  console.error(`cspell does not find the error in: ${misspelt}`);
  process.exit(1);
}
process.exit(cspell([...pages, ...sources]) !== 0 || wrong ? 1 : 0);
