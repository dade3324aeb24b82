/** The heights of the rows of a list, and the sums of them: a Fenwick tree, so that a change of one height is cheap. */

export class Offsets {
  readonly length: number;
  readonly #heights: Float64Array;
  readonly #sums: Float64Array;
  /** The largest power of two that is not larger than the length. */
  readonly #top: number;

  constructor(heights: readonly number[]) {
    this.length = heights.length;
    this.#heights = Float64Array.from(heights);
    this.#sums = new Float64Array(this.length + 1);
    this.#top = this.length === 0 ? 0 : 2 ** Math.floor(Math.log2(this.length));
    for (let at = 1; at <= this.length; at++) {
      this.#sums[at] = (this.#sums[at] ?? 0) + (this.#heights[at - 1] ?? 0);
      const parent = at + (at & -at);
      if (parent <= this.length) this.#sums[parent] = (this.#sums[parent] ?? 0) + (this.#sums[at] ?? 0);
    }
  }

  heightOf(index: number): number {
    return this.#heights[index] ?? 0;
  }

  /** Sets a height, and returns by how much it changed. */
  set(index: number, height: number): number {
    const change = height - this.heightOf(index);
    if (change === 0 || index < 0 || index >= this.length) return 0;
    this.#heights[index] = height;
    for (let at = index + 1; at <= this.length; at += at & -at) this.#sums[at] = (this.#sums[at] ?? 0) + change;
    return change;
  }

  /** The distance of a row from the beginning of the list. */
  offsetOf(index: number): number {
    let sum = 0;
    for (let at = Math.min(index, this.length); at > 0; at -= at & -at) sum += this.#sums[at] ?? 0;
    return sum;
  }

  get total(): number {
    return this.offsetOf(this.length);
  }

  /** The row at a distance from the beginning of the list: the first or the last row for distances outside of it. */
  indexAt(distance: number): number {
    let [at, left] = [0, distance];
    for (let step = this.#top; step > 0; step = Math.floor(step / 2)) {
      const next = at + step;
      if (next > this.length || (this.#sums[next] ?? 0) > left) continue;
      at = next;
      left -= this.#sums[next] ?? 0;
    }
    return Math.max(0, Math.min(at, this.length - 1));
  }
}
