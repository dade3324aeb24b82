/** Cassettes: recordings of sessions as tests. The core decides whether a test records. */

import { givenPath, knownOptions, show, wrongOption } from "./arguments.js";
import { atCaller } from "./call-site.js";
import type { InvalidOption } from "./errors.js";
import { callNative } from "./native-errors.js";
import { loadNative } from "./native.js";
import { player } from "./test-agents.js";

/** Options of {@link cassette}. */
export interface CassetteOptions {
  /**
   * The agent to record with. Default: that of the option `executable` of a session. When the recording is played, the agent
   * that plays it takes its place.
   */
  executable?: string | readonly string[] | undefined;
  /**
   * When to record. With `"once"`, if the file is missing or incomplete. With `"none"`, never: then a missing file throws.
   * With `"all"` and `"rewrite"`, always: the file is replaced when the session has opened. Default: the
   * environment variable `KIMI_RECORD`. Without it, `"none"` if the environment variable `CI` is set to a value other than
   * `false` and `0`, and `"once"` if not.
   */
  mode?: "once" | "none" | "all" | "rewrite" | undefined;
  /**
   * Whether a prompt, another call or an answer that differs from the recording fails, as with the mode `"verify"` of
   * {@link replayedAgent}. Default: true.
   */
  verify?: boolean | undefined;
}

/** The options of a session that records or plays a cassette. `{ ...cassette }` copies `record` and `executable` only. */
export interface Cassette {
  /** The agent to record with, if it was set, or the agent that plays the recording. */
  executable?: string | readonly string[];
  /** The path of the recording, if the session records. */
  record?: string;
  /** The absolute path of the recording. */
  readonly path: string;
  /** Whether the session records. If not, it plays the recording. */
  readonly isRecording: boolean;
}

/**
 * Returns options of a session that records a test with a real agent once, and plays the recording from then on. A cassette is
 * the recording of one session. Whether to record is decided when this function is called.
 *
 * A recording is incomplete if its session was never opened or never closed, for example because the program was killed. Close
 * the session before the test ends. The one-shot `prompt()` closes its session in the background, after its result, so a test
 * that plays the recording immediately can find it incomplete.
 *
 * @param name - The name of the recording, or its path or file URL. A name without a directory and without `.jsonl` is the
 * file `cassettes/NAME.jsonl` below the current directory.
 * @param options - The agent, the mode, and whether the program is compared with the recording.
 * @returns Options for `createSession()`, `prompt()` or `openAgent()`.
 * @throws {InvalidOption} if the file is missing or incomplete and the mode is `"none"`, or if its directory cannot be written:
 * option `cassette`. If an option is unknown or has a wrong type: that option. If the file is not a recording, the opening of the session throws it
 * for the option `executable`.
 *
 * @example
 * ```ts
 * const session = await createSession({ ...cassette("greeting"), policy: { allow: ["read"] } });
 * ```
 */
export function cassette(name: string | URL, options: CassetteOptions = {}): Cassette {
  return atCaller(cassette, () => {
    knownOptions("cassette()", options, ["executable", "mode", "verify"]);
    const { executable, mode } = options;
    const verify: unknown = options.verify ?? true;
    if (typeof verify !== "boolean") throw wrongOption("verify", `expected true or false; got ${show(verify)}`);
    const modeText: unknown = mode ?? undefined;
    if (modeText !== undefined && typeof modeText !== "string") throw wrongMode(modeText);
    const { path, isRecording } = callNative(() => loadNative().openCassette(fileName(name), modeText));
    const chosen: Pick<Cassette, "executable" | "record"> = isRecording
      ? { record: path, ...(executable == null ? {} : { executable }) }
      : { executable: player(path, { mode: verify ? "verify" : "replay" }, true) };
    // A copy with `{ ...cassette }` has options only.
    return Object.defineProperties(chosen, { path: { value: path }, isRecording: { value: isRecording } }) as Cassette;
  });
}

function fileName(name: unknown): string {
  const expected = "a name, a path or a file URL";
  const file = givenPath("cassette", name, expected);
  if (file === undefined) throw wrongOption("cassette", `expected ${expected}; got ${show(name)}`);
  return file;
}

function wrongMode(mode: unknown): InvalidOption {
  return wrongOption("mode", `expected "once", "none", "all" or "rewrite"; got ${show(mode)}`);
}
