import eslint from "@eslint/js";
import { defineConfig } from "eslint/config";
import globals from "globals";
import tseslint from "typescript-eslint";

/** Elements with the markup of a text; the text of recordings must stay text. */
const MARKUP = [
  "dangerouslySetInnerHTML",
  "innerHTML",
  "outerHTML",
  "insertAdjacentHTML",
  "srcdoc",
  "srcDoc",
  "createContextualFragment",
];

export default defineConfig(
  { ignores: ["dist/"] },
  eslint.configs.recommended,
  {
    files: ["**/*.ts", "**/*.tsx"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Members of JSON are read by name: TypeScript allows no other form for them.
      "@typescript-eslint/dot-notation": "off",
      "@typescript-eslint/no-unused-vars": ["error", { varsIgnorePattern: "^_", argsIgnorePattern: "^_" }],
      "@typescript-eslint/no-floating-promises": [
        "error",
        { allowForKnownSafeCalls: [{ from: "package", package: "node:test", name: ["test", "before", "after"] }] },
      ],
      // Control characters are what some expressions look for.
      "no-control-regex": "off",
      "no-eval": "error",
      "no-restricted-syntax": [
        "error",
        ...MARKUP.flatMap((name) => [`JSXAttribute[name.name="${name}"]`, `MemberExpression[property.name="${name}"]`]),
      ],
    },
  },
  {
    files: ["**/*.js", "**/*.mjs"],
    languageOptions: { globals: globals.nodeBuiltin },
  },
);
