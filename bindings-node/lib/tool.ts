/** Tools of the program's own, from a description and a function. */

import { InvalidOption } from "./errors.js";
import type { HandlerContext } from "./options.js";
import type { Content, DisplayBlock, JsonObject } from "./wire.js";

/** A JSON Schema, as an object. */
export type JsonSchema = JsonObject;

/** The part of Standard Schema that is needed to check arguments; zod, valibot, arktype and others have it. */
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

/** What a handler gets for arguments: the type that comes out of its schema. */
export type ToolArguments<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["output"];

/** A tool's outcome in full. What is left out is empty. */
export interface ToolOutcome {
  /** Whether it failed. */
  is_error: boolean;
  /** What the model gets to read. */
  output: Content;
  /** A note on it for the model. */
  message?: string;
  /** Blocks for display. */
  display?: DisplayBlock[];
  /** More about it. */
  extras?: JsonObject;
}

/** A function of this program that the model can call. */
export interface ExternalTool {
  /** Its name, which no other tool of the agent has. */
  name: string;
  /** What it does and when to use it, for the model to read. */
  description: string;
  /** What arguments it takes. */
  parameters: JsonSchema;
  /**
   * Runs it. Text is given to the model as it is, a {@link ToolOutcome} (or a `ToolReturnValue`) says all by
   * itself, anything else becomes JSON. An error that it throws is told to the model, and the turn goes on.
   *
   * The arguments are as the model sent them, unless the tool was made by {@link tool} with a schema that checks.
   */
  handler(args: JsonObject, context: HandlerContext): unknown;
  /** For the handler, in milliseconds. Unlimited unless set. */
  timeout?: number | undefined;
}

interface Described {
  name: string;
  description: string;
  timeout?: number | undefined;
}

/**
 * Makes a tool from a zod schema (or another Standard Schema that can become JSON Schema). The handler's arguments are
 * typed by the schema and checked before it is called; the model is told what is wrong with them, and where.
 */
export function tool<S extends StandardSchema>(
  definition: Described & { parameters: S; handler: (args: ToolArguments<S>, context: HandlerContext) => unknown },
): ExternalTool;

/**
 * Makes a tool from a JSON Schema. The arguments come as the model sent them, parsed but not checked; `Args` is what
 * you expect.
 */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the caller says what is expected
export function tool<Args = JsonObject>(
  definition: Described & { parameters: JsonSchema; handler: (args: Args, context: HandlerContext) => unknown },
): ExternalTool;

export function tool(
  definition: Described & {
    parameters: JsonSchema | StandardSchema;
    handler: (args: never, context: HandlerContext) => unknown;
  },
): ExternalTool {
  const { name, description, timeout, parameters } = definition;
  const described = { name, description, ...(timeout !== undefined && { timeout }) };
  const handler: ExternalTool["handler"] = (args, context) => definition.handler(args as never, context);
  if (!isStandardSchema(parameters)) return { ...described, parameters, handler };
  return {
    ...described,
    parameters: toJsonSchema(name, parameters),
    async handler(args, context) {
      const checked = await parameters["~standard"].validate(args);
      if (checked.issues) throw new TypeError(`invalid arguments: ${describe(checked.issues)}`);
      return handler(checked.value as JsonObject, context);
    },
  };
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

interface ConvertibleSchema {
  readonly "~standard": StandardSchema["~standard"] & {
    readonly jsonSchema?: { input(options: { target: string }): JsonObject };
  };
  readonly _zod?: unknown;
}

function toJsonSchema(name: string, schema: StandardSchema): JsonSchema {
  let converted: JsonObject;
  try {
    converted = convert(schema);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new InvalidOption("tools", `tool \`${name}\`: its parameters cannot become JSON Schema: ${reason}`, {
      cause: error,
    });
  }
  if (converted["type"] !== "object") {
    throw new InvalidOption("tools", `tool \`${name}\`: its parameters must be an object, with a property each`);
  }
  const { $schema: _, ...rest } = converted;
  return rest;
}

function convert(schema: ConvertibleSchema): JsonObject {
  const standard = schema["~standard"];
  // What the model sends is the schema's input: before defaults and transformations.
  if (standard.jsonSchema) return standard.jsonSchema.input({ target: "draft-2020-12" });
  if (schema._zod !== undefined) {
    // zod before 4.2 keeps the conversion in a function of its own; only a program that uses zod comes here.
    // eslint-disable-next-line @typescript-eslint/no-require-imports -- it must not be loaded by anybody else
    const zod = require("zod/v4/core") as { toJSONSchema(schema: unknown, options: { io: "input" }): JsonObject };
    return zod.toJSONSchema(schema, { io: "input" });
  }
  if (standard.vendor === "zod") {
    throw new Error('schemas of zod 3 have no conversion; use zod 4, or import from "zod/v4" in zod 3.25');
  }
  throw new Error(`${standard.vendor} offers none for this schema`);
}
