/** Times, durations and numbers as text. */

const counts = new Intl.NumberFormat("en");

export function formatCount(value: number): string {
  return counts.format(Math.round(value));
}

/** Returns a number with its noun, for example `1 step` or `2 steps`. */
export function formatCounted(value: number, noun: string): string {
  return `${formatCount(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** Returns a large number in few characters, for example `12.3k`. */
export function formatShort(value: number): string {
  if (value < 1000) return String(Math.round(value));
  if (value < 100_000) return `${(value / 1000).toFixed(1).replace(/\.0$/, "")}k`;
  if (value < 1_000_000) return `${String(Math.round(value / 1000))}k`;
  return `${(value / 1_000_000).toFixed(1).replace(/\.0$/, "")}M`;
}

/** Returns a duration in seconds as text, for example `340 ms`, `1.2 s`, `2 min 05 s` or `1 h 02 min`. */
export function formatDuration(seconds: number): string {
  if (!(seconds > 0)) return "0 ms";
  if (seconds < 0.9995) return `${String(Math.max(1, Math.round(seconds * 1000)))} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${String(whole)} s`;
  if (whole < 3600) return `${String(Math.floor(whole / 60))} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${String(Math.floor(whole / 3600))} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

/** Returns the time since the beginning of the recording, for example `+12.340 s`. */
export function formatOffset(seconds: number): string {
  return `+${seconds.toFixed(3)} s`;
}

/** Returns the time of the clock in UTC, `offset` seconds after `started`, or nothing if `started` is not a time. */
export function formatClock(started: string, offset = 0): string | undefined {
  const begin = Date.parse(started);
  if (Number.isNaN(begin) || !Number.isFinite(offset)) return undefined;
  const time = new Date(begin + offset * 1000);
  return Number.isNaN(time.getTime())
    ? undefined
    : time
        .toISOString()
        .replace("T", " ")
        .replace(/\.\d+Z$/, " UTC");
}

export function formatPercent(part: number): string {
  return `${(part * 100).toFixed(part < 0.1 ? 1 : 0)} %`;
}

export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${String(bytes)} B`;
  if (bytes < 1_000_000) return `${(bytes / 1000).toFixed(1)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Returns the first line of a text in at most `length` characters, with its white space collapsed. */
export function excerpt(text: string, length = 120): string {
  const line =
    text
      .slice(0, length * 8)
      .replace(/[^\S\n]+/g, " ")
      .trim()
      .split("\n", 1)[0]
      ?.trimEnd() ?? "";
  const points = Array.from(line);
  const cut = points.length > length || text.trim().includes("\n") || text.length > length * 8;
  return points.slice(0, length).join("") + (cut ? " …" : "");
}
