//! How often the log hears of lines that are not of the protocol: a program may write thousands of them a second.

use std::time::{Duration, Instant};

/// How many are logged one by one.
const WHOLE: u64 = 5;
/// After those, how often a summary is logged at most.
const EVERY: Duration = Duration::from_secs(10);

/// What the log is to hear of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The line itself.
    Line,
    /// The line, and that so many others were dropped since the last record.
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
    /// Counts a line, and says what to log of it.
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

    /// How many lines no record has mentioned, at the end.
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
        // A program that writes such a line now and then has each of them logged.
        assert_eq!(lines.count(start + 3 * EVERY), Report::Summary(0));
    }
}
