/** Structured output: the value that a turn must return, its schema, and the check of its values. */

import { kindOf, reading, show, wrongOption } from "./arguments.js";
import { atCaller } from "./call-site.js";
import type { InvalidOption } from "./errors.js";
import {
  explained,
  foreignSchema,
  isStandardSchema,
  type JsonSchema,
  jsonSchemaOf,
  type SchemaIssue,
  type StandardSchema,
} from "./tool-schema.js";
import { errorText, isPlain } from "./values.js";
import type { JsonObject } from "./wire.js";

/** The details of structured output, for {@link output}. */
export interface OutputOptions {
  /** The name of the tool that takes the value: at most 64 letters, digits, `_` and `-`. Default: `"final_result"`. */
  name?: string | undefined;
  /** The description of the value. The model reads this. Default: none. */
  description?: string | undefined;
  /**
   * How the model returns the value: `"tool"`, it calls a tool of the SDK; `"text"`, it answers with JSON; `"auto"`, the tool
   * if the agent takes tools and the output is one of a session or of the one-shot `prompt()`, else the text. Default: `"auto"`.
   */
  mode?: "auto" | "tool" | "text" | undefined;
  /** How many invalid or missing values the SDK returns to the model. Default: 2. */
  retries?: number | undefined;
}

/** A violation in a value of structured output. */
export interface OutputError {
  /** The place in the value, as a JSON Pointer, for example `/lines/0/total`. Empty for the value itself. */
  readonly pointer: string;
  /** The violation, for the model and for people. */
  readonly message: string;
}

/**
 * A type for structured output: a schema of zod, another Standard Schema that can be converted to JSON Schema, a JSON
 * Schema, or the result of {@link output}.
 */
export type OutputSchema = StandardSchema | JsonSchema | Output;

/** The type of the value of an {@link OutputSchema}. A plain JSON Schema has no type: the value is `unknown`. */
export type OutputOf<S> = S extends undefined
  ? undefined
  : S extends Output<infer Value>
    ? Value
    : S extends StandardSchema
      ? NonNullable<S["~standard"]["types"]>["output"]
      : unknown;

/** The type of the value of a prompt: of its own `output`, or without one of the session's. */
export type OutputOfPrompt<S, SessionValue> = [S] extends [undefined] ? SessionValue : OutputOf<S>;

/**
 * The value that a turn must return, with its details. {@link output} makes it.
 *
 * @example
 * ```ts
 * const files: Output<string[]> = output(z.array(z.string()), { description: "The paths of the files." });
 * const { output: paths } = (await session.prompt("Which files have no tests?", { output: files }).result()).raiseForStatus();
 * console.log(paths.length);
 * ```
 */
export class Output<Value = unknown> {
  /** The type of the value, for TypeScript only. */
  declare protected readonly value: Value;
  /** @internal */
  readonly spec: JsonObject;
  /** @internal */
  readonly validator: StandardSchema | undefined;

  /** @internal */
  constructor(spec: JsonObject, validator: StandardSchema | undefined) {
    this.spec = spec;
    this.validator = validator;
  }
}

/**
 * Makes structured output from a zod schema, or from another Standard Schema that can be converted to JSON Schema. The
 * value has the schema's type: defaults and transformations are applied. If the schema refuses a value, the model gets
 * every problem and its place.
 *
 * @param schema - The schema.
 * @param options - The name, the description, the mode and the retries. Default: none.
 * @returns The output, for the option `output`.
 * @throws {InvalidOption} if the schema cannot be converted, or if an option is unknown.
 *
 * @example
 * ```ts
 * const review = output(z.object({ approved: z.boolean() }), { name: "submit_review", retries: 5 });
 * const result = await prompt("Review the last commit", { output: review }).result();
 * console.log(result.output?.approved);
 * ```
 */
export function output<S extends StandardSchema>(schema: S, options?: OutputOptions): Output<OutputOf<S>>;

/**
 * Makes structured output from a JSON Schema, and a Standard Schema that checks and converts the values. This is for
 * libraries that have no conversion to JSON Schema, such as zod 3.
 *
 * @param schema - The JSON Schema, of draft 2020-12, or of draft 7 if `$schema` says so.
 * @param options - `validate` is the Standard Schema; with the name, the description, the mode and the retries.
 * @returns The output, for the option `output`.
 * @throws {InvalidOption} if an option is unknown, or if `validate` is not a Standard Schema.
 *
 * @example
 * ```ts
 * const even = z.int().refine((n) => n % 2 === 0, "expected an even number");
 * const result = await session.prompt("Choose", { output: output({ type: "integer" }, { validate: even }) }).result();
 * console.log(result.output);
 * ```
 */
export function output<S extends StandardSchema>(
  schema: JsonSchema,
  options: OutputOptions & { validate: S },
): Output<OutputOf<S>>;

/**
 * Makes structured output from a JSON Schema. `Value` is the type that you expect.
 *
 * @param schema - The JSON Schema, of draft 2020-12, or of draft 7 if `$schema` says so.
 * @param options - The name, the description, the mode and the retries. Default: none.
 * @returns The output, for the option `output`.
 * @throws {InvalidOption} if an option is unknown. A wrong schema fails where the output is used.
 *
 * @example
 * ```ts
 * const names = output<string[]>({ type: "array", items: { type: "string" } });
 * const result = await session.prompt("Which functions have no tests?", { output: names }).result();
 * for (const name of result.raiseForStatus().output) console.log(name);
 * ```
 */
