// What a client in Node measures of itself, and how it tells; `rust/src/measure.rs` is the same in Rust.
import { readFileSync, writeFileSync } from "node:fs";

function cpuSeconds() {
  const { userCPUTime, systemCPUTime } = process.resourceUsage();
  return (userCPUTime + systemCPUTime) / 1e6;
}

function statusKb(field) {
  const line = readFileSync("/proc/self/status", "ascii").split("\n").find((text) => text.startsWith(field));
  return line ? Number(line.split(/\s+/)[1]) : 0;
}

/** From the session being open to the turn's end. */
export class Measure {
  first = null;
  events = 0;

  constructor() {
    this.base = statusKb("VmRSS:");
    try {
      // The high-water mark begins anew.
      writeFileSync("/proc/self/clear_refs", "5");
    } catch {
      // Not allowed everywhere; then the peak is the whole process's.
    }
    this.began = performance.now();
    this.cpu = cpuSeconds();
  }

  event() {
    this.events += 1;
    this.first ??= process.hrtime.bigint();
  }

  end(sessions = 0) {
    const told = {
      events: this.events,
      sessions,
      cpu_s: cpuSeconds() - this.cpu,
      wall_s: (performance.now() - this.began) / 1e3,
      first_ns: this.first === null ? null : Number(this.first),
      base_kb: this.base,
      peak_kb: statusKb("VmHWM:"),
    };
    console.log(JSON.stringify(told));
  }
}
