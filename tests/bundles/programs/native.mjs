// Prints the code of the error that opening a session ends with; with the native module that is `spawn_error`.
import { createSession } from "kimi-agent";

await createSession({ executable: "/no/such/agent" }).catch(({ code, message }) => console.log(`${code}: ${message}`));
