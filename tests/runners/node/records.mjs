/** The records of the handlers' arguments, which the program can wait for. */
export class Records {
  #items = [];
  #wake = () => undefined;

  push(item) {
    this.#items.push(item);
    this.#wake();
  }

  async next() {
    while (this.#items.length === 0) await new Promise((resolve) => (this.#wake = resolve));
    return this.#items.shift();
  }
}
