/** The places in which agents run, for the option `place`. */

import { knownOptions, withHiddenForm } from "./arguments.js";
import { atCaller } from "./call-site.js";

/** The settings of `prefix()`. */
export interface PrefixOptions {
  /** The program, and its arguments. */
  command: readonly string[];
  /**
   * The directories of this machine that the agent has, each with its path there. A relative directory is relative to `workDir`;
   * with `openAgent()`, to the current directory. If there are any, the agent has no other paths of this machine. Default: the
   * agent has the same paths as this program.
   */
  paths?: Readonly<Record<string, string>> | undefined;
}

/**
 * The place in which an agent runs, for the option `place`. {@link container}, {@link prefix}, {@link remote}, {@link sandbox} and
 * {@link ssh} return it.
 */
export interface Place {
  /** The kind of place. */
  readonly type: string;
}

/**
 * Runs the agent behind a command. The words of the command come before those of the agent.
 *
 * @param options - The command, and the paths of the agent.
 * @returns The place, for the option `place`.
 * @example
 * ```ts
 * const pod = prefix({ command: ["kubectl", "exec", "-i", "pod", "--"], paths: { ".": "/work" } });
 * const options = { executable: "kimi", place: pod };
 * ```
 */
export function prefix(options: PrefixOptions): Place {
  return atCaller(prefix, () => {
    const { command, paths } = knownOptions("prefix()", options, ["command", "paths"]);
    return Object.freeze({ type: "prefix", command, paths });
  });
}

/** The settings of `sandbox()`. */
export interface SandboxOptions {
  /** The files and directories that can be written. The agent's own directories always can. Default: `workDir`. */
  write?: readonly string[] | undefined;
  /**
   * The files and directories that can be read, in addition to those of the system, those that can be written and those of the
   * agent's program. Default: everything that this user can read.
   */
  read?: readonly string[] | undefined;
  /** Whether there is a network, the loopback interface of this machine included. Default: true. */
  network?: boolean | undefined;
  /** The files and directories whose content cannot be read. A path that does not exist is ignored. Default: `~/.ssh`. */
  hide?: readonly string[] | undefined;
}

/**
 * Runs the agent, and all that it starts, in a sandbox of the operating system: bubblewrap on Linux, Seatbelt on macOS. Paths are
 * the same inside and outside. A relative path is relative to `workDir`; with `openAgent()`, to the current directory. `~` is the
 * home directory. On other systems, and without bubblewrap, opening a session fails.
 *
 * @param options - The files that the agent can write and read, and whether it has a network.
 * @returns The place, for the option `place`.
 * @example
 * ```ts
 * const options = { executable: "kimi", place: sandbox({ network: false, hide: ["~/.ssh", ".env"] }) };
 * ```
 */
export function sandbox(options: SandboxOptions = {}): Place {
  return atCaller(sandbox, () => {
    const { write, read, network, hide } = knownOptions("sandbox()", options, ["write", "read", "network", "hide"]);
    return Object.freeze({ type: "sandbox", write, read, network, hide });
  });
}

/** The settings of `container()`. */
export interface ContainerOptions {
  /** The image of a fresh container. It must be on this machine. */
  image?: string | undefined;
  /** The name of a running container, instead of `image`. */
  name?: string | undefined;
  /**
   * The files and directories of this machine that the agent has, each with its path in the container. A relative path is relative
   * to `workDir`; with `openAgent()`, to the current directory. `~` is the home directory. `:ro` at the end makes it read-only. For
   * a running container, they say which mounts it has. Default: `{ ".": "/work" }`.
   */
  mount?: Readonly<Record<string, string>> | undefined;
  /** The user in the container, such as `1000:1000`. Default: the image's. */
  user?: string | undefined;
  /** Whether a fresh container has a network. Default: true. */
  network?: boolean | undefined;
  /** The program of the runtime: `docker`, `podman`, or the path of one. Default: `docker`. */
  runtime?: string | undefined;
  /** Further arguments of `run`, or of `exec` in a running container. Default: none. */
  args?: readonly string[] | undefined;
}

