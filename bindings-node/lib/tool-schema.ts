/** Schemas of tools and of structured output: their types, and the conversion to the JSON Schema that the model gets. */

import { wrongOption } from "./arguments.js";
import type { InvalidOption } from "./errors.js";
import { nodeModule } from "./node.js";
import { errorText } from "./values.js";
import type { JsonObject } from "./wire.js";

/**
 * A JSON Schema, as an object: a literal, or a value of a library's type, such as `JSONSchema7` or a TypeBox schema.
 * Schemas of zod and other libraries with Standard Schema are not JSON Schemas: `tool()` and `output()` convert them.
 */
export type JsonSchema = AnyObject & {
  /** Absent: this is not a Standard Schema. */
  readonly "~standard"?: never;
  /** Absent: this is not a schema of zod. */
  readonly safeParse?: never;
};

/** Any object: `object` accepts values of interface types, and the index signature accepts literals. */
export type AnyObject = Readonly<Record<string, unknown>> | object;

/** The part of the Standard Schema interface that checks values. Schemas of zod, valibot, arktype and others have it. */
export interface StandardSchema<Input = unknown, Output = Input> {
  /** The interface that libraries of schemas share. */
  readonly "~standard": {
    /** The version of the interface. */
    readonly version: 1;
    /** The name of the library, for example `zod`. */
    readonly vendor: string;
    /** Checks a value. Returns the converted value, or the problems. */
    readonly validate: (value: unknown) => Checked<Output> | Promise<Checked<Output>>;
    /** The types of the schema, for TypeScript only. */
    readonly types?:
      | {
          /** The type of a value before the check. */
          readonly input: Input;
          /** The type of a value after the check. */
          readonly output: Output;
        }
      | undefined;
  };
}

type Checked<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** A problem of a value that a schema found. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The issue of a union in zod 4: `errors` has those of each branch, with places below the union's own one. */
type UnionIssue = SchemaIssue & { readonly code?: unknown; readonly errors?: readonly (readonly UnionIssue[])[] };

/**
 * Replaces the issue of a union, which says only that no branch fits, by the issues of the branch that fits best: one of the type of
 * the value, with the fewest wrong literals, which tell branches apart, and then with the fewest issues.
 */
export function explained(issues: readonly SchemaIssue[]): readonly SchemaIssue[] {
  return issues.flatMap((issue) => {
    const { code, errors: branches = [], path = [] } = issue as UnionIssue;
    if (code !== "invalid_union" || branches.length === 0) return [issue];
    const found = nearestBranches(branches).map((inner) => ({ ...inner, path: [...path, ...(inner.path ?? [])] }));
    return explained(found);
  });
}

/** The issues of the branches that fit best. Several ones are alternatives, so that issues of one place become one text. */
function nearestBranches(branches: readonly (readonly UnionIssue[])[]): readonly SchemaIssue[] {
  const tagsOf = (branch: readonly UnionIssue[]): UnionIssue[] => branch.filter(({ code, path }) => code === "invalid_value" && path?.length === 1);
  const ofType = branches.filter((branch) => !branch.some(({ code, path }) => code === "invalid_type" && path?.length === 0));
  const possible = ofType.length > 0 ? ofType : branches;
  const fewest = Math.min(...possible.map((branch) => tagsOf(branch).length));
  const similar = possible.filter((branch) => tagsOf(branch).length === fewest);
  const shortest = Math.min(...similar.map((branch) => branch.length));
  const nearest = fewest > 0 ? similar : similar.filter((branch) => branch.length === shortest);
  const [first = []] = nearest;
  if (nearest.length < 2) return first;
  const texts = new Map<string, SchemaIssue>();
  for (const issue of nearest.flatMap((branch) => (fewest > 0 ? tagsOf(branch) : branch))) {
    const place = (issue.path ?? []).map(String).join("/");
    const earlier = texts.get(place)?.message;
    if (earlier?.includes(issue.message)) continue;
    texts.set(place, earlier === undefined ? issue : { ...issue, message: `${earlier} or ${issue.message}` });
  }
  return [...texts.values()];
}

interface ConvertibleSchema {
  readonly "~standard": StandardSchema["~standard"] & {
    readonly jsonSchema?: { input(options: { target: string }): JsonObject };
  };
  readonly _zod?: unknown;
}

