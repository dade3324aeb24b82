/** Rules that decide about tool calls. */

import { givenPath, kindOf, optionJson, reading, show, wrongOption } from "./arguments.js";
import { atCaller } from "./call-site.js";
import type { InvalidOption } from "./errors.js";
import { callNative } from "./native-errors.js";
import { loadNative } from "./native.js";
import { isPlain } from "./values.js";
import type { ToolCallInfo } from "./wire.js";

/** The decision about a tool call. */
export type PolicyDecisionKind = "allow" | "ask" | "deny";

/** The name of a rule set that comes with the SDK. */
export type PolicyPreset = "read-only" | "edit-files";

/** The rules of a policy. The order is deny, ask, allow, default. */
export interface PolicyRules {
  /** A preset whose rules come first. */
  readonly extends?: PolicyPreset | undefined;
  /** The decision if no rule matches. Default: `"ask"`. */
  readonly default?: PolicyDecisionKind | undefined;
  /** The calls that must not run. */
  readonly deny?: readonly string[] | undefined;
  /** The calls that `onApproval` decides about, also if an allow rule matches. */
  readonly ask?: readonly string[] | undefined;
  /** The calls that may run. */
  readonly allow?: readonly string[] | undefined;
}

/** A decision and its reason, from {@link Policy.check}. */
export interface PolicyVerdict {
  /** The decision. */
  readonly decision: PolicyDecisionKind;
  /** The rule that decided. Absent if the default decided, or if a part of the call cannot be decided. */
  readonly rule?: string;
  /** The place of the rule, for example `policy.toml:3`. For a policy without a file, `deny[0]`. */
  readonly source?: string;
  /** Why, in a sentence for people. It names the part that decided, and if possible the narrowest rule that would allow it. */
  readonly reason: string;
  /** The part of the call that decided: a simple command, a path, an address or the name of a tool. */
  readonly part?: string;
}

/**
 * Rules that decide which tool calls an agent may make, for the option `policy`. Each part of a compound command needs a
 * decision of its own, and the strictest one counts.
 *
 * @example
 * ```ts
 * const policy = new Policy({ allow: ["read", "execute(git status)"] });
 * policy.check({ name: "Shell", arguments: { command: "git status && rm -rf ~" } }).decision; // "ask"
 * ```
 */
export class Policy {
  readonly #json: string;
  readonly #warnings: readonly string[];

  /**
   * Makes a policy of rules.
   *
   * @param rules - The rules, or the name of a preset.
   * @throws {InvalidOption} if a rule is wrong; the text names it.
   *
   * @example
   * ```ts
   * const policy = new Policy({ deny: ["execute(rm *)", "edit(**\/.env*)"] });
   * ```
   */
  constructor(rules: PolicyRules | PolicyPreset) {
    const given: unknown = rules === "read-only" || rules === "edit-files" ? { extends: rules } : rules;
    const read = atCaller(Policy, () => reading("policy", () => {
      if (typeof given === "string") throw wrong(`there is no preset ${show(given)}; there are "read-only" and "edit-files"; to read a file, write \`Policy.load(path)\``);
      if (typeof given !== "object" || given === null || Array.isArray(given) || !(isPlain(given) || given instanceof Policy)) {
        throw wrong(`expected an object with rules, got ${kindOf(given)}`);
      }
      const native = loadNative();
      return JSON.parse(callNative(() => native.readPolicyJson(optionJson("policy", given)))) as Read;
    }));
    this.#json = JSON.stringify(read.policy);
    this.#warnings = read.warnings;
  }

  /**
   * Reads the file of a policy: JSON if its name ends with `.json`, else TOML.
   *
   * @param path - The path of the file, or its file URL.
   * @returns The policy.
   * @throws {InvalidOption} if the file cannot be read, or if a rule is wrong; the text names the file, the line and the rule.
   *
   * @example
   * ```ts
   * const policy = Policy.load("policy.toml");
   * ```
   */
  static load(path: string | URL): Policy {
    return atCaller([Policy, "load"], () => {
      const given = givenPath("policy", path, "the path of a file, or its file URL");
      if (given === undefined) throw wrong(`expected the path of a file, got ${kindOf(path)}`);
      const native = loadNative();
      const read = JSON.parse(callNative(() => native.readPolicyJson(JSON.stringify(given)))) as Read;
      return new Policy(read.policy);
    });
  }

  /** Rules that can never decide, because they match nothing or because another rule decides first. */
  get warnings(): readonly string[] {
    return this.#warnings;
  }

  /** The rules, also those of a preset. */
  get rules(): Required<Pick<PolicyRules, "allow" | "ask" | "default" | "deny">> {
    const { default: byDefault, deny, ask, allow } = JSON.parse(this.#json) as Required<PolicyRules>;
    return { default: byDefault, deny, ask, allow };
  }

  /**
   * Decides about a tool call, without an agent.
   *
   * @param toolCall - The call: `request.tool_call`, or an object with `name`, and optionally `kind`, `arguments`, and lists
   *   of paths, `locations` and `diffs`.
   * @param workDir - The directory that the agent would work in. Default: the current directory.
   * @returns The decision, the rule that decided, and the reason.
   * @throws {InvalidOption} if this is not a tool call.
   *
   * @example
   * ```ts
   * const policy = new Policy({ allow: ["edit(src/**)"] });
   * policy.check({ name: "WriteFile", arguments: { path: "src/a.ts" } }).decision; // "allow"
   * ```
   */
  check(toolCall: Omit<ToolCallInfo, "id"> & { readonly id?: string }, workDir = "."): PolicyVerdict {
    return atCaller([this, "check"], () => {
      const native = loadNative();
      const given: unknown = workDir;
      if (typeof given !== "string") throw wrongOption("workDir", `expected the path of a directory, got ${show(given)}`);
      const call: unknown = toolCall;
      if (typeof call !== "object" || call === null) {
        throw wrongOption("toolCall", `expected a tool call, such as { name: "Shell", arguments: { command: "ls" } }; got ${show(call)}`);
      }
      const verdict = callNative(() => native.checkPolicyJson(this.#json, optionJson("toolCall", toolCall), given));
      return JSON.parse(verdict) as PolicyVerdict;
    });
  }

  /**
   * Returns the rules as JSON, with their places.
   *
   * @returns The rules.
   *
   * @example
   * ```ts
   * JSON.stringify(new Policy({ deny: ["mcp"] }));
   * ```
   */
  toJSON(): unknown {
    return JSON.parse(this.#json);
  }
}

interface Read {
  policy: PolicyRules;
  warnings: string[];
}

function wrong(problem: string): InvalidOption {
  return wrongOption("policy", problem);
}
