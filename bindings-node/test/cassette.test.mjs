// Cassettes: each mode, their errors, and the options that they give a session.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, beforeEach, describe, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { createSession, InvalidOption, openAgent, runBatch, tool } from "kimi-agent";
import { cassette, replayedAgent, scriptedAgent } from "kimi-agent/testing";

// `rewrite` records the cassette of Node anew; see tests/recordings/record.py.
const ownMode = process.env.KIMI_RECORD ?? "none";
const recordings = fileURLToPath(new URL("../../tests/recordings", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "cassette-"));
after(() => {
  rmSync(folder, { recursive: true });
});
const agent = (text = "4") => scriptedAgent([[{ text }]]);
let files = 0;
const newFile = () => join(folder, `tape-${(files += 1)}.jsonl`);

async function ask(options, question = "2 + 2?") {
  const session = await createSession(options);
  try {
    return (await session.prompt(question).result()).text;
  } finally {
    await session.close();
  }
}

async function recorded() {
  const file = newFile();
  assert.equal(await ask({ ...cassette(file, { executable: agent() }) }), "4");
  return file;
}

describe("cassette", () => {
  const { CI } = process.env;
  const reset = () => {
    delete process.env.KIMI_RECORD;
    delete process.env.CI;
  };
  beforeEach(reset);
  afterEach(reset);
  after(() => {
    if (CI !== undefined) process.env.CI = CI;
  });

  test("once records, then plays", async () => {
    const file = join(folder, "deep", "sum.jsonl");
    for (const [isRecording, text] of [
      [true, "4"],
      [false, "5"],
    ]) {
      const tape = cassette(file, { executable: agent(text) });
      assert.deepEqual([tape.isRecording, tape.path], [isRecording, file]);
      assert.deepEqual(Object.keys({ ...tape }), isRecording ? ["record", "executable"] : ["executable"]);
      assert.equal(await ask({ ...tape }), "4");
      assert.equal(existsSync(file), true);
    }
  });

  test("difference fails", async () => {
    const file = await recorded();
    const expected = /turn 1: `prompt`: expected "2 \+ 2\?", got "other" at \/user_input/;
    await assert.rejects(ask({ ...cassette(file) }, "other"), expected);
    assert.equal(await ask({ ...cassette(file, { verify: false }) }, "other"), "4");
  });

  test("missing file is an error", () => {
    const text = (call) => {
      try {
        call();
      } catch (error) {
        assert.ok(error instanceof InvalidOption);
        assert.equal(error.option, "cassette");
        return error.message;
      }
      assert.fail("no error");
    };
    const file = join("cassettes", "no such tape.jsonl");
    const missing = `invalid option \`cassette\`: ${file} is missing; record it`;
    const remedy = "KIMI_RECORD=once <the command that runs this test>";
    assert.equal(text(() => cassette("no such tape", { mode: "none" })), `${missing}: remove the mode "none", then run ${remedy}`);
    process.env.KIMI_RECORD = "none";
    assert.equal(text(() => cassette("no such tape")), `${missing}: ${remedy}`);
  });

  for (const mode of ["all", "rewrite"]) {
    test(`${mode} replaces the recording`, async () => {
      const file = await recorded();
      const tape = cassette(file, { executable: agent("5"), mode });
      assert.deepEqual([tape.isRecording, existsSync(file)], [true, true]);
      assert.equal(await ask({ ...tape }), "5");
      assert.equal(await ask({ ...cassette(file) }), "5");
    });
  }

  test("incomplete recording is replaced", async () => {
    const file = await recorded();
    const lines = readFileSync(file, "utf8").split("\n");
    writeFileSync(file, `${lines.slice(0, -2).join("\n")}\n`);
    assert.throws(() => cassette(file, { mode: "none" }), /is incomplete, because its session was never closed/);
    assert.equal(await ask({ ...cassette(file, { executable: agent("5") }) }), "5");
  });

  test("variable sets the mode", async () => {
    const file = await recorded();
    process.env.KIMI_RECORD = "all";
    assert.equal(cassette(file).isRecording, true);
    assert.equal(cassette(file, { mode: "once" }).isRecording, false);
    process.env.KIMI_RECORD = "twice";
    assert.throws(() => cassette(file), { name: "InvalidOption", option: "mode", message: /\$KIMI_RECORD, got "twice"/ });
  });

  test("CI records nothing by default", () => {
    const file = newFile();
    process.env.CI = "true";
    const expected = /is missing; record it: KIMI_RECORD=once <the command that runs this test>/;
    assert.throws(() => cassette(file), { option: "cassette", message: expected });
    assert.equal(cassette(file, { mode: "once" }).isRecording, true);
    process.env.KIMI_RECORD = "once";
    assert.equal(cassette(file).isRecording, true);
    delete process.env.KIMI_RECORD;
    process.env.CI = "false";
    assert.equal(cassette(file).isRecording, true);
  });

  test("batch is refused with the cassette that records", async () => {
    const file = newFile();
    const message = /a cassette is the recording of one session, and a batch has a session for each job/;
    const options = { ...cassette(file, { executable: agent() }) };
    assert.throws(() => runBatch(["a"], options), { name: "InvalidOption", option: "record", message });
    assert.ok(!existsSync(file));
  });

  test("second session and batch are refused with the cassette that plays", async () => {
    const file = await recorded();
    const options = { ...cassette(file) };
    const message = /this cassette has a session already; a cassette is the recording of one session/;
    assert.equal(await ask(options), "4");
    await assert.rejects(ask(options), { name: "InvalidOption", option: "executable", message });
    assert.throws(() => runBatch(["a"], options), { name: "InvalidOption", option: "executable", message: /a batch has a session for each job/ });
    // A further test may play it.
    assert.equal(await ask({ ...cassette(file) }), "4");
  });

  test("file URL is taken", async () => {
    const file = await recorded();
    for (const name of [pathToFileURL(file), pathToFileURL(file).href]) assert.equal(cassette(name).path, file);
  });

  test("wrong arguments are refused", () => {
    assert.throws(() => cassette(7), { option: "cassette", message: /expected a name, a path or a file URL; got 7/ });
    assert.throws(() => cassette("file://other/a"), { option: "cassette" });
    assert.throws(() => cassette(""), { option: "cassette", message: /expected a name or a path/ });
    assert.throws(() => cassette("a", { Mode: "none" }), { option: "Mode", message: /unknown option.*`mode`/ });
    assert.throws(() => cassette("a", { verify: "no" }), { option: "verify", message: /true or false; got "no"/ });
    assert.throws(() => replayedAgent("a", "verify"), { option: "options", message: /object of options.*"verify"/ });
    assert.throws(() => replayedAgent("a", { Mode: "verify" }), { option: "Mode", message: /the options are `mode`/ });
    assert.throws(() => cassette("a", { mode: 7 }), { option: "mode", message: /"rewrite"; got 7/ });
    assert.throws(() => cassette("a", { mode: "x" }), { option: "mode", message: /"rewrite", got "x"/ });
    assert.throws(() => cassette("a", "once"), { option: "options" });
  });

  test("file that is not a recording is refused", async () => {
    const file = newFile();
    writeFileSync(file, "{}\n");
    await assert.rejects(ask({ ...cassette(file) }), { name: "InvalidOption", option: "executable" });
  });

  test("openAgent takes it", async () => {
    const file = newFile();
    for (const isRecording of [true, false]) {
      const tape = cassette(file, { executable: agent() });
      assert.equal(tape.isRecording, isRecording);
      const opened = await openAgent({ ...tape });
      try {
        const session = await opened.createSession();
        assert.equal((await session.prompt("2 + 2?").result()).text, "4");
      } finally {
        await opened.close();
      }
    }
  });

  test("close reports an omission once", async () => {
    const tape = cassette(join(recordings, "wire.jsonl"), { mode: "none" });
    const session = await createSession({ ...tape, workDir: folder });
    await assert.rejects(session.close(), { code: "rpc_error", message: /the program never called `prompt`/ });
    await session.close();
  });

  for (const dialect of ["wire", "legacy", "acp", "kimi-web"]) {
    test(`plays a recording of Python over ${dialect}`, async () => {
      const options = dialect === "legacy" ? { yolo: true } : { onApproval: () => "approve" };
      const tape = cassette(join(recordings, `${dialect}.jsonl`), { mode: "none" });
      const session = await createSession({ ...tape, ...options, workDir: folder });
      assert.equal((await session.prompt("List the files").result()).text, "There is a.txt.");
      await session.prompt("Thanks").result();
      await session.close();
    });
  }

  for (const language of ["python", "node", "rust"]) {
    test(`plays a cassette of ${language}`, async () => {
      const executable = scriptedAgent(join(recordings, "sum.json"));
      const mode = language === "node" ? ownMode : "none";
      const tape = cassette(join(recordings, `of-${language}.jsonl`), { executable, mode });
      const add = { name: "add", description: "Adds", parameters: { type: "object" }, handler: ({ a, b }) => String(a + b) };
      const session = await createSession({ ...tape, tools: [tool(add)], workDir: folder });
      const { text, toolCalls } = await session.prompt("Add 1 and 2").result();
      await session.close();
      assert.deepEqual([text, toolCalls.map(({ output }) => output)], ["The sum is 3.", ["3"]]);
    });
  }

  test("stub uses present tools", async () => {
    const file = newFile();
    const call = { external_tool: { name: "add", arguments: { a: 1 } } };
    const script = scriptedAgent([[call, { text: "So be it." }]]);
    const outputs = async (value, options) => {
      const add = tool({ name: "add", description: "", parameters: { type: "object" }, handler: () => value });
      const session = await createSession({ tools: [add], ...options });
      const result = await session.prompt("Add").result();
      await session.close();
      return result.toolCalls.map(({ output }) => output);
    };
    assert.deepEqual(await outputs("then", { executable: script, record: file }), ["then"]);
    assert.deepEqual(await outputs("now", { executable: replayedAgent(file) }), ["then"]);
    assert.deepEqual(await outputs("now", { executable: replayedAgent(file, { mode: "stub" }) }), ["now"]);
  });
});

