/** Budgets: the limits of turns and sessions. */

/**
 * Limits for a turn (`budget`) or for all turns of a session (`sessionBudget`). Subagents count. A turn that exceeds a limit is
 * cancelled, and fails with {@link BudgetExceeded}.
 */
export interface Budget {
  /** Tokens of the input and the output, those from a cache included. */
  tokens?: number | undefined;
  /** Tokens of the output. */
  outputTokens?: number | undefined;
  /** Steps: calls of the model. */
  steps?: number | undefined;
  /** Tool calls. With 0 the first call exceeds the budget. */
  toolCalls?: number | undefined;
  /** Seconds, not milliseconds, since the turn began; waits for handlers count. */
  seconds?: number | undefined;
  /** US dollars, as the agent reports its cost, or as the option `prices` estimates it. */
  usd?: number | undefined;
}

/** The price of a model, in US dollars for a million tokens. */
export interface Price {
  /** Input that was neither read from a cache nor written to one. */
  input: number;
  /** Output. */
  output: number;
  /** Input that was read from a cache. Default: the price of the input. */
  cacheRead?: number | undefined;
  /** Input that was written to a cache. Default: the price of the input. */
  cacheWrite?: number | undefined;
}

/** Prices by the names that the agent has for its models. `*` is any other model. */
export type Prices = Readonly<Record<string, Price>>;

/** The name of a limit, in a {@link BudgetExceeded}. */
export type BudgetCounter = keyof Budget;
