// Errors for properties that programs look for on a turn, a replay or a session.
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import bridgeModule from "../dist/bridge.js";
import sessionModule from "../dist/session.js";
import { fakeModule } from "./fake-native.mjs";

async function open() {
  return sessionModule.Session.open(new bridgeModule.Bridge(fakeModule()), {});
}

test("field of the result on a turn throws with the remedy", async () => {
  const turn = (await open()).prompt("hi");
  for (const name of ["text", "status", "toolCalls", "rejected", "handlerFailures"]) {
    const message = new RegExp(`^a Turn has no property \`${name}\`: .*await turn\\.result\\(\\).*\`result\\.${name}\``);
    assert.throws(() => turn[name], { name: "TypeError", message });
  }
  assert.throws(() => turn.raiseForStatus(), { name: "TypeError", message: /`result\.raiseForStatus\(\)`/ });
});

test("steer on a session and a list of a replay throw with the remedy", async () => {
  const session = await open();
  assert.throws(() => session.steer("no tests"), { name: "TypeError", message: /await turn\.steer\(/ });
  assert.throws(() => session.replay().events, { name: "TypeError", message: /for await \(const event of session\.replay/ });
});

test("inspecting, comparing, copying and awaiting do not read the hints", async () => {
  const session = await open();
  const turn = session.prompt("hi");
  const options = { showHidden: true, getters: true, depth: 5 };
  for (const object of [session, turn]) {
    assert.ok(inspect(object).startsWith(object.constructor.name));
    assert.ok(inspect(object, options).startsWith(object.constructor.name));
    assert.equal(JSON.stringify({ ...object }), "{}");
    const names = [];
    for (const name in object) names.push(name);
    assert.deepEqual(names, []);
    assert.equal(await object, object);
    assert.deepEqual([object], [object]);
  }
  assert.notDeepEqual([turn], [{}]);
});

test("fake that derives from a turn can have the properties", async () => {
  const fake = Object.create(Object.getPrototypeOf((await open()).prompt("hi")));
  fake.text = "hello";
  assert.equal(fake.text, "hello");
});
