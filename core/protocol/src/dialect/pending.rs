//! The calls of a dialect that await an answer, by the number in their id.

use std::collections::HashMap;

/// Calls that await an answer. The id of each is a number.
#[derive(Debug)]
pub(super) struct PendingCalls<T> {
    calls: HashMap<u64, T>,
    next: u64,
}

impl<T> Default for PendingCalls<T> {
    fn default() -> Self {
        Self { calls: HashMap::new(), next: 0 }
    }
}

impl<T> PendingCalls<T> {
    /// Sets the number of the next call.
    pub(super) fn set_next(&mut self, next: u64) {
        self.next = next;
    }

    /// Adds a call and returns its number.
    pub(super) fn add(&mut self, call: T) -> u64 {
        let number = self.next;
        self.next += 1;
        self.calls.insert(number, call);
        number
    }

    /// Returns the number of the call for which `is_meant` holds.
    pub(super) fn number(&self, is_meant: impl Fn(&T) -> bool) -> Option<u64> {
        self.calls.iter().find(|(_, call)| is_meant(call)).map(|(number, _)| *number)
    }

    /// Takes the call with this id.
    pub(super) fn take(&mut self, id: &str) -> Option<T> {
        self.calls.remove(&id.parse().ok()?)
    }
}
