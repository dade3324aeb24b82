/** Sums of tokens. */

import type { TokenUsage } from "./wire.js";

/** The tokens of a turn or of a session. */
export interface Usage extends TokenUsage {
  /** All of them: input and output, from the cache or not. */
  readonly total: number;
}

/** Adds the sum of its parts. */
export function withTotal(usage: TokenUsage): Usage {
  const { input_other, output, input_cache_read, input_cache_creation } = usage;
  return { ...usage, total: input_other + output + input_cache_read + input_cache_creation };
}
