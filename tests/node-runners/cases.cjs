// A selection of the tests of the Node package that also runs in other realms: under Jest and in the pools of vitest. There,
// errors, buffers and arrays of Node are not of the classes that the tests and the package see.
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=", "base64");
const HELLO = [[{ text: "Hello" }]];

/** The error of a call. */
async function caught(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  return assert.fail("nothing was thrown");
}

/** @returns {Record<string, () => Promise<void>>} the cases, by their names. */
exports.cases = ({ api, testing }) => {
  const { createSession, image, InvalidOption, isKimiAgentError, openAgent, prompt, runBatch, SessionClosed, tool } = api;
  const { scriptedAgent } = testing;
  const open = (script, options) => createSession({ executable: scriptedAgent(script), ...options });

  /** Checks an error of the addon: its class, and that its stack begins in the program. */
  function isAt(error, type, place) {
    assert.ok(error instanceof type, String(error?.stack));
    assert.ok(isKimiAgentError(error));
    const [first] = error.stack.split("\n").filter((line) => line.startsWith("    at "));
    assert.match(first, place, error.stack);
  }

  return {
    async "unknown option is an InvalidOption of the program's call"() {
      async function opens() {
        await createSession({ foo: 1 });
      }
      const error = await caught(opens);
      isAt(error, InvalidOption, /opens/);
      assert.equal(error.option, "foo");
    },

    async "wrong option with functions is an InvalidOption of the program's call"() {
      async function opens() {
        await createSession({ workDir: 5, onApproval: () => "approve", onEvent: () => undefined, tools: [] });
      }
      isAt(await caught(opens), InvalidOption, /opens/);
    },

    async "synchronous functions fail at the program's call"() {
      for (const call of [
        function calls() { scriptedAgent([[{ txt: "a" }]]); },
        function calls() { tool({ name: "a" }); },
        function calls() { image("missing.png"); },
        function calls() { new api.Policy({ allow: 5 }); },
        function calls() { api.output({ type: "object" }, { nam: "x" }); },
        function calls() { api.printable(5); },
        function calls() { runBatch(["a"], { concurency: 2 }); },
      ]) isAt(await caught(async () => call()), InvalidOption, /calls/);
    },

    async "missing program and closed session have their classes"() {
      const spawn = await caught(() => createSession({ executable: "/nowhere/kimi" }));
      assert.equal(spawn.code, "spawn_error");
      assert.ok(spawn instanceof api.SpawnError);
      const session = await open(HELLO);
      await session.close();
      async function prompts() {
        await session.prompt("again").result();
      }
      isAt(await caught(prompts), SessionClosed, /prompts/);
    },

    async "turn, text and steps are read"() {
      const session = await open([[{ text: ["Hel", "lo"] }], [{ text: "b" }], [{ text: "c" }]]);
      let text = "";
      for await (const piece of session.prompt("a").textStream) text += piece;
      assert.equal(text, "Hello");
      for await (const step of session.prompt("b").steps) for await (const { type } of step) assert.ok(type);
      assert.equal((await session.prompt("c").result()).text, "c");
      await session.close();
    },

    async "handlers, tools and their failures are reported"() {
      const parameters = { type: "object", properties: {} };
      const fails = tool({ name: "fails", description: "Fails.", parameters, handler: () => fs.readFileSync(path.join(__dirname, "missing")) });
      const map = tool({ name: "map", description: "Returns a map.", parameters, handler: () => new Map([["a", 1]]) });
      const call = (name) => ({ external_tool: { name, arguments: {} } });
      const session = await open([[call("fails"), call("map"), { text: "done" }]], { tools: [fails, map] });
      const results = [];
      const turn = session.prompt("go");
      for await (const { type, payload } of turn) if (type === "ToolResult") results.push(payload.return_value);
      const { handlerFailures } = await turn.result();
      await session.close();
      assert.deepEqual(results.map(({ is_error }) => is_error), [true, true]);
      assert.match(results[0].message, /^ENOENT: no such file/);
      assert.equal(results[1].message, "the handler returned a value that cannot be sent");
      assert.match(handlerFailures[1].message, /Map/);
    },

    async "a missing file is no failure"() {
      const script = { wire: "acp", turns: [[{ read_file: { path: "missing.txt" } }, { text: "done" }]] };
      const onReadFile = ({ path: file }) => fs.promises.readFile(path.join(os.tmpdir(), "nowhere", path.basename(file)), "utf8");
      const session = await open(script, { dialect: "acp", onReadFile });
      const { handlerFailures, text } = await session.prompt("go").result();
      assert.deepEqual(handlerFailures, []);
      assert.equal(text.endsWith("done"), true);
      await session.close();
    },

    async "images are read from buffers, arrays and URLs"() {
      const folder = fs.mkdtempSync(path.join(os.tmpdir(), "kimi-"));
      const file = path.join(folder, "dot.png");
      fs.writeFileSync(file, PNG);
      const { url } = image(file).image_url;
      const array = PNG.buffer.slice(PNG.byteOffset, PNG.byteOffset + PNG.byteLength);
      const { pathToFileURL } = require("node:url");
      for (const same of [fs.readFileSync(file), new Uint8Array(PNG), array, pathToFileURL(file)]) {
        assert.equal(image(same).image_url.url, url);
      }
      fs.rmSync(folder, { recursive: true });
    },

    async "a batch gives its results"() {
      const texts = [];
      for await (const result of runBatch(["a", "b"], { executable: scriptedAgent(HELLO) })) texts.push(result.text);
      assert.deepEqual(texts, ["Hello", "Hello"]);
    },

    async "an agent opens sessions, and a one-shot prompt answers"() {
      const agent = await openAgent({ executable: scriptedAgent(HELLO) });
      const session = await agent.createSession();
      assert.equal((await session.prompt("a").result()).text, "Hello");
      isAt(await caught(function lists() { return agent.listSessions(); }), api.Unsupported, /lists/);
      await agent.close();
      assert.equal((await prompt("a", { executable: scriptedAgent(HELLO) }).result()).text, "Hello");
    },

    async "objects that are not plain are refused as options"() {
      class Options {
        workDir = ".";
      }
      const given = [new Map(), new Set(), Promise.resolve({}), new Options(), []];
      for (const options of given) {
        assert.ok((await caught(() => createSession(options))) instanceof InvalidOption);
        assert.ok((await caught(() => prompt("a", options).result())) instanceof InvalidOption);
      }
      const error = await caught(() => createSession({ env: new Map([["A", "1"]]) }));
      assert.match(error.message, /`env`.*Map.*Object\.fromEntries/);
    },
  };
};
