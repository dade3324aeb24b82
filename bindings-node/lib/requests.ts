/** Which session a request belongs to. An object that a session delivered remembers it; a copy names its id only. */

import type { RequestOrigin } from "./addon.js";
import { InvalidOption } from "./errors.js";
import { show } from "./show.js";
import type { RequestEvent } from "./wire.js";

/** A request that is to be answered: its event, its payload, or its id. */
export type RequestReference = RequestEvent | { readonly id: string } | string;

const origins = new WeakMap<object, RequestOrigin>();

/** Remembers which request an event, or the payload of one, is. */
export function bindRequest(request: unknown, origin: RequestOrigin): void {
  if (typeof request !== "object" || request === null) return;
  origins.set(request, origin);
  const { payload } = request as { payload?: unknown };
  if (typeof payload === "object" && payload !== null) origins.set(payload, origin);
}

/** The id of a request, and which request it is, unless only the id is known. */
export function requestReference(request: RequestReference): [id: string, origin: RequestOrigin | null] {
  const given: unknown = request;
  if (typeof given === "string") return [given, null];
  if (typeof given === "object" && given !== null) {
    const { id, payload } = given as { id?: unknown; payload?: { id?: unknown } };
    const found = payload?.id ?? id;
    const origin = origins.get(given) ?? (typeof payload === "object" ? origins.get(payload) : undefined);
    if (typeof found === "string") return [found, origin ?? null];
  }
  const expected = "expected the event of the request that is to be answered, its payload or its id";
  throw new InvalidOption("request", `invalid option \`request\`: ${expected}; got ${show(given)}`);
}
