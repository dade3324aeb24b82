/** Tools of the program that the model can call. */

import { kindOf, reading, show, wrongOption } from "./arguments.js";
import { atCaller } from "./call-site.js";
import type { InvalidOption } from "./errors.js";
import type { ToolContext } from "./handler-types.js";
import {
  type AnyObject,
  explained,
  foreignSchema,
  isStandardSchema,
  type JsonSchema,
  type SchemaIssue,
  type StandardSchema,
  toolSchema,
} from "./tool-schema.js";
import { isLossy } from "./values.js";
import type { Content, DisplayBlock, JsonObject } from "./wire.js";

/** The type of a handler's arguments: the output of its schema. */
export type ToolArguments<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["output"];

/** A tool's complete result. Omitted fields are empty. */
export interface ToolOutcome {
  /** Whether the call failed. */
  is_error: boolean;
  /** The output, for the model. */
  output: Content;
  /** A note on the result, for the model. */
  message?: string | undefined;
  /** Blocks for display. */
  display?: readonly DisplayBlock[] | undefined;
  /** Further fields. */
  extras?: AnyObject | undefined;
}

/** A function of this program that the model can call. */
export interface ExternalTool {
  /** The tool's name: at most 64 letters, digits, `_` and `-`. No other tool of the agent may have it. */
  name: string;
  /** The purpose of the tool and when to use it. The model reads this. */
  description: string;
  /** The JSON Schema of the arguments. */
  parameters: JsonSchema;
  /**
   * Runs the tool. It returns text, a {@link ToolOutcome} (or a `ToolReturnValue`), or a value that becomes JSON. If it
   * throws, the model gets the error's text, and the turn continues.
   *
   * @param args - The arguments as the model sent them. Only a tool made by {@link tool} with a schema checks them.
   * @param context - The ID of the call, its progress, and the signal that is aborted when the result is not needed any more.
   * @returns The result, or a promise of it.
   */
  handler(args: JsonObject, context: ToolContext): unknown;
  /** How long the handler may take, in milliseconds. Default: no limit. */
  timeout?: number | undefined;
}

/** The fields of a tool besides the parameters and the handler. */
export type ToolDescription = Pick<ExternalTool, "name" | "description" | "timeout">;

/** The definition of a tool, for {@link tool}. `Args` is the type of the handler's arguments. */
export type ToolDefinition<Args = JsonObject> = ToolDescription & {
  /** A schema of zod or another Standard Schema, which checks the arguments, or a JSON Schema, which does not. */
  parameters: JsonSchema | StandardSchema<unknown, Args>;
  /** Runs the tool, as {@link ExternalTool.handler} does. */
  handler: (args: Args, context: ToolContext) => unknown;
};

/**
 * Makes a tool from a schema of its arguments, an object with one property for each argument.
 *
 * With a zod schema, or another Standard Schema that can be converted to JSON Schema, the handler's arguments have the
 * schema's type and are checked before the handler is called. If they are invalid, the model is told every problem and its
 * place. With a JSON Schema the arguments are parsed, but not checked; `Args` is the type that you expect.
 *
 * @param definition - The tool. `timeout`, in milliseconds, limits the handler. Default: no limit.
 * @returns The tool, for the option `tools`.
 * @throws {InvalidOption} if the definition is incomplete, has an unknown key, or its schema cannot be converted.
 *
 * @example
 * ```ts
 * const add = tool({
 *   name: "add",
 *   description: "Adds two numbers.",
 *   parameters: z.object({ a: z.number(), b: z.number() }),
 *   handler: ({ a, b }) => String(a + b),
 * });
 * const now = tool({
 *   name: "now",
 *   description: "Returns the current time.",
 *   parameters: { type: "object", properties: {} },
 *   handler: () => new Date().toISOString(),
 * });
 * const session = await createSession({ tools: [add, now] });
 * ```
 */
export function tool<Args = JsonObject>(definition: ToolDefinition<Args>): ExternalTool {
  return atCaller(tool, () => reading("tools", () => makeTool(definition)));
}

