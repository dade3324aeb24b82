// The trace: one JSON object a line, keys in alphabetical order, the same in every language.
import { writeSync } from "node:fs";

/** Writes a line at once: a runner may be ended at any moment. */
export function print(line) {
  let rest = Buffer.from(`${JSON.stringify(sorted(line))}\n`);
  while (rest.length > 0) rest = rest.subarray(writeSync(1, rest));
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(written(value)).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, sorted(item)]));
}

/** An object as `JSON.stringify()` writes it: with the values that could not be read. */
function written(object) {
  return typeof object.toJSON === "function" ? object.toJSON() : object;
}

/** An event as the wire has it: one of an unknown type stands as what it was. */
export function canonical(event) {
  if (event.type === "UnknownEvent") return event.payload;
  if (event.type !== "SubagentEvent") return event;
  return { ...event, payload: { ...written(event.payload), event: canonical(event.payload.event) } };
}

/** The output of a failed operation. Texts differ between systems: they are included only on request. */
export function errorLine(op, error) {
  const { code, exitCode, signal, rpcCode, option } = error;
  const told = { exit_code: exitCode, signal, rpc_code: rpcCode, option: option && snakeCase(option) };
  const known = present(told);
  // Node shows an error's properties next to its message; elsewhere the number is a part of the text.
  const hint = error.hint ? `; ${error.hint}` : "";
  const said = hint ? error.message.slice(0, -hint.length) : error.message;
  // Names of options stand in backticks, as each language spells them; those of events begin with a capital everywhere.
  const text = typeof rpcCode === "number" ? `${said} (${rpcCode})${hint}` : error.message;
  const message = text.replace(/`[a-z][A-Za-z.]*(\(\))?`/g, snakeCase);
  const fields = present({
    message: rpcCode === undefined ? undefined : said,
    data: error.data,
    stderr: error.stderr,
    steps: error.steps,
    counter: error.counter && snakeCase(error.counter),
    limit: error.limit,
    used: error.used,
    attempts: error.attempts,
    text: error.text,
    errors: error.errors,
    methods: error.methods?.length ? error.methods : undefined,
    result: ["budget_exceeded", "output_invalid"].includes(code) ? outcome(error.result) : undefined,
  });
  const ended = present({
    retryable: error.retryable,
    status: error.status,
    retry_after: typeof error.retryAfter === "number" ? error.retryAfter / 1000 : undefined,
    text: error.result?.text,
  });
  return {
    op: op.op,
    error: code,
    ...known,
    ...(op.message === true && { message }),
    ...(op.fields === true && { fields }),
    ...(op.ended === true && { ended }),
  };
}

function present(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));
}

/** The output of an operation with a result. */
export function outcome(result, details, ended) {
  const { status, steps, text, usage, output, toolCalls, rejected, handlerFailures, stopReason, plan, cost } = result;
  const line = { status, steps, text, usage: tokens(usage), ...(output !== undefined && { output }) };
  if (ended === true) line.stop_reason = stopReason ?? null;
  if (details !== true) return line;
  const calls = toolCalls.map(({ duration, ...call }) => ({ ...call, timed: duration >= 0 }));
  return { ...line, tool_calls: calls, rejected, handler_failures: handlerFailures, ...(plan && { plan }), ...(cost && { cost }) };
}

/** Prints the tool call that the package has added to an event, if there is one. */
export function printToolCall({ type, payload }) {
  if (type === "SubagentEvent") printToolCall(payload.event);
  else if (payload.tool_call) print({ tool_call: payload.tool_call });
}

/** Usage without its sum, which a test of the package checks. */
export function tokens({ total: _total, ...rest }) {
  return rest;
}

export function snakeCase(name) {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

export function camelCase(name) {
  return name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
}
