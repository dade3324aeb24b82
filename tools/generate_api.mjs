// Prints the API of the Node package as Markdown: each exported name with its documentation and its declaration, for
// tools/generate_api.py.

import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../bindings-node/", import.meta.url));
const ts = createRequire(`${root}package.json`)("typescript");

const HEAD = `# The Node API

Every public name of \`kimi-agent\`, generated from the sources by \`tools/generate_api.py\`. Durations are in milliseconds.

Other languages: [Python](python.md), [Rust](rust.md).
`;
const ENTRIES = { "kimi-agent": "index", "kimi-agent/testing": "testing" };

const { config } = ts.readConfigFile(`${root}tsconfig.json`, ts.sys.readFile);
const { options, fileNames } = ts.parseJsonConfigFileContent(config, ts.sys, root);
const declarations = new Map();
const emitted = { ...options, declaration: true, emitDeclarationOnly: true, outDir: undefined, declarationDir: undefined, rootDir: undefined };
const program = ts.createProgram(fileNames, emitted);
program.emit(undefined, (name, text) => declarations.set(name, text), undefined, true);
const host = ts.createCompilerHost(options);
const { getSourceFile, fileExists, readFile } = host;
host.fileExists = (name) => declarations.has(name) || fileExists(name);
host.readFile = (name) => declarations.get(name) ?? readFile(name);
host.getSourceFile = (name, ...rest) =>
  declarations.has(name) ? ts.createSourceFile(name, declarations.get(name), ...rest) : getSourceFile(name, ...rest);
// The declarations hide the sources of the same names.
host.fileExists = (name) => declarations.has(name) || (!/bindings-node\/lib\/.*(?<!\.d)\.[cm]?ts$/.test(name) && fileExists(name));
const types = ts.createProgram([...declarations.keys()], { ...options, rootDir: undefined }, host);
const checker = types.getTypeChecker();

/** The text of a documentation comment, with links as code. */
const prose = (parts) => ts.displayPartsToString(parts).replace(/\{@link\s+([^}]+?)\s*\}/g, "`$1`").trim();

function documentation(symbol) {
  const lines = [prose(symbol.getDocumentationComment(checker))];
  const tags = symbol.getJsDocTags(checker).filter(({ name }) => name !== "internal");
  const list = (title, name) => {
    const found = tags.filter((tag) => tag.name === name).map(({ text }) => prose(text ?? []));
    if (found.length === 0) return;
    const one = (text) => {
      const [, first, rest] = /^(\{?\w+\}?)\s*-?\s*([^]*)$/.exec(text) ?? [undefined, "", text];
      return name === "returns" ? text : `- \`${first.replace(/[{}]/g, "")}\`: ${rest}`.replaceAll("\n", "\n  ");
    };
    lines.push(`**${title}:**\n\n${found.map(one).join("\n")}`);
  };
  list("Parameters", "param");
  list("Returns", "returns");
  list("Throws", "throws");
  for (const { text } of tags.filter(({ name }) => name === "example")) lines.push(prose(text ?? []));
  return lines.filter(Boolean).join("\n\n");
}

/** The declaration without its own comment, which is above it, and without what repeats it. */
function code(declaration) {
  const statement = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration;
  return statement
    .getText()
    .replace(/^(export )?(default )?(declare )?/, "")
    .replace(/^ {4}(#private|private .*);\n/gm, "")
    .replace(/^( {4})+/gm, (indent) => " ".repeat(indent.length / 2));
}

const printed = [HEAD];
for (const [name, entry] of Object.entries(ENTRIES)) {
  const file = types.getSourceFiles().find(({ fileName }) => fileName.endsWith(`/lib/${entry}.d.ts`));
  printed.push(`## \`${name}\`\n`);
  const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(file));
  for (const given of exported) {
    const symbol = given.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(given) : given;
    const all = symbol.getDeclarations() ?? [];
    printed.push(`### ${given.getName()}\n`);
    const said = documentation(symbol);
    if (said) printed.push(`${said}\n`);
    printed.push(`\`\`\`ts\n${all.map(code).join("\n")}\n\`\`\`\n`);
  }
}
console.log(printed.join("\n").trimEnd());
