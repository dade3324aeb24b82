// The agent of a recording: recordings of all protocols, which Python wrote, and the comparison of a program with one.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { createSession, InvalidOption, RpcError } from "kimi-agent";
import { replayedAgent, scriptedAgent } from "kimi-agent/testing";

const recordings = fileURLToPath(new URL("../../tests/recordings", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "replay-"));
after(() => {
  rmSync(folder, { recursive: true });
});

async function texts(options, prompts = ["List the files", "Thanks"]) {
  const session = await createSession({ workDir: folder, ...options });
  try {
    const seen = [];
    for (const prompt of prompts) seen.push((await session.prompt(prompt).result()).text);
    return seen;
  } finally {
    await session.close();
  }
}

describe("replayedAgent", () => {
  for (const dialect of ["wire", "legacy", "acp", "kimi-web"]) {
    for (const mode of ["replay", "verify"]) {
      test(`${mode} over ${dialect}`, async () => {
        const executable = replayedAgent(join(recordings, `${dialect}.jsonl`), { mode });
        const options = dialect === "legacy" ? { yolo: true } : { onApproval: () => "approve" };
        assert.deepEqual(await texts({ executable, ...options }), ["There is a.txt.", "Bye."]);
      });
    }
  }

  test("difference is shown", async () => {
    const record = join(folder, "run.jsonl");
    const executable = scriptedAgent([[{ text: "one" }]]);
    assert.deepEqual(await texts({ executable, record }, ["first"]), ["one"]);
    assert.deepEqual(await texts({ executable: replayedAgent(record) }, ["other"]), ["one"]);
    const agent = replayedAgent(record, { mode: "verify" });
    await assert.rejects(texts({ executable: agent }, ["other"]), (error) => {
      assert.ok(error instanceof RpcError);
      assert.match(error.message, /turn 1: `prompt`: expected "first", got "other" at \/user_input/);
      return true;
    });
  });

  test("file URLs of a recording and of a script are paths", async () => {
    const [record, script] = [join(folder, "url run.jsonl"), join(folder, "url script.json")];
    writeFileSync(script, JSON.stringify([[{ text: "one" }]]));
    for (const url of [pathToFileURL(script), pathToFileURL(script).href]) {
      assert.deepEqual(await texts({ executable: scriptedAgent(url), record }, ["first"]), ["one"]);
    }
    for (const url of [pathToFileURL(record), pathToFileURL(record).href]) {
      assert.deepEqual(await texts({ executable: replayedAgent(url) }, ["first"]), ["one"]);
    }
    for (const script of ["", new URL("http://localhost/script.json")]) {
      assert.throws(
        () => scriptedAgent(script),
        (error) => error.option === "script" && /expected the path of a JSON file, or its file URL; got/.test(error.message),
      );
    }
  });

  test("unusable recording is refused", async () => {
    const missing = replayedAgent(join(folder, "missing.jsonl"));
    await assert.rejects(texts({ executable: missing }), (error) => {
      assert.ok(error instanceof InvalidOption);
      assert.equal(error.option, "executable");
      assert.match(error.message, /the recording .* can't be read/);
      return true;
    });
    assert.throws(() => replayedAgent("run.jsonl", { mode: "other" }), /expected "replay", "verify" or "stub"/);
    for (const [file, words] of [
      [7, /expected the path of a recording, or its file URL; got 7$/],
      [null, /expected the path of a recording, or its file URL; got null$/],
      ["", /expected the path of a recording, or its file URL; got an empty text$/],
      [new URL("http://localhost/run.jsonl"), /or its file URL; got "http:\/\/localhost\/run.jsonl"$/],
    ]) {
      assert.throws(() => replayedAgent(file), (error) => error.option === "file" && words.test(error.message));
    }
  });
});
