const root = import.meta.dirname;

export default {
  turbopack: { root },
  outputFileTracingRoot: root,
  ...(process.env.EXTERNAL && { serverExternalPackages: ["kimi-agent"] }),
};
