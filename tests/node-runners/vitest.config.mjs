// The package stays external, as an installed package does.
export default { test: { include: ["suites/vitest.test.mjs"], server: { deps: { external: [/bindings-node/, /cases\.cjs/] } } } };