export function output<Value = unknown>(schema: JsonSchema, options?: OutputOptions): Output<Value>;

export function output(
  schema: StandardSchema | JsonSchema,
  options: OutputOptions & { validate?: StandardSchema } = {},
): Output {
  return atCaller(output, () => reading("output", () => makeOutput(schema, options)));
}

function makeOutput(schema: StandardSchema | JsonSchema, options: OutputOptions & { validate?: StandardSchema } = {}): Output {
  checkOptions(options);
  const given: unknown = schema;
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    if (!isStandardSchema(given)) throw wrong(`\`output()\` expects a zod schema or a JSON Schema; got ${show(given)}`);
  }
  const { validate, ...details } = options;
  if (!isStandardSchema(schema)) {
    checkJsonSchema(schema);
    return new Output({ ...details, schema }, validate);
  }
  if (validate !== undefined) throw wrong("`validate` is for a JSON Schema; this schema checks its values itself");
  return new Output({ ...details, schema: converted(schema) }, schema);
}

/** The output of an option: undefined if the option is not set. */
export function readOutput(given: unknown): Output | undefined {
  if (given === undefined || given === null) return undefined;
  if (given instanceof Output) return given;
  if (!isStandardSchema(given) && (typeof given !== "object" || Array.isArray(given))) {
    throw wrong(`expected a zod schema, a JSON Schema, or \`output(schema, { name })\`; got ${show(given)}`);
  }
  return makeOutput(given);
}

const KEYS = ["name", "description", "mode", "retries", "validate"];

function checkOptions(given: unknown): void {
  if (typeof given !== "object" || given === null || Array.isArray(given) || !isPlain(given)) {
    throw wrong(`\`output()\` expects an object of options, such as { name: "submit_review" }; got ${show(given)}`);
  }
  const unknown = Object.keys(given).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) throw wrong(`\`output()\` has no option \`${unknown}\`; it has ${KEYS.join(", ")}`);
  const { validate } = given as { validate?: unknown };
  if (validate === undefined || isStandardSchema(validate)) return;
  throw wrong(`\`validate\` must be a Standard Schema, such as a zod schema; got ${kindOf(validate)}`);
}

/** Refuses schema objects of libraries. The core checks JSON Schemas. */
function checkJsonSchema(schema: unknown): void {
  if (schema instanceof Output) throw wrong("this is the result of `output()` already; set all details in one call");
  if (typeof schema !== "object" || schema === null) return;
  const { schema: inner } = schema as { schema?: unknown };
  if (isStandardSchema(inner)) throw wrong("this is an object with a `schema`, not a schema; write `output(schema, { name })`");
  const problem = foreignSchema(schema);
  if (problem !== undefined) throw wrong(`the schema is ${problem}`);
}

/** The JSON Schema of a schema that checks its values itself. */
function converted(schema: StandardSchema): JsonObject {
  try {
    return jsonSchemaOf(schema);
  } catch (error) {
    const reason = errorText(error);
    const remedy = "or write `output(jsonSchema, { validate: schema })`";
    throw wrong(`the schema cannot become JSON Schema: ${reason}; ${remedy}`, error);
  }
}

function wrong(problem: string, cause?: unknown): InvalidOption {
  return wrongOption("output", problem, cause);
}

/** Checks the values of one turn with its Standard Schema, and keeps what the schema makes of them. */
export class OutputCheck {
  readonly #schema: StandardSchema;
  readonly #keepsValues: boolean;
  /** The converted values, by the JSON of the value. */
  readonly #converted = new Map<string, unknown>();
  /** The last error that the schema threw, which is a defect of the program. */
  thrown: unknown;

  /**
   * Makes the check. If it does not keep converted values, only {@link OutputCheck.parse} returns them: a batch has any
   * number of them.
   */
  constructor(schema: StandardSchema, keepsValues = true) {
    this.#schema = schema;
    this.#keepsValues = keepsValues;
  }

  /** The violations of a value; null if it is valid. */
  async check(value: unknown): Promise<OutputError[] | null> {
    // Before the check, which may change the value.
    const json = JSON.stringify(value);
    const checked = await Promise.resolve(value)
      .then((given) => this.#schema["~standard"].validate(given))
      .catch((error: unknown) => {
        this.thrown = error;
        throw error;
      });
    if (checked.issues) return explained(checked.issues).map(violation);
    if (this.#keepsValues) this.#converted.set(json, checked.value);
    return null;
  }

  /** Returns the value as the schema converts it. Throws if it is invalid. */
  async parse(value: unknown): Promise<unknown> {
    const checked = await this.#schema["~standard"].validate(value);
    if (checked.issues) throw new Error(explained(checked.issues).map(({ message }) => message).join("; "));
    return checked.value;
  }

  /** The value of the turn as the schema converted it. */
  converted(value: unknown): unknown {
    return value === undefined ? undefined : this.#converted.get(JSON.stringify(value));
  }
}

function violation({ path = [], message }: SchemaIssue): OutputError {
  const steps = path.map((step) => String(typeof step === "object" ? step.key : step));
  return { pointer: steps.map((step) => `/${step.replaceAll("~", "~0").replaceAll("/", "~1")}`).join(""), message };
}
