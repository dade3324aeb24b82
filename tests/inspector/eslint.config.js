// The rules of the inspector hold for its tests, too. ESLint comes from there.
export { default } from "../../inspector/eslint.config.js";
