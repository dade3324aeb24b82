//! The words with which agents report the end of a turn.

use crate::connection::TurnStatus;

/// Returns the status that a word means, in any case. `None` if its meaning is not known.
pub(crate) fn status_of(word: &str) -> Option<TurnStatus> {
    Some(match &*in_snake_case(word) {
        "end_turn" | "finished" => TurnStatus::Finished,
        "max_tokens" | "truncated" => TurnStatus::Truncated,
        "max_turn_requests" | "max_steps_reached" => TurnStatus::MaxStepsReached,
        "refusal" | "refused" => TurnStatus::Refused,
        // Words of other agents and of models' services.
        "length" | "max_output_tokens" | "model_context_window_exceeded" => TurnStatus::Truncated,
        "max_turns" | "max_steps" => TurnStatus::MaxStepsReached,
        "content_filter" | "content_filtered" => TurnStatus::Refused,
        "aborted" | "canceled" | "cancelled" | "interrupted" => TurnStatus::Cancelled,
        _ => return None,
    })
}

/// Returns a word such as `maxTokens` or `MAX-TOKENS` in the spelling of the protocol.
pub(crate) fn in_snake_case(word: &str) -> String {
    let mut snake = String::with_capacity(word.len());
    let mut was_lower = false;
    for c in word.trim().chars() {
        if c.is_ascii_uppercase() && was_lower {
            snake.push('_');
        }
        was_lower = c.is_ascii_lowercase();
        snake.push(if matches!(c, '-' | ' ') { '_' } else { c.to_ascii_lowercase() });
    }
    snake
}
