/** The symbols of `using` and `await using`, for releases of Node 20 that lack them. */

for (const name of ["dispose", "asyncDispose"] as const) {
  if (typeof (Symbol as Partial<SymbolConstructor>)[name] !== "symbol") {
    Object.defineProperty(Symbol, name, { value: Symbol(`Symbol.${name}`) });
  }
}

export {};
