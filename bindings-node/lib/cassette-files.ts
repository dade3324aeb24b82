/** The recordings of cassettes: batches refuse them. */

const files = new Set<string>();

/** Notes that a cassette records to this path. */
export function addCassetteFile(path: string): void {
  files.add(path);
}

/** Whether a cassette of this program records to this path. */
export function isCassetteFile(path: string): boolean {
  return files.has(path);
}