test("node:test records, then plays", () => {
  const project = mkdtempSync(join(folder, "project-"));
  const package_ = (name) => new URL(`../dist/${name}.mjs`, import.meta.url).href;
  const program = `
    import assert from "node:assert/strict";
    import { test } from "node:test";
    import { createSession } from ${JSON.stringify(package_("index"))};
    import { cassette, scriptedAgent } from ${JSON.stringify(package_("testing"))};

    test("greeting", async () => {
      const executable = scriptedAgent([[{ text: process.env.ANSWER }]]);
      const session = await createSession({ ...cassette("greeting", { executable }) });
      assert.equal((await session.prompt("Greet me").result()).text, "Hello");
      await session.close();
    });
  `;
  writeFileSync(join(project, "greeting.test.mjs"), program);
  // Without the variables of the test runner around it.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const run = (mode, answer) => {
    const options = { cwd: project, env: { ...env, KIMI_RECORD: mode, ANSWER: answer }, encoding: "utf8" };
    return spawnSync(process.execPath, ["--test", "--test-reporter=tap", "greeting.test.mjs"], options);
  };
  const missing = run("none", "Hello");
  assert.equal(missing.status, 1);
  assert.match(missing.stdout, /greeting\.jsonl is missing; record it: KIMI_RECORD=once/);
  for (const [mode, answer] of [
    ["once", "Hello"],
    ["none", "other"],
  ]) {
    const { status, stdout } = run(mode, answer);
    assert.equal(status, 0, stdout);
  }
  assert.equal(existsSync(join(project, "cassettes", "greeting.jsonl")), true);
});

test("import of kimi-agent/testing starts nothing", () => {
  const module = new URL("../dist/testing.mjs", import.meta.url).href;
  const program = `import { cassette } from ${JSON.stringify(module)}; console.log(typeof cassette);`;
  const options = { encoding: "utf8", cwd: folder };
  assert.equal(execFileSync(process.execPath, ["--input-type=module", "-e", program], options), "function\n");
});
