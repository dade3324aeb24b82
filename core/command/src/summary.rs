//! The summary of recordings as JSON.

use std::collections::BTreeMap;

use kimi_agent_protocol::recording::{Entry, Recording, TurnEntry};
use serde_json::{Value, json};

/// Returns a list with the turns, decisions and end of each recording.
pub(crate) fn of(recordings: &[(String, Recording)]) -> Value {
    recordings.iter().map(|(name, recording)| one(name, recording)).collect()
}

fn one(name: &str, recording: &Recording) -> Value {
    let mut began = BTreeMap::new();
    let mut decisions: BTreeMap<String, u64> = BTreeMap::new();
    let (mut turns, mut messages, mut agent, mut end) = (Vec::new(), 0_u64, Value::Null, Value::Null);
    for timed in &recording.entries {
        match &timed.entry {
            Entry::Message(_) => messages += 1,
            Entry::Opened(opened) => agent = json!(opened.agent),
            Entry::Call(call) => drop(call.turn.map(|turn| began.entry(turn).or_insert(timed.time))),
            Entry::Decision(decision) => {
                let by = serde_json::to_value(decision.by).unwrap_or_default();
                *decisions.entry(by.as_str().unwrap_or_default().to_owned()).or_default() += 1;
            }
            Entry::Turn(turn) => {
                let duration = began.get(&turn.turn).map(|began| rounded(timed.time - began));
                turns.push(summarised(turn, duration));
            }
            Entry::End(ended) => end = json!({"reason": ended.reason, "error": ended.error, "time": timed.time}),
            _ => {}
        }
    }
    json!({
        "name": name,
        "started": recording.header.started,
        "dialect": recording.header.dialect,
        "agent": agent,
        "messages": messages,
        "decisions": decisions,
        "turns": turns,
        "end": end,
        "is_cut": recording.is_cut,
    })
}

fn summarised(turn: &TurnEntry, duration: Option<f64>) -> Value {
    let result = turn.result_value();
    let of = |name: &str| result.get(name).cloned().unwrap_or_default();
    let count = |name: &str| of(name).as_array().map(Vec::len);
    json!({
        "turn": turn.turn,
        "status": of("status"),
        "error": turn.error,
        "duration": duration,
        "steps": of("steps"),
        "usage": of("usage"),
        "tool_calls": count("tool_calls"),
        "rejected": count("rejected"),
        "text": of("text"),
    })
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}