/** The JSON Schema of the parameters of the tool `name`. */
export function toolSchema(name: string, schema: StandardSchema): JsonSchema {
  let converted: JsonObject;
  try {
    converted = jsonSchemaOf(schema);
  } catch (error) {
    const reason = errorText(error);
    throw wrongSchema(name, `its parameters cannot become JSON Schema: ${reason}`, error);
  }
  if (converted["type"] !== "object") {
    const found = JSON.stringify(converted["type"]) as string | undefined;
    const problem = `its parameters must be an object schema, with one property for each argument; got type ${found ?? "unknown"}`;
    throw wrongSchema(name, problem);
  }
  return converted;
}

function wrongSchema(name: string, problem: string, cause?: unknown): InvalidOption {
  return wrongOption("tools", `tool \`${name}\`: ${problem}`, cause);
}

/** The JSON Schema of a Standard Schema, of draft 2020-12. Throws an `Error` with the reason if it has no conversion. */
export function jsonSchemaOf(schema: StandardSchema): JsonObject {
  const { $schema: _, ...rest } = convert(schema);
  return rest;
}

function convert(schema: ConvertibleSchema): JsonObject {
  const standard = schema["~standard"];
  // The model sends the schema's input: the values before defaults and transformations.
  if (standard.jsonSchema) return standard.jsonSchema.input({ target: "draft-2020-12" });
  if (schema._zod !== undefined) return convertEarlyZod4(schema);
  switch (standard.vendor) {
    case "zod":
      throw new Error('schemas of zod 3 have no conversion; use zod 4, or import from "zod/v4" in zod 3.25');
    case "valibot":
      throw new Error(
        'valibot schemas have no converter of their own; pass `toStandardJsonSchema(schema)` from "@valibot/to-json-schema"',
      );
    default:
      throw new Error(
        `${standard.vendor} offers none for this schema; use a release with Standard JSON Schema, or pass a JSON Schema`,
      );
  }
}

interface Zod4Core {
  toJSONSchema(schema: unknown, options: { io: "input"; metadata: object }): JsonObject;
}

/** Schemas of zod 4.0, 4.1 and `zod/v4` of 3.25 have no converter of their own; a function of the package converts them. */
function convertEarlyZod4(schema: object): JsonObject {
  // The program may have loaded zod as an ES module, whose registry of descriptions is not that of `require`.
  const metadata = {
    get: (each: { meta?: () => object | undefined }) => each.meta?.(),
    has: (each: { meta?: () => object | undefined }) => each.meta?.() !== undefined,
    _idmap: new Map(),
  };
  return zod4Core().toJSONSchema(schema, { io: "input", metadata });
}

function zod4Core(): Zod4Core {
  // Bundlers must not see this name: most programs need no zod, and zod 4.2 and later need no such function.
  const here = typeof __filename === "string" ? __filename : undefined;
  for (const base of [here, process.argv[1]]) {
    if (base === undefined) continue;
    try {
      return nodeModule.createRequire(base)("zod/v4/core") as Zod4Core;
    } catch {
      // In a bundle, this file is not where the package was.
    }
  }
  throw new Error("this release of zod has its converter in a module that cannot be found here; use zod 4.2 or later");
}

/** Returns the problem of a schema object of a library without Standard Schema. As JSON it would be meaningless. */
export function foreignSchema(parameters: object): string | undefined {
  if (isStandardSchema(parameters)) return undefined;
  const schema = parameters as Record<string, unknown>;
  const has = (method: string): boolean => typeof schema[method] === "function";
  if (has("safeParse") && "_def" in schema) {
    const upgrade = 'install zod 4, or with zod 3.25 import `z` from "zod/v4"';
    return `a schema of zod 3.23 or older, which has no JSON Schema; ${upgrade}`;
  }
  const shape = Object.keys(schema).find((key) => isStandardSchema(schema[key]) || isZod3(schema[key]));
  if (shape !== undefined) {
    const wrap = "wrap it in z.object({…})";
    return `a plain object with a schema in \`${shape}\`, not a schema; ${wrap}`;
  }
  if (has("safeParse") || has("validate") || has("parse")) {
    const accepted = "a zod 4 schema, another Standard Schema with a JSON Schema converter, or a plain JSON Schema";
    return `a schema object of an unknown library; expected ${accepted}`;
  }
  return undefined;
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
