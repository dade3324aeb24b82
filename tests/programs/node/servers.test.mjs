// Servers that stream answers to clients, some of which disconnect in the middle of a turn.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setImmediate as tick } from "node:timers/promises";

import { exists, recordedAgent, startProgram } from "./helpers.mjs";
import { ask } from "./sse_client.mjs";

/** Every session plays the script from its beginning; the prompt says which client asks. */
const ANSWERS = { turns: [[{ text: ["Hello ", "{{prompt}}"] }]] };
const WAITS = { turns: [[{ text: "I wait." }, { wait_cancel: true }]] };
const FAILS = { turns: [[{ error: { code: -32003, message: "overloaded" } }]] };

async function collected(stream) {
  const found = [];
  for await (const event of stream) found.push(event);
  return found;
}

for (const name of ["express", "hono"]) {
  describe(name, { timeout: 60_000 }, () => {
    const folder = mkdtempSync(join(tmpdir(), "kimi-agent-programs-"));
    const pids = join(folder, "pids");
    const servers = {};
    before(async () => {
      for (const [key, script] of Object.entries({ ANSWERS, WAITS, FAILS })) {
        servers[key] = await startProgram([`${name}.mjs`], { KIMI_AGENT_EXECUTABLE: recordedAgent(script, pids) });
      }
    });
    after(() => {
      for (const server of Object.values(servers)) server.stop();
      rmSync(folder, { recursive: true });
    });

    test("clients get their own answers, several at a time", async () => {
      const names = ["a", "b", "c"];
      const answers = await Promise.all(names.map((question) => collected(ask(`${servers.ANSWERS.address}/ask`, { question }))));
      for (const [at, events] of answers.entries()) {
        assert.deepEqual(events, [["text", "Hello "], ["text", names[at]], ["end", "finished"]]);
      }
    });

    test("a failed turn is reported as an event", async () => {
      assert.deepEqual(await collected(ask(`${servers.FAILS.address}/ask`, { question: "x" })), [["error", "llm_service_error"]]);
    });

    test("a form of another site and another host name are refused", async () => {
      const address = `${servers.ANSWERS.address}/ask`;
      const form = await fetch(address, { method: "POST", headers: { "content-type": "text/plain" }, body: '{"question":"x"}' });
      assert.ok([400, 415].includes(form.status), String(form.status));
      const { port } = new URL(address);
      assert.equal(await statusFor({ port, host: "rebound.example" }), 403);
    });

    test("a client that disconnects ends its agent, and the next client is served", async () => {
      for (let round = 0; round < 3; round += 1) {
        rmSync(pids, { force: true });
        const client = new AbortController();
        const left = (async () => {
          for await (const [event] of ask(`${servers.WAITS.address}/ask`, { question: "x" }, client.signal)) {
            if (event === "text") client.abort();
          }
        })();
        await assert.rejects(left, { name: "AbortError" });
        for (const pid of readFileSync(pids, "utf8").trim().split("\n")) {
          while (exists(Number(pid))) await tick();
        }
      }
      assert.equal(servers.WAITS.process.exitCode, null);
    });
  });
}

/** The status of a request with a Host header, which `fetch` does not let a program choose. */
async function statusFor({ port, host }) {
  const { request } = await import("node:http");
  return new Promise((resolve, reject) => {
    const headers = { host, "content-type": "application/json" };
    const sent = request({ port, host: "127.0.0.1", path: "/ask", method: "POST", headers }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    sent.on("error", reject);
    sent.end('{"question":"x"}');
  });
}
