// A test for vitest, with a recording instead of a model.
import { createSession } from "kimi-agent";
import { cassette } from "kimi-agent/testing";
import { expect, test } from "vitest";

test("greeting", async () => {
  const session = await createSession({ ...cassette(process.env.GREETING), yolo: true });
  try {
    expect((await session.prompt("Greet me").result()).text).toBe("Hello!");
  } finally {
    await session.close();
  }
});
