//! Limits how often a record about one kind of event is logged, because an agent can cause thousands of them a second.

use std::collections::BTreeMap;

/// The number of events of a kind that are logged one by one.
const WHOLE: u64 = 5;

/// Counts the events that are logged. Most sessions have none, and take no memory for them.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Option<Box<Counts>>);

/// The counts by kind.
#[derive(Debug, Default)]
struct Counts(BTreeMap<&'static str, u64>);

impl Repeats {
    /// Counts an event. Returns its number if it is to be logged: the first ones, and then each 10th, 100th, 1,000th and so on.
    pub(crate) fn count(&mut self, kind: &'static str) -> Option<u64> {
        let count = self.0.get_or_insert_default().0.entry(kind).or_default();
        *count += 1;
        let is_round = std::iter::successors(Some(10_u64), |round| round.checked_mul(10)).any(|round| round == *count);
        (*count <= WHOLE || is_round).then_some(*count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_logged_rarely() {
        let mut repeats = Repeats::default();
        let logged: Vec<u64> = (0..54_000).filter_map(|_| repeats.count("answer")).collect();
        assert_eq!(logged, [1, 2, 3, 4, 5, 10, 100, 1_000, 10_000]);
        assert_eq!(repeats.count("request"), Some(1));
    }
}
