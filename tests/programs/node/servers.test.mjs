// Servers that stream events to clients, some of which leave in the middle of a turn.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";
import { setImmediate as tick } from "node:timers/promises";

import { scriptedAgent } from "kimi-agent/testing";

/** Every session plays the script from its beginning; the prompt says which client asks. */
const AGENT = scriptedAgent({ turns: [[{ text: ["Hello ", "{{prompt}}"] }]] });
const WAITING = scriptedAgent({ turns: [[{ text: "I wait." }, { wait_cancel: true }]] });

/** The events of a response, one at a time. */
async function* events(response) {
  let text = "";
  for await (const bytes of response.body.pipeThrough(new TextDecoderStream())) {
    text += bytes;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const [, event, data] = /^event: (.*)\ndata: (.*)$/.exec(text.slice(0, end));
      yield [event, JSON.parse(data)];
    }
  }
}

function isThere(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    assert.equal(error.code, "ESRCH");
    return false;
  }
}

for (const name of ["express", "hono"]) {
  for (const [what, agent] of [["that answers", AGENT], ["that waits", WAITING]]) {
    describe(`${name}, with an agent ${what}`, { timeout: 60_000 }, () => {
      let server, address;
      before(async () => {
        const env = { ...process.env, AGENT: JSON.stringify(agent) };
        server = spawn(process.execPath, [`${name}.mjs`], { cwd: import.meta.dirname, env, stdio: ["ignore", "pipe", "inherit"] });
        const [port] = await once(createInterface({ input: server.stdout }), "line");
        address = `http://127.0.0.1:${port}/ask?q=`;
      });
      after(() => server.kill());

      if (agent === AGENT) {
        test("clients get their own answers, several at a time", async () => {
          const ask = async (name) => {
            const texts = [];
            for await (const [event, data] of events(await fetch(address + name))) {
              if (event === "text") texts.push(data);
              if (event === "end") return [texts.join(""), data];
            }
            return assert.fail("the stream has no end");
          };
          const names = ["a", "b", "c"];
          assert.deepEqual(await Promise.all(names.map(ask)), names.map((name) => [`Hello ${name}`, "finished"]));
        });
      } else {
        test("a client that leaves takes its agent with it, and the next one is served", async () => {
          for (let round = 0; round < 3; round += 1) {
            const client = new AbortController();
            let pid;
            const left = (async () => {
              for await (const [event, data] of events(await fetch(address + "x", { signal: client.signal }))) {
                if (event === "open") pid = data.pid;
                if (event === "text") client.abort();
              }
            })();
            await assert.rejects(left, { name: "AbortError" });
            while (isThere(pid)) await tick();
          }
          assert.equal(server.exitCode, null);
        });
      }
    });
  }
}
