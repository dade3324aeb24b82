/** What `console.log` and `util.inspect` show of a session, a turn and an agent. Their state is in the addon, and has no properties. */

/** The name of the method that Node calls to show an object. */
const CUSTOM = Symbol.for("nodejs.util.inspect.custom");

/**
 * Makes objects of a class show some values.
 *
 * @param type - The class.
 * @param name - Its name.
 * @param values - Returns the values, without calling the agent.
 */
export function showAs<T extends object>(type: { readonly prototype: T }, name: string, values: (object: T) => object): void {
  Object.defineProperty(type.prototype, CUSTOM, {
    configurable: true,
    enumerable: false,
    value(this: T, _depth: number, options: object, inspect: (value: object, options: object) => string): string {
      // The prototype itself has no state.
      return this === type.prototype ? `${name} {}` : `${name} ${inspect(values(this), options)}`;
    },
    writable: true,
  });
}
