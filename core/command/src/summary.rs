//! The summary of recordings as JSON.

use std::collections::BTreeMap;

use kimi_agent_protocol::messages::Event;
use kimi_agent_protocol::recording::{CallKind, Entry, Recording, TurnEntry};
use serde_json::{Value, json};

use crate::inspect::RecordingFile;

/// Returns a list with the turns, decisions and end of each recording.
pub(crate) fn of(recordings: &[RecordingFile]) -> Value {
    recordings.iter().map(|file| one(&file.name, &file.recording)).collect()
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
    if end.is_null() {
        turns.extend(unfinished(recording, &began));
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

/// Returns the turns that ran when the recording ended, for example because the program was killed.
fn unfinished(recording: &Recording, began: &BTreeMap<u64, f64>) -> Vec<Value> {
    let mut running: Vec<u64> = Vec::new();
    for timed in &recording.entries {
        match &timed.entry {
            Entry::Call(call) if call.call == CallKind::Prompt => running.extend(call.turn),
            Entry::Turn(ended) => running.retain(|turn| *turn != ended.turn),
            _ => {}
        }
    }
    if running.is_empty() {
        return Vec::new();
    }
    let last = recording.entries.last().map_or(0.0, |timed| timed.time);
    let events = recording.events();
    let summarised = |turn: u64| {
        let of_turn = events.iter().filter(|recorded| recorded.turn == Some(turn));
        let count = |is: fn(&Event) -> bool| of_turn.clone().filter(|recorded| is(&recorded.event)).count();
        json!({
            "turn": turn,
            "status": null,
            "error": null,
            "duration": began.get(&turn).map(|began| rounded(last - began)),
            "steps": count(|event| matches!(event, Event::StepBegin(_))),
            "usage": null,
            "tool_calls": count(|event| matches!(event, Event::ToolCall(_))),
            "rejected": null,
            "text": null,
        })
    };
    running.into_iter().map(summarised).collect()
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}
