// The names that programs are written against: `tests/api/names.json` lists them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";

import ts from "typescript";

import * as kimi from "../dist/index.mjs";
import * as testing from "../dist/testing.mjs";

const package_ = fileURLToPath(new URL("..", import.meta.url));
const names = JSON.parse(readFileSync(join(package_, "../tests/api/names.json"), "utf8")).node;
const [tops, members] = [names.filter((name) => !name.includes(".")), names.filter((name) => name.includes("."))];

/** The compiler's output for a module of the tests, which need not exist. */
function complaints(source) {
  const { config } = ts.readConfigFile(join(package_, "test/types/tsconfig.json"), ts.sys.readFile);
  const folder = join(package_, "test/types");
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, folder);
  const host = ts.createCompilerHost(options);
  // The compiler separates folders like this on every system.
  const file = join(folder, "names.mts").replaceAll("\\", "/");
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => path === file || fileExists(path);
  host.getSourceFile = (path, ...rest) =>
    path === file ? ts.createSourceFile(path, source, ...rest) : getSourceFile(path, ...rest);
  const found = ts.getPreEmitDiagnostics(ts.createProgram([file], { ...options, isolatedModules: false }, host));
  return found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
}

test("the names are typed", () => {
  const lines = [
    'import * as testing from "kimi-agent/testing";',
    ...tops.map((name) => `import { ${name} as _${name} } from "kimi-agent";`),
    ...members.map((name, index) => {
      const [owner, member] = name.split(".");
      return owner === "testing" ? `testing.${member};` : `type T${index} = import("kimi-agent").${owner}["${member}"];`;
    }),
  ];
  assert.deepEqual(complaints(lines.join("\n")), []);
  assert.match(complaints('import { Sesion } from "kimi-agent";').join(), /Sesion/);
});

test("a wrong option is one line of an error", () => {
  const lines = [
    'import { createSession, prompt, runBatch } from "kimi-agent";',
    'await createSession({ workDri: "." });',
    'await createSession({ output: {}, yolo: "yes" });',
    'await createSession({ output: "text" });',
    'prompt("Go", { timeuot: 3 });',
    'prompt("Go", { output: {}, workDir: 3 });',
    '(await createSession()).prompt("Go", { timeout: "3" });',
    'runBatch(["Go"], { concurrency: "3" });',
  ];
  const found = complaints(lines.join("\n"));
  assert.equal(found.length, lines.length - 1, found.join("\n"));
  assert.deepEqual(found.filter((text) => text.includes("\n")), []);
  assert.match(found[0], /workDri.*workDir/);
});

describe("at run time", () => {
  const objects = {
    testing,
    ExternalTool: kimi.tool({ name: "t", description: "", parameters: {}, handler: () => "" }),
    Hook: new kimi.Hook({ event: "Stop", handler: () => "allow" }),
    Block: new kimi.Block(),
    Reject: new kimi.Reject(""),
    KimiAgentError: new kimi.KimiAgentError(""),
    InvalidOption: new kimi.InvalidOption("", ""),
    AgentExited: new kimi.AgentExited(""),
    RpcError: new kimi.RpcError("", 0),
    LlmServiceError: new kimi.LlmServiceError(""),
    AuthExpired: new kimi.AuthExpired(""),
    BudgetExceeded: new kimi.BudgetExceeded(""),
    OutputInvalid: new kimi.OutputInvalid(""),
    Policy: new kimi.Policy({}),
  };
  before(async () => {
    const session = await kimi.createSession({ executable: testing.scriptedAgent([[{ text: "a" }]]) });
    const turn = session.prompt("hi");
    const { value: step } = await turn.steps.next();
    const agent = await kimi.openAgent({ executable: process.execPath });
    const result = await turn.result();
    Object.assign(objects, { Agent: agent, Session: session, Turn: turn, PromptResult: result, Step: step });
  });
  after(() => Promise.all([objects.Session.close(), objects.Agent.close()]));

  // Objects that programs pass in, and messages: the types test looks at their members.
  const onlyMembers = ["SessionOptions", "SessionInfo", "AuthMethod", "PromptOptions", "CloseOptions", "ApprovalRequest", "ToolResult", "ToolContext"];

  test("the members are there", () => {
    const missing = members.filter((name) => {
      const [owner, member] = name.split(".");
      // Only an error that ended a turn has a result.
      if (name === "KimiAgentError.result") return false;
      return !onlyMembers.includes(owner) && !(member in objects[owner]);
    });
    assert.deepEqual(missing, []);
  });

  test("the functions and classes are there", () => {
    const onlyTypes = ["ExternalTool", "Step"];
    const values = tops.filter((name) => /^[a-z]/.test(name) || (name in objects && !onlyTypes.includes(name)));
    assert.deepEqual(values.filter((name) => typeof kimi[name] !== "function"), []);
  });

  test("the options are taken", async () => {
    const open = (option) => kimi.createSession({ executable: "/no/such/agent", [option]: { no: 0 } });
    await assert.rejects(open("options"), { message: /unknown option/ });
    const options = members.filter((name) => name.startsWith("SessionOptions.")).map((name) => name.split(".")[1]);
    assert.ok(options.length > 0);
    // Whatever is wrong with the value, the name is known.
    for (const option of options) await assert.rejects(open(option), ({ message }) => !/unknown option/.test(message));
  });
});
