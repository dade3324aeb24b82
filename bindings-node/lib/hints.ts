/** Errors for properties that programs look for on the wrong object. They name the right one. */

/** By the name of a property: the remedy, which ends the error's message. */
export type Remedies = Readonly<Record<string, string>>;

/**
 * Makes the properties throw when they are read. They are not enumerable and only on the prototype, so code that inspects,
 * compares or copies an object does not read them; and their types are not declared, so the compiler still refuses them.
 *
 * @param type - The class without these properties.
 * @param remedies - The properties, with their remedies.
 */
export function hintAt(type: { readonly prototype: object; readonly name: string }, remedies: Remedies): void {
  for (const [property, remedy] of Object.entries(remedies)) {
    Object.defineProperty(type.prototype, property, {
      configurable: true,
      enumerable: false,
      get: function hint() {
        const error = new TypeError(`a ${type.name} has no property \`${property}\`: ${remedy}`);
        Error.captureStackTrace(error, hint);
        throw error;
      },
      // A test may set it on a fake that derives from the class.
      set(value: unknown) {
        Object.defineProperty(this, property, { value, configurable: true, enumerable: true, writable: true });
      },
    });
  }
}
