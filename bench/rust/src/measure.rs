//! Measures the client's own process, and reports the figures.

use std::time::Instant;

use serde_json::json;

/// From the agent being ready to the turn's end.
pub struct Measure {
    began: Instant,
    cpu: f64,
    base_kb: u64,
    events: u64,
    first_ns: Option<u64>,
}

impl Measure {
    /// The session is open; what comes now counts.
    pub fn begin() -> Self {
        let base_kb = status_kb("VmRSS:");
        // The high-water mark begins anew.
        drop(std::fs::write("/proc/self/clear_refs", "5"));
        Self { began: Instant::now(), cpu: cpu_seconds(), base_kb, events: 0, first_ns: None }
    }

    pub fn event(&mut self) {
        self.events += 1;
        if self.first_ns.is_none() {
            self.first_ns = Some(monotonic_ns());
        }
    }

    pub fn end(self) {
        self.end_sessions(0);
    }

    pub fn end_sessions(self, sessions: usize) {
        let (cpu, wall) = (cpu_seconds() - self.cpu, self.began.elapsed());
        let told = json!({
            "events": self.events,
            "sessions": sessions,
            "cpu_s": cpu,
            "wall_s": wall.as_secs_f64(),
            "first_ns": self.first_ns,
            "base_kb": self.base_kb,
            "peak_kb": status_kb("VmHWM:"),
        });
        println!("{told}");
    }
}

/// User and system time of this process, without its children.
fn cpu_seconds() -> f64 {
    // SAFETY: getrusage fills in the struct that it is given, which is plain data.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The clock that all processes of the machine share.
fn monotonic_ns() -> u64 {
    // SAFETY: clock_gettime fills in the struct that it is given, which is plain data.
    let time = unsafe {
        let mut time = std::mem::zeroed::<libc::timespec>();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn status_kb(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("0");
    line.trim().trim_end_matches(" kB").trim().parse().unwrap_or(0)
}
