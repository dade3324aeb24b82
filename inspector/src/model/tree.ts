/** The tree of items while it is built: turns, steps, and the scopes of the agent and its subagents. */

import type { JsonObject } from "../json";
import type { Entry } from "./input";
import type { Item, ItemOf, Kind, NoteItem, RequestItem, Sample, StepItem, ToolItem, TurnItem } from "./items";

/** The agent in a turn, or a subagent: its items follow each other. */
export interface Scope {
  key: string;
  turn: number | null;
  depth: number;
  /** The item that the items of the scope belong to. Nothing outside of turns. */
  owner: Item | null;
  step: StepItem | null;
  /** The last item, to which the next piece of a text is added. */
  last: Item | null;
  /** The last tool call, to which the next piece of arguments is added. */
  tool: ToolItem | null;
  tools: Map<string, ToolItem>;
}

type Own<K extends Kind> = Omit<
  ItemOf<K>,
  "kind" | "id" | "depth" | "turn" | "step" | "start" | "end" | "entries" | "parent" | "children"
>;

export class Tree {
  readonly roots: Item[] = [];
  readonly samples: Sample[] = [];
  readonly turns = new Map<number, TurnItem>();
  /** The tool calls by id. The last call counts, as ids can repeat. */
  readonly tools = new Map<string, ToolItem>();
  readonly requests = new Map<string, RequestItem>();
  /** All items, also those that are shown inside of a tool call. */
  readonly all: Item[] = [];
  planMode = false;
  readonly #scopes = new Map<string, Scope>();

  /** Returns the scope of a turn, or of what is outside of turns. */
  scopeOf(turn: number | null, entry: Entry): Scope {
    const key = turn === null ? "session" : `turn ${String(turn)}`;
    const found = this.#scopes.get(key);
    if (found) return found;
    return this.#addScope(key, turn, 0, turn === null ? null : this.turnOf(turn, entry));
  }

  #addScope(name: string, turn: number | null, depth: number, owner: Item | null): Scope {
    // A short key, so that those of deeply nested subagents stay short.
    const scope: Scope = {
      key: `#${String(this.#scopes.size)}`,
      turn,
      depth,
      owner,
      step: null,
      last: null,
      tool: null,
      tools: new Map(),
    };
    this.#scopes.set(name, scope);
    return scope;
  }

  /** Returns the scope of a subagent, and adds the item of the subagent with its first event. */
  subagentScope(
    outer: Scope,
    payload: { parent: string | undefined; agentId: string | undefined; agentType: string | undefined },
    entry: Entry,
  ): Scope {
    const key = `${outer.key} / ${payload.parent ?? ""} / ${payload.agentId ?? ""}`;
    const found = this.#scopes.get(key);
    if (found) return found;
    const parent =
      payload.parent === undefined ? undefined : (outer.tools.get(payload.parent) ?? this.tools.get(payload.parent));
    const item = this.create("subagent", outer, entry, { agentId: payload.agentId, agentType: payload.agentType });
    this.#attach(item, parent ?? outer.step ?? outer.owner);
    return this.#addScope(key, outer.turn, outer.depth + 1, item);
  }

  /** Returns the item of a turn, and adds it if it is new. */
  turnOf(turn: number, entry: Entry): TurnItem {
    const found = this.turns.get(turn);
    if (found) return found;
    const item = this.#make("turn", { turn, depth: 0, step: 0 }, entry, {
      input: "",
      status: undefined,
      result: undefined,
      steps: 0,
    });
    this.turns.set(turn, item);
    this.roots.push(item);
    return item;
  }

  #make<K extends Kind>(
    kind: K,
    place: { turn: number | null; depth: number; step: number },
    entry: Entry,
    own: Own<K>,
  ): ItemOf<K> {
    const base = {
      id: this.all.length,
      kind,
      ...place,
      start: entry.time,
      end: null,
      entries: [entry.index],
      parent: null,
      children: [],
    };
    const item = { ...base, ...own } as unknown as ItemOf<K>;
    this.all.push(item);
    return item;
  }

  /** Makes an item that is not yet in the tree. */
  create<K extends Kind>(kind: K, scope: Scope, entry: Entry, own: Own<K>): ItemOf<K> {
    return this.#make(kind, { turn: scope.turn, depth: scope.depth, step: scope.step?.n ?? 0 }, entry, own);
  }

  #attach(item: Item, parent: Item | null): void {
    item.parent = parent;
    (parent?.children ?? this.roots).push(item);
  }

  /** Adds an item at the end of a scope. */
  add<K extends Kind>(kind: K, scope: Scope, entry: Entry, own: Own<K>): ItemOf<K> {
    const item = this.create(kind, scope, entry, own);
    this.#attach(item, kind === "step" ? scope.owner : (scope.step ?? scope.owner));
    scope.last = item;
    return item;
  }

  /** Adds a request. It becomes part of its tool call, if that is known. */
  addRequest(
    kind: RequestItem["kind"],
    scope: Scope,
    entry: Entry,
    own: { type: string; payload: JsonObject; requestId?: string | undefined; tool?: ToolItem | undefined },
  ): RequestItem {
    const complete = {
      requestId: own.requestId,
      type: own.type,
      payload: own.payload,
      tool: own.tool,
      decision: undefined,
      response: undefined,
    };
    let item: RequestItem;
    if (own.tool) {
      item = this.create(kind, scope, entry, complete);
      item.parent = own.tool;
      own.tool.attached.push(item);
      touch(own.tool, entry);
    } else item = this.add(kind, scope, entry, complete);
    if (own.requestId !== undefined) this.requests.set(own.requestId, item);
    return item;
  }

  note(
    kind: NoteItem["kind"],
    scope: Scope,
    entry: Entry,
    own: { title: string; text?: string | undefined; data?: NoteItem["data"] },
  ): NoteItem {
    return this.add(kind, scope, entry, { title: own.title, text: own.text ?? "", data: own.data });
  }

  /** Ends the steps, tool calls and subagents of a turn that are still open. */
  endTurn(turn: number, time: number): void {
    for (const scope of this.#scopes.values()) {
      if (scope.turn !== turn) continue;
      if (scope.step?.end === null) scope.step.end = time;
      if (scope.owner?.end === null) scope.owner.end = subagentEnd(scope.owner) ?? time;
    }
  }
}

function subagentEnd(item: Item): number | undefined {
  const parent = item.kind === "subagent" ? item.parent : null;
  return parent?.kind === "tool" ? (parent.end ?? undefined) : undefined;
}

/** Records that an item was made of this entry, too. */
export function touch(item: Item, entry: Entry): void {
  if (item.entries.at(-1) !== entry.index) item.entries.push(entry.index);
}