/** Makes a tool, for {@link tool} and for plain objects among the options. */
export function makeTool<Args>(definition: ToolDefinition<Args>): ExternalTool {
  checkDefinition(definition);
  const { name, description, timeout, parameters } = definition;
  const described = { name, description, ...(timeout !== undefined && { timeout }) };
  const handler: ExternalTool["handler"] = (args, context) => definition.handler(args as Args, context);
  if (!isStandardSchema(parameters)) return { ...described, parameters, handler };
  return {
    ...described,
    parameters: toolSchema(name, parameters),
    async handler(args, context) {
      const checked = await parameters["~standard"].validate(args);
      if (checked.issues) {
        // A mistake of the model, which reads the message and tries again; no handler has failed.
        return { is_error: true, output: "", message: `invalid arguments: ${describe(checked.issues)}`, display: [] };
      }
      return handler(checked.value as JsonObject, context);
    },
  };
}

function wrongTool(problem: string): InvalidOption {
  return wrongOption("tools", problem);
}

const KEYS = ["name", "description", "parameters", "handler", "timeout"];

/** Keys that other SDKs use, and their names here. */
const FOREIGN_KEYS: Partial<Record<string, string>> = {
  execute: "handler",
  run: "handler",
  func: "handler",
  function: "handler",
  callback: "handler",
  invoke: "handler",
  inputSchema: "parameters",
  input_schema: "parameters",
  schema: "parameters",
  args: "parameters",
};

/** Checks the keys of a tool, and the type of each value. `place` is the place in a list. */
export function checkDefinition(given: unknown, place?: string): void {
  if (typeof given !== "object" || given === null || Array.isArray(given) || isLossy(given)) {
    const remedy = typeof given === "function" ? "; make it with `tool({ …, handler })`" : "";
    throw wrongTool(`${place === undefined ? "" : `${place}: `}expected an object with ${KEYS.slice(0, 4).join(", ")}; got ${kindOf(given)}${remedy}`);
  }
  const definition = given as Record<string, unknown>;
  const { name, description, parameters, handler, timeout } = definition;
  const what = typeof name === "string" && name !== "" ? `tool \`${name}\`` : (place ?? "a tool");
  const unknown = Object.keys(definition).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) {
    const meant = FOREIGN_KEYS[unknown];
    const hint = meant === undefined ? `expected only ${KEYS.join(", ")}` : `did you mean \`${meant}\`?`;
    throw wrongTool(`${what} has an unknown key \`${unknown}\`; ${hint}`);
  }
  if (typeof name !== "string" || !/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
    throw wrongTool(`the \`name\` of ${place ?? "a tool"} must have 1 to 64 letters, digits, \`_\` and \`-\`; got ${show(name)}`);
  }
  if (typeof description !== "string") {
    throw wrongTool(`${what} needs a \`description\`, a text that the model reads; got ${kindOf(description)}`);
  }
  if (!isStandardSchema(parameters) && (typeof parameters !== "object" || parameters === null || Array.isArray(parameters))) {
    const none = 'for a tool without arguments, write `parameters: { type: "object", properties: {} }`';
    throw wrongTool(`${what} needs \`parameters\`, a zod schema or a JSON Schema; got ${kindOf(parameters)}; ${none}`);
  }
  const problem = foreignSchema(parameters);
  if (problem !== undefined) throw wrongTool(`the parameters of ${what} are ${problem}`);
  if (typeof handler !== "function") {
    throw wrongTool(`${what} needs a \`handler\`, the function to call; got ${kindOf(handler)}`);
  }
  if (timeout !== undefined && timeout !== null && (typeof timeout !== "number" || !(timeout > 0))) {
    throw wrongTool(`the \`timeout\` of ${what} must be a number of milliseconds above 0; got ${show(timeout)}`);
  }
}

function describe(issues: readonly SchemaIssue[]): string {
  const each = explained(issues).map(({ path = [], message }) => {
    const steps = path.map((step) => (typeof step === "object" ? step.key : step));
    return steps.length > 0 ? `${pathText(steps)}: ${message}` : message;
  });
  return each.join("; ");
}

function pathText(steps: readonly PropertyKey[]): string {
  return steps
    .map((step, index) => (typeof step === "number" ? `[${String(step)}]` : `${index > 0 ? "." : ""}${String(step)}`))
    .join("");
}
