//! Limits how often invalid lines are logged, because a program can write thousands of them a second.

use std::time::{Duration, Instant};

/// The number of invalid lines that are logged one by one.
const WHOLE: u64 = 5;
/// After those, the shortest time between two summaries.
const EVERY: Duration = Duration::from_secs(10);

/// The log record for a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The line itself.
    Line,
    /// The line, and the number of other lines that were dropped since the last record.
    Summary(u64),
    /// Nothing yet.
    Nothing,
}

/// Counts invalid lines. The present time is an argument.
#[derive(Debug, Default)]
pub(super) struct InvalidLines {
    seen: u64,
    unreported: u64,
    next_summary: Option<Instant>,
}

impl InvalidLines {
    /// Counts a line, and returns what to log about it.
    pub(super) fn count(&mut self, now: Instant) -> Report {
        self.seen += 1;
        if self.seen <= WHOLE {
            self.next_summary = Some(now + EVERY);
            return Report::Line;
        }
        if self.next_summary.is_some_and(|at| now < at) {
            self.unreported += 1;
            return Report::Nothing;
        }
        self.next_summary = Some(now + EVERY);
        Report::Summary(std::mem::take(&mut self.unreported))
    }

    /// Returns the number of lines that no record has mentioned, at the end.
    pub(super) fn take_unreported(&mut self) -> u64 {
        std::mem::take(&mut self.unreported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_summarised() {
        let start = Instant::now();
        let mut lines = InvalidLines::default();
        for _ in 0..WHOLE {
            assert_eq!(lines.count(start), Report::Line);
        }
        for _ in 0..160_000 {
            assert_eq!(lines.count(start + EVERY / 2), Report::Nothing);
        }
        assert_eq!(lines.count(start + EVERY), Report::Summary(160_000));
        assert_eq!(lines.count(start + EVERY), Report::Nothing);
        assert_eq!(lines.take_unreported(), 1);
        assert_eq!(lines.take_unreported(), 0);
        // If a program writes an invalid line rarely, each is logged.
        assert_eq!(lines.count(start + 3 * EVERY), Report::Summary(0));
    }
}
