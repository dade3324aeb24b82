//! The events of a recording, without an agent: the entry that caused each, its turn and its step.

use std::path::Path;

use kimi_agent_protocol::recording::Recording;
use serde_json::json;

use crate::trace::{canonical, print};

/// Prints the events that a recording leads to, or why it cannot be read.
pub(crate) fn print_events(file: &Path) {
    print(&json!({"case": file}));
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return print(&json!({"error": "runner_problem", "message": error.to_string()})),
    };
    match Recording::read(&text) {
        Ok(recording) => {
            for recorded in recording.events() {
                let event = canonical(&recorded.event);
                print(&json!({"entry": recorded.entry, "turn": recorded.turn, "step": recorded.step, "event": event}));
            }
        }
        Err(problem) => print(&json!({"error": "runner_problem", "message": problem.to_string()})),
    }
}
