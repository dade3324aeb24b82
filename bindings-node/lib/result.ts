/** The outcome of a turn. */

import { type KimiAgentError } from "./error-base.js";
import { AnswerRefused, AnswerTruncated, MaxStepsReached, TurnCancelled } from "./errors.js";
import { type Usage, withTotal } from "./messages.js";
import type { Content, Cost, HandlerFailed, JsonObject, Plan, TokenUsage, ToolCallInfo } from "./wire.js";

/** How a turn ended that did not fail. */
export type TurnStatus = "finished" | "cancelled" | "max_steps_reached" | "truncated" | "refused";

/** One tool call of a turn, in {@link PromptResult.toolCalls}. */
export interface ToolCallRecord {
  /** The id of the call, as the model made it. */
  id: string;
  /** The name of the tool. */
  name: string;
  /** The arguments, parsed. Absent if they are not a JSON object or did not fit. */
  arguments?: JsonObject;
  /**
   * The tool's output; of a result without output, its message. If the turn ended before the call did, it
   * is what the call had shown, or absent. An output
   * above 256 KiB is cut, and ends with a line that says so: `[… 123 more bytes]`.
   */
  output?: Content;
  /** Whether the tool failed; absent if the turn ended before the call did. */
  is_error?: boolean;
  /**
   * Milliseconds from the last piece of the arguments to the result, including the wait for an approval. Absent if the turn
   * ended before the call did.
   */
  duration?: number;
}

/** An approval that was rejected, in {@link PromptResult.rejected}. */
export interface RejectedApproval {
  /** The tool call that needed the approval; absent if the agent never named the call. */
  tool_call?: ToolCallInfo;
  /**
   * The action, from its request. For a call that was denied before the agent asked: the model's description of the command, the
   * command, or the name of the tool. Above 4 KiB it is cut.
   */
  description: string;
  /**
   * The reason: `no_handler`, no handler was set; `handler`, `onApproval` or `respond()`; `handler_failed`,
   * `onApproval` failed; `policy`, a rule; `cancelled`, the turn was cancelled or ended before there was an answer.
   */
  by: "no_handler" | "handler" | "handler_failed" | "policy" | "cancelled";
  /** Of a rejection by the policy: the reason, as a sentence for people. */
  reason?: string;
  /** Of a rejection by the policy: the part of the call that decided, for example a simple command or a path. */
  part?: string;
}

/** A handler that failed, in {@link PromptResult.handlerFailures}. */
export interface HandlerFailure {
  /** The kind of handler. */
  handler: HandlerFailed["handler"];
  /** The tool call that the handler was called for. Absent without a tool call, or if the agent never named the call. */
  tool_call?: ToolCallInfo;
  /** The error. Above 4 KiB it is cut. */
  message: string;
}

/** A result as the addon gives it. */
export interface ResultFields {
  status: TurnStatus;
  stop_reason?: string;
  steps: number;
  text: string;
  usage: TokenUsage;
  tool_calls: ToolCallRecord[];
  rejected: RejectedApproval[];
  handler_failures: HandlerFailure[];
  plan?: Plan;
  cost?: Cost;
  /** The value of structured output, if the turn returned one. */
  output?: unknown;
}

/**
 * The outcome of a turn. `Value` is the type of its {@link PromptResult.output}.
 *
 * @example
 * ```ts
 * const result = await session.prompt("Fix the failing test.").result();
 * console.log(result.status, result.text, result.usage.total);
 * for (const { description, by } of result.rejected) console.log("rejected:", description, by);
 * ```
 */
