/** Converts a tool's Standard Schema to the JSON Schema that the model gets. */

import { wrongOption } from "./arguments.js";
import type { InvalidOption } from "./errors.js";
import { nodeModule } from "./node.js";
import type { JsonSchema, StandardSchema } from "./tool.js";
import type { JsonObject } from "./wire.js";

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
    converted = convert(schema);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw wrongSchema(name, `its parameters cannot become JSON Schema: ${reason}`, error);
  }
  if (converted["type"] !== "object") {
    const found = JSON.stringify(converted["type"]) as string | undefined;
    const problem = `its parameters must be an object schema, with one property for each argument; got type ${found ?? "unknown"}`;
    throw wrongSchema(name, problem);
  }
  const { $schema: _, ...rest } = converted;
  return rest;
}

function wrongSchema(name: string, problem: string, cause?: unknown): InvalidOption {
  return wrongOption("tools", `tool \`${name}\`: ${problem}`, cause);
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
