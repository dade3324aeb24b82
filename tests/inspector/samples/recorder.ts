// Writes recordings in the form that the inspector reads: entries with a clock, and the events of the SDK.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Members = Record<string, Json>;

export interface Recording {
  name: string;
  header: Members;
  /** Each entry has the events of the SDK as its member `events`. */
  entries: Members[];
  is_cut?: boolean;
}

interface AgentOptions {
  /** The tool call of the agent that started the subagent, and the id and the kind of the subagent. */
  subagent?: [string, string, string];
}

export class Recorder {
  readonly entries: Members[] = [];
  #time = 0;
  #turn = 0;
  #step = 0;
  #requests = 0;

  constructor(
    readonly name: string,
    readonly header: Members = {},
  ) {}

  get turn(): number {
    return this.#turn;
  }

  /** Lets time pass. */
  wait(seconds: number): this {
    this.#time += seconds;
    return this;
  }

  entry(type: string, members: Members): this {
    this.entries.push({ type, time: Number(this.#time.toFixed(6)), ...members });
    return this;
  }

  #events(type: string, payload: Json): Json[] {
    return [{ turn: this.#turn === 0 ? null : this.#turn, step: this.#step, event: { type, payload } }];
  }

  /** A message of the agent with an event. */
  event(type: string, payload: Members, { subagent }: AgentOptions = {}): this {
    const inner = { type, payload };
    const names = subagent
      ? { parent_tool_call_id: subagent[0], agent_id: subagent[1], subagent_type: subagent[2] }
      : undefined;
    const whole = names ? { type: "SubagentEvent", payload: { ...names, event: inner } } : inner;
    if (type === "StepBegin" && !subagent) this.#step = Number(payload.n);
    const message = { jsonrpc: "2.0", method: "event", params: whole };
    return this.entry("message", { from: "agent", message, events: this.#events(whole.type, whole.payload) });
  }

  /** A request of the agent, which waits for an answer. Returns its id. */
  request(type: string, payload: Members, id = `request-${String(++this.#requests)}`): string {
    const message = { jsonrpc: "2.0", method: "request", id, params: { type, payload: { id, ...payload } } };
    this.entry("message", { from: "agent", message, events: this.#events(type, { id, ...payload }) });
    return id;
  }

  decide(request: string, kind: string, by: string, duration: number, more: Members = {}): this {
    this.wait(duration).entry("decision", { request, kind, by, duration, ...more });
    const response =
      typeof more.answer === "object" && more.answer !== null ? more.answer : { value: more.answer ?? null };
    return this.entry("message", { from: "sdk", message: { jsonrpc: "2.0", id: request, result: response } });
  }

  /** A decision of the policy, and the event that the SDK makes of it. */
  policy(decision: string, call: Members, rule?: string, source?: string, why: Members = {}): this {
    const payload: Members = {
      tool_call: call,
      decision,
      ...(rule === undefined ? {} : { rule }),
      ...(source === undefined ? {} : { source }),
      ...why,
    };
    const turn: Members = this.#turn === 0 ? {} : { turn: this.#turn };
    return this.entry("policy", { ...turn, ...payload, events: this.#events("PolicyDecision", payload) });
  }

  open(agent = "kimi-cli", version = "1.49.0"): this {
    this.entry("message", {
      from: "sdk",
      message: {
        jsonrpc: "2.0",
        id: "1",
        method: "initialize",
        params: { protocol_version: "1.10", client: { name: "kimi-agent" } },
      },
    });
    this.wait(0.41).entry("message", {
      from: "agent",
      message: { jsonrpc: "2.0", id: "1", result: { protocol_version: "1.10", server: { name: agent, version } } },
    });
    return this.entry("opened", {
      agent: { name: agent, version },
      protocol_version: "1.10",
      session_id: "6f1d2c60-5b0e-4f0c-9a52-0d9f0d3c9a11",
    });
  }

  prompt(input: Json): this {
    this.#turn += 1;
    this.#step = 0;
    this.entry("call", { call: "prompt", turn: this.#turn, arguments: { input } });
    this.entry("message", {
      from: "sdk",
      message: { jsonrpc: "2.0", id: `turn-${String(this.#turn)}`, method: "prompt", params: { user_input: input } },
    });
    return this.wait(0.02).event("TurnBegin", { user_input: input });
  }

  /** Streams a text in pieces. */
  stream(type: "text" | "think", text: string, options: AgentOptions = {}): this {
    for (const piece of text.match(/[\s\S]{1,24}/gu) ?? [])
      this.wait(0.03).event("ContentPart", { type, [type]: piece }, options);
    return this;
  }

  tool(id: string, name: string, input: Members, options: AgentOptions = {}): this {
    const text = JSON.stringify(input);
    this.wait(0.1).event(
      "ToolCall",
      { type: "function", id, function: { name, arguments: text.slice(0, 20) } },
      options,
    );
    if (text.length > 20) this.wait(0.05).event("ToolCallPart", { arguments_part: text.slice(20) }, options);
    return this;
  }

  result(id: string, output: Json, more: Members = {}, options: AgentOptions = {}): this {
    return this.wait(0.2).event(
      "ToolResult",
      { tool_call_id: id, return_value: { is_error: false, output, message: "", ...more } },
      options,
    );
  }

  status(context: number, input: number, output: number, cached = 0): this {
    const usage = { input_other: input, output, input_cache_read: cached, input_cache_creation: 0 };
    return this.event("StatusUpdate", {
      context_usage: context / 262_144,
      context_tokens: context,
      max_context_tokens: 262_144,
      token_usage: usage,
    });
  }

  step(n: number): this {
    return this.wait(0.05).event("StepBegin", { n });
  }

  endTurn(result: Members): this {
    this.event("TurnEnd", {});
    return this.wait(0.01).entry("turn", { turn: this.#turn, ...result });
  }

  close(): this {
    this.#turn = 0;
    return this.wait(0.4).entry("call", { call: "close" }).wait(0.03).entry("end", { reason: "closed" });
  }

  recording(): Recording {
    const header: Members = {
      type: "header",
      format: 1,
      started: "2026-11-20T09:14:03Z",
      sdk: { name: "kimi-agent", version: "0.1.0", language: "python" },
      dialect: "wire",
      executable: ["kimi", "--wire"],
      options: { work_dir: "{{work_dir}}", model: "kimi-k2", thinking: true },
      ...this.header,
    };
    return { name: this.name, header, entries: this.entries };
  }
}

/** An entry as it is in the file, next to its events. Hostile entries are of any type. */
function withEvents(each: Json): Json {
  if (typeof each !== "object" || each === null || Array.isArray(each)) return { entry: each };
  const { events, ...entry } = each;
  return events === undefined ? { entry } : { entry, events };
}

/** The text of the element in the page, as the program writes it that makes the page. */
export function embedded(recordings: Recording[]): string {
  const wrapped = recordings.map(({ entries, ...more }) => ({ ...more, entries: entries.map(withEvents) }));
  const text = JSON.stringify({ inspector: 2, recordings: wrapped });
  return text.replace(/[<>&\u2028\u2029]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
