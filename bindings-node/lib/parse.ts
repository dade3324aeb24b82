/** Parses the messages that the addon writes. */

/** The addon puts the values that could not be read into this property of a message, by the names of their properties. */
const UNREADABLE = "$unreadable";

/**
 * Parses messages of the addon. A property whose value could not be read has the value of an absent one. `JSON.stringify()` has
 * the agent's value.
 */
export function parseMessages(json: string): unknown {
  // A function for each value makes parsing slow, and such messages are rare.
  return json.includes(`"${UNREADABLE}"`) ? JSON.parse(json, revealUnreadable) : JSON.parse(json);
}

function revealUnreadable(_name: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, UNREADABLE)) return value;
  const { [UNREADABLE]: unreadable, ...message } = value as Record<string, unknown>;
  const toJSON = function (this: object): object {
    return { ...this, ...(unreadable as object) };
  };
  return Object.defineProperty(message, "toJSON", { value: toJSON, enumerable: false, configurable: true });
}
