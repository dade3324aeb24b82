// Requires complete documentation of the names that the package exports.
import { readFileSync } from "node:fs";

import jsdoc from "eslint-plugin-jsdoc";

const entries = ["index", "testing"].map((name) => readFileSync(new URL(`lib/${name}.ts`, import.meta.url), "utf8"));
const lists = entries.flatMap((text) => [...text.matchAll(/^export (?:type )?{([^}]*)}/gm)].map(([, list]) => list));
const names = lists.flatMap((list) => [...list.matchAll(/(\w+)\s*(?:,|$)/g)].map(([, name]) => name));
const isPublic = `[id.name=/^(?:${[...names, "scriptedAgent"].join("|")})$/]`;
const ofClass = `ClassDeclaration${isPublic} > ClassBody >`;
const ofType = `:matches(TSInterfaceDeclaration, TSTypeAliasDeclaration)${isPublic}`;

const functions = [`:matches(FunctionDeclaration, TSDeclareFunction)${isPublic}`];
// The body after the signatures of an overloaded method is not public.
const body = 'MethodDefinition[value.type="TSEmptyBodyFunctionExpression"] + MethodDefinition[value.type="FunctionExpression"]';
const methods = [`${ofClass} MethodDefinition[kind!="get"][key.type!="PrivateIdentifier"][accessibility!="private"]:not(${body})`];
const calls = [...functions, ...methods, `${ofType} TSMethodSignature`];
const items = [
  ...calls,
  `ClassDeclaration${isPublic}`,
  `${ofClass} :matches(MethodDefinition[kind="get"], PropertyDefinition[override!=true][key.type!="PrivateIdentifier"])`,
  ofType,
  `${ofType} TSPropertySignature`,
];
// Constructors are shown with their class. Loops and `using` call `throw()` and the methods whose names are symbols.
const examples = [
  ...functions,
  `ClassDeclaration${isPublic}`,
  ...methods.map((each) => `${each}[kind="method"][computed=false][key.name!="throw"]`),
];

export default {
  files: ["lib/*.ts"],
  ignores: ["lib/addon.ts"],
  plugins: { jsdoc },
  settings: { jsdoc: { ignoreInternal: true, mode: "typescript" } },
  rules: {
    "jsdoc/require-jsdoc": ["error", { contexts: items, require: { FunctionDeclaration: false } }],
    "jsdoc/require-description": ["error", { contexts: items }],
    "jsdoc/require-param": ["error", { contexts: calls, checkDestructured: false }],
    "jsdoc/require-param-description": ["error", { contexts: calls }],
    "jsdoc/check-param-names": ["error", { checkDestructured: false }],
    "jsdoc/require-returns": ["error", { contexts: calls }],
    "jsdoc/require-returns-description": ["error", { contexts: calls }],
    "jsdoc/require-throws": ["error", { contexts: calls }],
    "jsdoc/require-example": ["error", { contexts: examples }],
  },
};
