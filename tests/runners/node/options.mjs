// Options of a scenario as this package calls them: plain ones as they are, functions made of what describes them.
import { Block, output as makeOutput, Reject, replayedAgent, saw, terminals } from "./touched.mjs";
import { camelCase, canonical, print } from "./trace.mjs";

/** The handlers that give the answers of a scenario. */
const ANSWERED = ["on_approval", "on_question", "on_read_file", "on_write_file", "on_terminal"];

/** Options of a session or an agent; `recorded` gets what `"record"` asks for, `called` what handlers are called with. */
export function optionsOf(described, { executable, recorded, called }) {
  const options = {};
  for (const [name, value] of Object.entries(described)) options[camelCase(name)] = option(name, value, recorded, called);
  if (executable) options.executable ??= executable;
  return options;
}

/** The entries of `called` in a case that traces its handlers. */
export function traceCall(line) {
  const { request } = line;
  print(request ? { ...line, request: canonical({ payload: request }).payload } : line);
}

function option(name, value, recorded, called) {
  if (name.endsWith("_timeout")) return milliseconds(value);
  if (name === "session_budget" || name === "place") return camelKeys(value);
  if (name === "prices") return Object.fromEntries(Object.entries(value).map(([model, price]) => [model, camelKeys(price)]));
  if (name === "output") return output(value, called);
  if (name === "executable" && typeof value?.recording === "string") {
    return replayedAgent(value.recording, { mode: value.mode ?? "replay" });
  }
  if (ANSWERED.includes(name) && value?.answers) return answers(value.answers, name.slice("on_".length), called);
  if (name === "on_terminal" && value?.root) return terminals(value.root);
  if ((name === "on_event" || name === "on_stderr") && value === "record") return (item) => recorded[name].push(item);
  if (name === "tools" && Array.isArray(value)) return value.map((item) => tool(item, called));
  if (name === "hooks" && Array.isArray(value)) return value.map((item) => hook(item, called));
  return value;
}

/** Scenarios have seconds. Other values are passed on, for the package to refuse. */
function milliseconds(value) {
  return typeof value === "number" ? value * 1000 : value;
}

/** A handler that gives the answers in their order, the last one again and again. */
function answers(list, handler, called) {
  let used = 0;
  return (request) => {
    called({ handler, request });
    const answer = list[Math.min(used, list.length - 1)];
    used += 1;
    return answer?.return === undefined ? toQuestion(request, given(answer)) : given(answer);
  };
}

/** An only label for an only question, whatever the scenario calls it: a real agent's text may have a path in it. */
function toQuestion({ questions }, answer) {
  const labels = typeof answer === "object" && answer !== null ? Object.values(answer) : [];
  if (questions?.length !== 1 || labels.length !== 1) return answer;
  return { [questions[0].question]: labels[0] };
}

/** Structured output: its check is a Standard Schema that gives the answers of the scenario. */
export function output(described, called) {
  if (typeof described !== "object" || described === null) return described;
  const { schema, check, ...details } = described;
  if (check === undefined) return makeOutput(schema, details);
  let used = 0;
  const validate = (value) => {
    called({ handler: "output", value });
    const next = check.answers[Math.min(used, check.answers.length - 1)];
    used += 1;
    const answer = given(next);
    if (answer instanceof Promise) return answer;
    return answer === null ? { value } : { issues: answer.map(issue) };
  };
  return makeOutput(schema, { ...details, validate: { "~standard": { version: 1, vendor: "scenario", validate } } });
}

function issue(violation) {
  if (typeof violation === "string") return { message: violation };
  const { pointer = "", message } = violation;
  return { path: pointer.split("/").slice(1), message };
}

/** The result of a behaviour that all kinds of handlers have. */
function given(behaviour) {
  if (typeof behaviour?.raise === "string") throw new Error(behaviour.raise);
  if (behaviour?.not_found !== undefined) throw Object.assign(new Error(behaviour.not_found), { code: "ENOENT" });
  if (behaviour?.hang !== undefined) return new Promise(() => undefined);
  if (behaviour?.return !== undefined) return behaviour.return;
  return answer(behaviour);
}

/** An answer as a program writes it. */
export function answer(value) {
  if (typeof value?.reject === "string") return saw(new Reject(value.reject));
  if (typeof value?.block === "string") return saw(new Block(value.block));
  return value;
}

function tool(described, called) {
  if (typeof described !== "object" || described === null) return described;
  const { behaviour, ...rest } = described;
  const handler = async (args, { callId, progress }) => {
    called({ handler: "tool", name: described.name, arguments: args });
    if (behaviour?.progress !== undefined) progress(behaviour.progress.fraction, behaviour.progress.message);
    if (behaviour?.call_id !== undefined) return callId;
    if (behaviour?.echo !== undefined) return args;
    if (behaviour?.return_value !== undefined) return behaviour.return_value;
    return given(behaviour);
  };
  return { ...renamed(rest), handler };
}

function hook(described, called) {
  if (typeof described !== "object" || described === null) return described;
  const { behaviour, ...rest } = described;
  const handler = (request) => {
    called({ handler: "hook", request });
    return given(behaviour);
  };
  return { ...renamed(rest), handler };
}

/** An object with its keys in camel case. */
export function camelKeys(value) {
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [camelCase(name), item]));
}

/** The keys of a tool or a hook in camel case, its timeout in milliseconds. */
function renamed(described) {
  const entries = Object.entries(described).map(([name, value]) => [
    camelCase(name),
    name === "timeout" ? milliseconds(value) : value,
  ]);
  return Object.fromEntries(entries);
}