export class PromptResult<Value = unknown> {
  /**
   * How the turn ended. `truncated` if the answer ends at the model's limit of tokens, `refused` if the model, its provider or
   * a hook of the agent refused to answer. The result of an error has `cancelled` if the turn did not come to its end.
   */
  readonly status: TurnStatus;
  /**
   * Why the turn ended, in the agent's own word: over ACP `end_turn`, `max_tokens`, `max_turn_requests`, `refusal`,
   * `cancelled` or another one; over Wire the status. Undefined if the agent did not say.
   */
  readonly stopReason: string | undefined;
  /** How many steps it took. */
  readonly steps: number;
  /** The text of the last step. */
  readonly text: string;
  /**
   * The value of the option `output`, which is valid. Undefined without the option, and if the turn was cancelled or reached
   * its limit of steps before it had a value: {@link raiseForStatus} excludes these.
   */
  readonly output: Value | undefined;
  /** The tokens of this turn; the session's sum is `session.usage`. */
  readonly usage: Usage;
  /**
   * The tool calls of the turn in order, those of subagents included. At most the first 10,000; their arguments and outputs
   * together take at most 4 MiB, and what does not fit is left out of the list's entries.
   */
  readonly toolCalls: readonly ToolCallRecord[];
  /** The approvals that were rejected, in order; at most the first 1,000. */
  readonly rejected: readonly RejectedApproval[];
  /** The handlers that failed while the turn ran, in order; at most the first 1,000. */
  readonly handlerFailures: readonly HandlerFailure[];
  /**
   * The agent's last plan of the turn, without unknown fields. At most its first 1,000 entries, whose texts together take at most
   * 256 KiB. Undefined if the agent sent none.
   */
  readonly plan: Plan | undefined;
  /**
   * The cost of the turn: as the agent reported it, or the price of its tokens by the option `prices`. Undefined if neither is known,
   * or if the agent reported several currencies.
   */
  readonly cost: Cost | undefined;

  /** For the error of {@link raiseForStatus}: why the turn was cancelled, if a signal says so. */
  readonly #cancelled: { cause?: unknown } | undefined;

  /** @internal */
  constructor(fields: ResultFields, cancelled?: { cause?: unknown }) {
    const { status, stop_reason, steps, text, usage, tool_calls, rejected, handler_failures, plan, cost, output } = fields;
    this.#cancelled = cancelled;
    this.status = status;
    this.stopReason = stop_reason;
    this.steps = steps;
    this.text = text;
    this.output = output as Value | undefined;
    this.usage = withTotal(usage);
    this.toolCalls = tool_calls;
    this.rejected = rejected;
    this.handlerFailures = handler_failures;
    this.plan = plan;
    this.cost = cost;
  }

  /**
   * Returns the result itself if the turn finished. The result of a turn with `output` then has a value.
   *
   * @returns This result.
   * @throws {TurnCancelled} if the turn was cancelled. If the signal of `prompt()` cancelled it, `cause` is the signal's
   * reason: for `AbortSignal.timeout()` a `DOMException` named `TimeoutError`, for `abort()` one named `AbortError`.
   * @throws {MaxStepsReached} if the turn ended at its limit of steps.
   * @throws {AnswerTruncated} if the answer was cut at the model's limit of tokens.
   * @throws {AnswerRefused} if the model, its provider or a hook of the agent refused to answer.
   *
   * @example
   * ```ts
   * const { text } = (await session.prompt("Fix the failing test.").result()).raiseForStatus();
   * ```
   */
  raiseForStatus(): this & {
    /** The value of the option `output`. */
    readonly output: Value;
  } {
    const error = this.#error();
    if (error !== undefined) throw Object.assign(error, { result: this });
    // eslint-disable-next-line @typescript-eslint/no-unsafe-class-instance-assignment -- this object, with a narrower type
    return this as this & { readonly output: Value };
  }

  /** Makes the error for a turn that has not finished. */
  #error(): KimiAgentError | undefined {
    switch (this.status) {
      case "cancelled": {
        const message = "the turn was cancelled before it was finished; the session can still be used";
        return new TurnCancelled(message, this.#cancelled);
      }
      case "max_steps_reached": {
        // Over ACP an agent reports no steps: the SDK counts the turn as one.
        const steps = this.steps > 1 || this.stopReason !== "max_turn_requests" ? this.steps : null;
        const limit = `the turn reached its limit of ${steps === null ? "" : `${String(steps)} `}steps`;
        return new MaxStepsReached(`${limit}; prompt again to continue, or raise \`maxStepsPerTurn\``, steps);
      }
      case "truncated": {
        const hint = "prompt again to continue, or raise the limit in the agent's configuration";
        return new AnswerTruncated(`the answer was cut at the model's limit of tokens; ${hint}`);
      }
      case "refused":
        return new AnswerRefused("the model, its provider or a hook of the agent refused to answer; change the prompt");
      case "finished":
        return undefined;
    }
  }
}
