// Type-checks the examples in the comments of lib/. Each is a function body in which the names of the package, `z`, and a
// session, an agent, a turn are declared; one that imports is a module.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import ts from "typescript";

const lib = fileURLToPath(new URL("../lib", import.meta.url));
const read = (name) => readFileSync(join(lib, name), "utf8");
const PREAMBLE = [
  'import * as testing from "kimi-agent/testing"; const { cassette, replayedAgent, scriptedAgent } = testing;',
  'import { z } from "zod";',
  "export async function example(session: Session, agent: Agent, turn: Turn): Promise<void> { {",
];
const FENCE = /^ *\* ```(?:ts|js)$\n((?:^ *\*(?!\/).*$\n)*?)^ *\* ```$/gm;

/** The names that a module exports, as an import. */
function imports(name, from) {
  const lists = [...read(name).matchAll(/^export (type )?{([^}]*)}/gm)];
  return lists.map(([, type = "", list]) => `import ${type}{ ${list.replaceAll(/\s+/g, " ")} } from "${from}";`).join(" ");
}

const head = `${imports("index.ts", "kimi-agent")} ${PREAMBLE.join(" ")}`;
const examples = new Map();
for (const name of readdirSync(lib).filter((each) => each.endsWith(".ts"))) {
  const source = read(name);
  for (const { 1: body, index } of source.matchAll(FENCE)) {
    const line = source.slice(0, index).split("\n").length;
    const code = body.replaceAll(/^ *\* ?/gm, "");
    // The example keeps its line in the file, so that errors show it.
    const text = "\n".repeat(line - 1) + (/^import /m.test(code) ? `\n${code}` : `${head}\n${code}} }`);
    examples.set(join(lib, `${name.slice(0, -3)}.example-${String(line)}.ts`), text);
  }
}

const onUnRecoverableConfigFileDiagnostic = ({ messageText }) => {
  throw new Error(ts.flattenDiagnosticMessageText(messageText, "\n"));
};
const sys = { ...ts.sys, onUnRecoverableConfigFileDiagnostic };
const config = ts.getParsedCommandLineOfConfigFile(join(dirname(lib), "tsconfig.json"), {}, sys);
const paths = { "kimi-agent": [join(lib, "index.ts")], "kimi-agent/testing": [join(lib, "testing.ts")] };
const options = { ...config.options, noEmit: true, skipLibCheck: true, paths };
const host = ts.createCompilerHost(options);
const { fileExists, readFile } = host;
host.fileExists = (file) => examples.has(file) || fileExists(file);
host.readFile = (file) => examples.get(file) ?? readFile(file);
host.getSourceFile = (file, version) => {
  const text = host.readFile(file);
  return text === undefined ? undefined : ts.createSourceFile(file, text, version);
};
const program = ts.createProgram([...examples.keys()], options, host);
const problems = [...examples.keys()].flatMap((file) => ts.getPreEmitDiagnostics(program, program.getSourceFile(file)));
if (examples.size === 0) throw new Error("there are no examples in lib/");
if (problems.length > 0) {
  console.error(ts.formatDiagnosticsWithColorAndContext(problems, { ...host, getCurrentDirectory: () => dirname(lib) }));
  process.exitCode = 1;
}