/**
 * Runs the agent in a container of Docker or Podman: a fresh one of `image`, which is removed with the agent, or the running one
 * with this `name`. The agent is a program of the image, or one that is mounted. Its variables are those of the image and of `env`.
 * Not on Windows.
 *
 * @param options - The image, the mounts and the limits.
 * @returns The place, for the option `place`.
 * @example
 * ```ts
 * const place = container({ image: "agents:1", user: "1000:1000", args: ["--memory", "2g"] });
 * const options = { executable: "kimi", place };
 * ```
 */
export function container(options: ContainerOptions): Place {
  return atCaller(container, () => {
    const known = ["image", "name", "mount", "user", "network", "runtime", "args"] as const;
    const { image, name, mount, user, network, runtime, args } = knownOptions("container()", options, known);
    return Object.freeze({ type: "container", image, name, mount, user, network, runtime, args });
  });
}

/** The settings of `ssh()`. */
export interface SshOptions {
  /** The host, as `ssh` takes it. */
  host: string;
  /** The absolute path of the working directory on the host. */
  workDir: string;
  /** Arguments of `ssh` before the host, such as `["-p", "2222"]`. Default: none. */
  options?: readonly string[] | undefined;
}

/**
 * Runs the agent on another machine, over the system's `ssh` with its configuration, keys and jump hosts. Files are not copied:
 * `workDir` of the session stands for the directory `workDir` there. The agent's variables are those of `env`. `ssh` asks for
 * nothing: keys must be loaded, and the key of the host must be known.
 *
 * @param options - The host, and the working directory there.
 * @returns The place, for the option `place`.
 * @example
 * ```ts
 * const place = ssh({ host: "ada@build.example", workDir: "/home/ada/app" });
 * const options = { executable: "kimi", place };
 * ```
 */
export function ssh(options: SshOptions): Place {
  return atCaller(ssh, () => {
    const { host, workDir, options: words } = knownOptions("ssh()", options, ["host", "workDir", "options"]);
    return Object.freeze({ type: "ssh", host, workDir, options: words });
  });
}

/** The settings of `remote()`. */
export interface RemoteOptions {
  /** The address: `wss` or `ws` for a WebSocket, `https` or `http` for HTTP. */
  url: string;
  /**
   * Headers of each request, such as `Authorization`. Logs, errors, recordings and the place do not show their values. Default:
   * none.
   */
  headers?: Readonly<Record<string, string>> | undefined;
  /** The absolute path that `workDir` of the session has for the agent. Default: the agent has the same paths as this program. */
  workDir?: string | undefined;
}

/**
 * Uses an agent that a server offers over WebSocket or HTTP, as ACP's transport proposal says. Nothing is started on this machine,
 * so `executable`, `extraArgs`, `env` and `inheritEnv` are refused. The certificate of the server must be one that this system
 * accepts. The proxy is that of `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`.
 *
 * @param options - The address, the headers, and the working directory of the agent.
 * @returns The place, for the option `place`.
 * @example
 * ```ts
 * const place = remote({ url: "wss://agents.example/acp", headers: { Authorization: "Bearer …" }, workDir: "/srv/app" });
 * const options = { workDir: ".", place };
 * ```
 */
export function remote(options: RemoteOptions): Place {
  return atCaller(remote, () => {
    const { url, headers, workDir } = knownOptions("remote()", options, ["url", "headers", "workDir"]);
    const names = Object.keys((headers as object | undefined) ?? {});
    // The object shows only the names of headers, for example in `console.log()` and `JSON.stringify()`.
    const shown = { type: "remote", url: withoutSecrets(url), headers: names, workDir };
    return Object.freeze(withHiddenForm(shown, { type: "remote", url, headers, workDir }));
  });
}

/** The URL without a user's name, a password and the query. */
function withoutSecrets(url: unknown): unknown {
  return typeof url === "string" ? url.replace(/[?#].*$/s, "").replace(/\/\/[^/]*@/, "//") : url;
}
