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
}

/** The name of a limit, in a {@link BudgetExceeded}. */
export type BudgetCounter = keyof Budget;
