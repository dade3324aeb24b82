/** Tools of the program that the model can call. */

import { kindOf, show, wrongOption } from "./arguments.js";
import type { InvalidOption } from "./errors.js";
import type { HandlerContext } from "./options.js";
import type { Content, DisplayBlock, JsonObject } from "./wire.js";
import { toolSchema } from "./tool-schema.js";

/**
 * A JSON Schema, as an object: a literal, or a value of a library's type, such as `JSONSchema7` or a TypeBox schema.
 * Schemas of zod and other libraries with Standard Schema are not JSON Schemas: {@link tool} converts them.
 */
export type JsonSchema = AnyObject & { readonly "~standard"?: never; readonly safeParse?: never };

/** Any object: `object` accepts values of interface types, and the index signature accepts literals. */
export type AnyObject = Readonly<Record<string, unknown>> | object;

/** The part of the Standard Schema interface that checks arguments. Schemas of zod, valibot, arktype and others have it. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Checked<Output> | Promise<Checked<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type Checked<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

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
  /** What the tool does and when to use it. The model reads this. */
  description: string;
  /** The JSON Schema of the arguments. */
  parameters: JsonSchema;
  /**
   * Runs the tool. It returns text, a {@link ToolOutcome} (or a `ToolReturnValue`), or a value that becomes JSON. If it
   * throws, the model gets the error's text, and the turn continues.
   *
   * @param args - The arguments as the model sent them. Only a tool made by {@link tool} with a schema checks them.
   */
  handler(args: JsonObject, context: HandlerContext): unknown;
  /** How long the handler may take, in milliseconds. Default: no limit. */
  timeout?: number | undefined;
}

/** The fields of a tool besides the parameters and the handler. */
export type ToolDescription = Pick<ExternalTool, "name" | "description" | "timeout">;

/**
 * Makes a tool from a zod schema, or from another Standard Schema that can be converted to JSON Schema. The handler's
 * arguments have the schema's type and are checked before the handler is called. If they are invalid, the model is told
 * every problem and its place.
 *
 * @param definition - The tool. `parameters` is the schema of an object with one property for each argument.
 * @throws {@link InvalidOption} if the definition is incomplete, has an unknown key, or its schema cannot be converted.
 *
 * @example
 * ```ts
 * const add = tool({
 *   name: "add",
 *   description: "Adds two numbers.",
 *   parameters: z.object({ a: z.number(), b: z.number() }),
 *   handler: ({ a, b }) => String(a + b),
 * });
 * ```
 */
export function tool<S extends StandardSchema>(
  definition: ToolDescription & {
    parameters: S;
    handler: (args: ToolArguments<S>, context: HandlerContext) => unknown;
  },
): ExternalTool;

/**
 * Makes a tool from a JSON Schema. The arguments are parsed, but not checked against the schema; `Args` is the type that
 * you expect.
 *
 * @param definition - The tool. `parameters` is a JSON Schema of type `object`.
 * @throws {@link InvalidOption} if the definition is incomplete or has an unknown key.
 */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the caller says what is expected
export function tool<Args = JsonObject>(
  definition: ToolDescription & { parameters: JsonSchema; handler: (args: Args, context: HandlerContext) => unknown },
): ExternalTool;

export function tool(
  definition: ToolDescription & {
    parameters: JsonSchema | StandardSchema;
    handler: (args: never, context: HandlerContext) => unknown;
  },
): ExternalTool {
  checkDefinition(definition);
  const { name, description, timeout, parameters } = definition;
  const described = { name, description, ...(timeout !== undefined && { timeout }) };
  const handler: ExternalTool["handler"] = (args, context) => definition.handler(args as never, context);
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

/** Checks the keys of a tool, and the type of each value. */
export function checkDefinition(given: unknown): void {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw wrongTool(`expected an object with ${KEYS.slice(0, 4).join(", ")}; got ${kindOf(given)}`);
  }
  const definition = given as Record<string, unknown>;
  const { name, description, parameters, handler, timeout } = definition;
  const what = typeof name === "string" && name !== "" ? `tool \`${name}\`` : "a tool";
  const unknown = Object.keys(definition).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) {
    const meant = FOREIGN_KEYS[unknown];
    const hint = meant === undefined ? `expected only ${KEYS.join(", ")}` : `did you mean \`${meant}\`?`;
    throw wrongTool(`${what} has an unknown key \`${unknown}\`; ${hint}`);
  }
  if (typeof name !== "string" || !/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
    throw wrongTool(`a tool's \`name\` must have 1 to 64 letters, digits, \`_\` and \`-\`; got ${show(name)}`);
  }
  if (typeof description !== "string") {
    throw wrongTool(`${what} needs a \`description\`, a text that the model reads; got ${kindOf(description)}`);
  }
  if (!isStandardSchema(parameters) && (typeof parameters !== "object" || parameters === null || Array.isArray(parameters))) {
    const none = 'for a tool without arguments, write `parameters: { type: "object", properties: {} }`';
    throw wrongTool(`${what} needs \`parameters\`, a zod schema or a JSON Schema; got ${kindOf(parameters)}; ${none}`);
  }
  refuseOtherSchemas(what, parameters);
  if (typeof handler !== "function") {
    throw wrongTool(`${what} needs a \`handler\`, the function to call; got ${kindOf(handler)}`);
  }
  if (timeout !== undefined && timeout !== null && (typeof timeout !== "number" || !(timeout > 0))) {
    throw wrongTool(`the \`timeout\` of ${what} must be a number of milliseconds above 0; got ${show(timeout)}`);
  }
}

/** Refuses schema objects of libraries without Standard Schema: as JSON they would be meaningless. */
function refuseOtherSchemas(what: string, parameters: object): void {
  if (isStandardSchema(parameters)) return;
  const schema = parameters as Record<string, unknown>;
  const has = (method: string): boolean => typeof schema[method] === "function";
  if (has("safeParse") && "_def" in schema) {
    const upgrade = 'install zod 4, or with zod 3.25 import `z` from "zod/v4"';
    throw wrongTool(`the parameters of ${what} are a schema of zod 3.23 or older, which has no JSON Schema; ${upgrade}`);
  }
  const shape = Object.keys(schema).find((key) => isStandardSchema(schema[key]) || isZod3(schema[key]));
  if (shape !== undefined) {
    const wrap = "wrap it in z.object({…})";
    throw wrongTool(`the parameters of ${what} are a plain object with a schema in \`${shape}\`, not a schema; ${wrap}`);
  }
  if (has("safeParse") || has("validate") || has("parse")) {
    const accepted = "a zod 4 schema, another Standard Schema with a JSON Schema converter, or a plain JSON Schema";
    throw wrongTool(`the parameters of ${what} are a schema object of an unknown library; expected ${accepted}`);
  }
}

/** Whether a value is a schema of a zod that has no Standard Schema. */
function isZod3(value: unknown): boolean {
  return typeof value === "object" && value !== null && "_def" in value && "safeParse" in value;
}

/** Whether a value is a Standard Schema, as zod's are. */
export function isStandardSchema(value: unknown): value is StandardSchema {
  // Some libraries' schemas are functions.
  return value !== null && (typeof value === "object" || typeof value === "function") && "~standard" in value;
}

function describe(issues: readonly SchemaIssue[]): string {
  const each = issues.map(({ path = [], message }) => {
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
