//! `Display` for types whose values are words.

use crate::{BudgetCounter, OutputMode, PolicyReach, RejectedBy, TurnStatus};

/// Implements `Display` with the word that `as_str` returns.
#[doc(hidden)]
#[macro_export]
macro_rules! display_words {
    ($($ty:ty),*) => {$(
        impl ::std::fmt::Display for $ty {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    )*};
}

display_words!(BudgetCounter, OutputMode, PolicyReach, RejectedBy, TurnStatus);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_is_displayed_with_width() {
        assert_eq!(TurnStatus::MaxStepsReached.to_string(), "max_steps_reached");
        assert_eq!(format!("{:>8}|", BudgetCounter::Steps), "   steps|");
    }
}
