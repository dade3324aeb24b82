/** Divides the options of sessions and agents into data for the core and functions of the program. */

import type { Callbacks } from "./addon.js";
import { settingsOf } from "./local.js";
import { objectJson, optionJson, patternText, reading, show, wrongOption } from "./arguments.js";
import type { Progress } from "./batch.js";
import { callNative } from "./native-errors.js";
import {
  type ApprovalHandler,
  checkHook,
  type HandlerContext,
  type HookDefinition,
  type QuestionHandler,
  type ReadFileHandler,
  type TerminalHandler,
  type ToolContext,
  type WriteFileHandler,
} from "./handler-types.js";
import { loadNative } from "./native.js";
import type { SessionOptions } from "./option-types.js";
import { type Output, readOutput } from "./output.js";
import { readTelemetry, type Tracing } from "./telemetry.js";
import { checkDefinition, type ExternalTool, makeTool } from "./tool.js";
import { isStandardSchema } from "./tool-schema.js";
import { HAVE_NO_JSON, isRegExp, textOf } from "./values.js";
import type { Event, JsonObject } from "./wire.js";

/** The functions among the options. */
export interface HandlerFunctions {
  approval?: ApprovalHandler;
  question?: QuestionHandler;
  event?: (event: Event, context: HandlerContext) => unknown;
  stderr?: (line: string, context: HandlerContext) => unknown;
  readFile?: ReadFileHandler;
  writeFile?: WriteFileHandler;
  terminal?: TerminalHandler;
  /** Of a batch: returns the next job, or null after the last one. */
  nextJob?: () => Promise<unknown>;
  /** Of a batch. */
  progress?: (progress: Progress) => unknown;
  tools: readonly ExternalTool[];
  hooks: readonly HookDefinition[];
}

/** Options as the addon takes them, and the functions that stay here. */
export interface PreparedOptions {
  optionsJson: string;
  callbacks: Callbacks;
  functions: HandlerFunctions;
  /** The option `output`. */
  output: Output | undefined;
  /** The option `telemetry`. */
  tracing: Tracing | undefined;
}

/** Divides options into data and functions. The core checks the data, and first the names unless they are of a batch. */
export function prepareOptions(options: SessionOptions, isBatch = false): PreparedOptions {
  const native = loadNative();
  if (!isBatch) {
    callNative(() => {
      native.checkNames(Object.keys(options));
    });
  }
  const functions: HandlerFunctions = { tools: [], hooks: [] };
  const output = reading("output", () => readOutput(options.output));
  const data: string[] = output === undefined ? [] : [`"output":${objectJson(outputSpec(output), "output")}`];
  const tracing = reading("telemetry", () => readTelemetry(options.telemetry));
  if (tracing) data.push(`"telemetry":${objectJson(tracing.option(), "telemetry")}`);
  for (const [name, value] of Object.entries(options) as [string, unknown][]) {
    if (value === undefined || name === "output" || name === "telemetry") continue;
    const json = reading(name, () => valueJson(name, value, functions));
    if (json !== undefined) data.push(`${JSON.stringify(name)}:${json}`);
  }
  const callbacks = {
    onApproval: functions.approval !== undefined,
    onQuestion: functions.question !== undefined,
    onEvent: functions.event !== undefined,
    onStderr: functions.stderr !== undefined,
    onReadFile: functions.readFile !== undefined,
    onWriteFile: functions.writeFile !== undefined,
    onTerminal: functions.terminal !== undefined,
  };
  return { optionsJson: `{${data.join(",")}}`, callbacks, functions, output, tracing };
}

/** The JSON of the value of an option. Undefined for a handler, which is one of the functions then. */
function valueJson(name: string, value: unknown, functions: HandlerFunctions): string | undefined {
  const settings = settingsOf(name, value);
  if (settings !== undefined) return objectJson(settings, name);
  if (takeFunction(name, value, functions)) return undefined;
  if (HAVE_NO_JSON.has(typeof value)) callNative(() => loadNative().wrongType(name, show(value)));
  if (name !== "tools" && name !== "hooks") return optionJson(name, value);
  checkList(name, value);
  return Array.isArray(value) ? definitions(name, value, functions) : optionJson(name, value);
}

/** The output of a session. Each prompt has a check of its own, so that of the session is never called. */
function outputSpec({ spec, validator }: Output): JsonObject {
  return validator === undefined ? spec : { ...spec, check: 0 };
}

/** Takes a handler out of the options. Returns whether the value is one. */
function takeFunction(name: string, value: unknown, functions: HandlerFunctions): boolean {
  if (typeof value !== "function") return false;
  switch (name) {
    case "onApproval":
      functions.approval = value as ApprovalHandler;
      break;
    case "onQuestion":
      functions.question = value as QuestionHandler;
      break;
    case "onEvent":
      functions.event = value as NonNullable<SessionOptions["onEvent"]>;
      break;
    case "onStderr":
      functions.stderr = value as NonNullable<SessionOptions["onStderr"]>;
      break;
    case "onReadFile":
      functions.readFile = value as ReadFileHandler;
      break;
    case "onWriteFile":
      functions.writeFile = value as WriteFileHandler;
      break;
    case "onTerminal":
      functions.terminal = value as TerminalHandler;
      break;
    default:
      return false;
  }
  checkParameters(name, value, "the function");
  return true;
}

/** Refuses a single tool or hook; the core refuses other values that are not lists. */
function checkList(name: "tools" | "hooks", value: unknown): void {
  if (typeof value !== "object" || value === null || !("handler" in value)) return;
  throw wrongOption(name, `expected a list of ${name}, got an object; put it into a list: \`${name}: […]\``);
}

/** Takes the handlers of tools or hooks out of the options. Returns the JSON of the rest. */
function definitions(name: "tools" | "hooks", items: readonly unknown[], functions: HandlerFunctions): string {
  const checked = items.map((item, at) => definition(name, item, `${name}[${String(at)}]`));
  if (name === "tools") functions.tools = checked as unknown as ExternalTool[];
  else functions.hooks = checked as unknown as HookDefinition[];
  return `[${checked.map(({ handler: _, ...rest }) => objectJson(rest, name)).join(",")}]`;
}

/** Refuses a handler with more parameters than the request and the context. */
function checkParameters(option: string, handler: object, what: string): void {
  const { length } = handler as { length: number };
  if (length <= 2) return;
  const reason = `${what} is called with two arguments, the request and a context, and takes ${String(length)}`;
  throw wrongOption(option, reason);
}

/** A tool or a hook. A tool that was written as a plain object may have a zod schema, too. */
function definition(option: string, item: unknown, place: string): JsonObject {
  if (option === "tools") checkDefinition(item, place);
  else checkHook(item, place);
  const given = item as JsonObject;
  const name = textOf(given["name"] ?? given["event"]);
  checkParameters(option, given["handler"] as object, `the handler of \`${name}\``);
  const { parameters, matcher } = given;
  if (option === "hooks" && isRegExp(matcher)) return { ...given, matcher: patternText(option, matcher) };
  if (option !== "tools" || !isStandardSchema(parameters)) return given;
  const handler = given["handler"] as (args: unknown, context: ToolContext) => unknown;
  return { ...makeTool({ ...(item as ExternalTool), parameters, handler }) };
}
