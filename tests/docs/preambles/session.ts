import { createSession } from "kimi-agent";

await using session = await createSession({ workDir: "." });
// the block
