/** Finds the files of the installed package, also from a program that was bundled with this code. */

import { KimiAgentError } from "./errors.js";
import { fs, nodeModule, path } from "./node.js";
import { VERSION } from "./version.js";

const NAME = "kimi-agent";

/** The folder of this file, or in a bundle that of the bundle. Bundlers put a constant here, or nothing at all. */
const here = typeof __dirname === "string" ? __dirname : undefined;

/**
 * The path of a file of the installed package, relative to its folder, such as `dist/index.js`.
 *
 * @throws {@link KimiAgentError} with the places that were searched, and how a bundler is told to leave the package alone.
 */
export function installedFile(name: string, what: string): string {
  const places = new Set<string>();
  for (const folder of folders()) {
    const place = path.join(folder, name);
    if (fs.existsSync(place)) return place;
    places.add(place);
  }
  const missing = [...places].join(" and ") + (places.size === 1 ? " is" : " are") + " missing";
  const platform = `${process.platform}-${process.arch}`;
  throw new KimiAgentError(
    `kimi-agent cannot find ${what} for ${platform}: ${missing}. ` +
      "If this program is a bundle, keep the package out of it: `external: [\"kimi-agent\"]` (esbuild, Rollup), " +
      "`externals: { \"kimi-agent\": \"commonjs kimi-agent\" }` (webpack), `ssr: { external: [\"kimi-agent\"] }` (Vite) or " +
      "`serverExternalPackages: [\"kimi-agent\"]` (Next.js); and install it where the bundle runs. " +
      "If it is not, install the package again on this machine: `npm install kimi-agent`",
  );
}

/**
 * Folders that may hold the package's files: that of the package, if this code is not in a bundle; the package that the main
 * program finds; and where files may have been put beside a bundle. The current directory is never searched: what lies
 * there may be anybody's.
 */
function* folders(): Generator<string> {
  if (here !== undefined) yield path.join(here, "..");
  const main = process.argv[1];
  if (main !== undefined) yield* resolvedFrom(main);
  if (here !== undefined) yield here;
  if (main !== undefined) yield path.dirname(main);
}

/** The package of this version, as a file resolves it. */
function resolvedFrom(file: string): string[] {
  try {
    const description = nodeModule.createRequire(fs.realpathSync(file)).resolve(`${NAME}/package.json`);
    const { version } = JSON.parse(fs.readFileSync(description, "utf8")) as { version: string };
    return version === VERSION ? [path.dirname(description)] : [];
  } catch {
    return [];
  }
}
