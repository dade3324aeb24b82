// The program for Electron, with a stub of Electron, and its archive as packagers make it.
import assert from "node:assert/strict";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";

import asar from "@electron/asar";

import { agent } from "./helpers.mjs";

const SCRIPT = [
  [
    { text: "I write." },
    { tool_call: { name: "WriteFile", arguments: { path: "a.txt" }, approve: { description: "Write a.txt" }, effect: { write_file: "a.txt", content: "" } } },
    { text: "You said {{last.response}}." },
  ],
  [{ text: "I wait." }, { wait_cancel: true }],
  [{ error: { code: -32003, message: "overloaded" } }],
];

describe("the program for Electron", { timeout: 60_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "kimi-agent-programs-"));
  const program = join(folder, "program");
  const events = [];
  let electron, arrived;
  before(async () => {
    cpSync(join(import.meta.dirname, "electron"), program, { recursive: true });
    const modules = join(program, "node_modules");
    for (const name of ["kimi-agent", "@kimi-agent"]) {
      cpSync(join(import.meta.dirname, "node_modules", name), join(modules, name), { recursive: true });
    }
    mkdirSync(join(modules, "electron"));
    writeFileSync(join(modules, "electron/index.js"), readFileSync(join(import.meta.dirname, "electron_stub.cjs")));
    process.env.KIMI_AGENT_EXECUTABLE = agent(SCRIPT);
    electron = createRequire(join(program, "main.mjs"))("electron");
    electron.app.documents = folder;
    const loaded = new Promise((resolve) => electron.app.once("loaded", resolve));
    await import(pathToFileURL(join(program, "main.mjs")).href);
    await loaded;
    electron.world.agent.onEvent((event) => {
      events.push(event);
      arrived?.(event);
    });
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  const next = (wanted) =>
    new Promise((resolve) => {
      arrived = (event) => event.type === wanted && resolve(event);
    });

  test("the page is isolated, and reaches the agent by four functions", () => {
    const { contextIsolation, nodeIntegration, sandbox } = electron.page.options;
    assert.deepEqual({ contextIsolation, nodeIntegration, sandbox }, { contextIsolation: true, nodeIntegration: false, sandbox: true });
    assert.deepEqual(Object.keys(electron.world.agent), ["prompt", "answer", "cancel", "onEvent"]);
    assert.equal(electron.page.url, pathToFileURL(join(program, "index.html")).href);
  });

  test("the page gets the text and the approval, and its answer reaches the agent", async () => {
    const asked = next("approval");
    const status = electron.world.agent.prompt("Write");
    const { id, description, input } = await asked;
    assert.deepEqual([description, input], ["Write a.txt", '{"path":"a.txt"}']);
    await electron.world.agent.answer(id, "everything");
    assert.equal(existsSync(join(folder, "a.txt")), false);
    await electron.world.agent.answer(id, "approve");
    assert.equal(await status, "finished");
    assert.equal(existsSync(join(folder, "a.txt")), true);
    assert.equal(events.flatMap(({ text }) => text ?? []).join(""), "I write.You said approve.");
  });

  test("a cancelled and a failed turn are told to the page", async () => {
    const waits = next("text");
    const status = electron.world.agent.prompt("Wait");
    await waits;
    await assert.rejects(electron.world.agent.prompt("Twice"), /the agent is working/);
    await electron.world.agent.cancel();
    assert.equal(await status, "cancelled");
    assert.equal(await electron.world.agent.prompt("Fail"), "llm_service_error");
  });

  test("calls of another page are refused", async () => {
    const { url } = electron.page;
    electron.page.url = "https://example.org/";
    await assert.rejects(electron.world.agent.cancel(), /does not come from the page/);
    electron.page.url = url;
  });

  test("the program quits when its agent is closed", async () => {
    const quit = new Promise((resolve) => electron.app.once("quit", resolve));
    electron.app.emit("window-all-closed");
    await quit;
  });

  test("the native module is outside of the archive", async () => {
    const archive = join(folder, "app.asar");
    const [unpack] = JSON.parse(readFileSync(join(program, "package.json"), "utf8")).build.asarUnpack;
    await asar.createPackageWithOptions(program, archive, { unpack });
    const unpacked = asar.listPackage(archive).filter((file) => asar.statFile(archive, file.slice(1)).unpacked);
    const modules = unpacked.filter((file) => file.endsWith(".node"));
    assert.equal(modules.length, 1);
    assert.ok(existsSync(join(`${archive}.unpacked`, modules[0])));
    assert.deepEqual(modules, unpacked);
  });
});
