//! The page of the inspector, and the recordings in it.

use kimi_agent_protocol::recording::{Entry, Recording};
use serde_json::{Value, json};

/// The page of this build; empty if it was built without the inspector.
pub(crate) const PAGE: &str = include_str!(concat!(env!("OUT_DIR"), "/inspector.html"));
const PLACE: &str = r#"<script type="application/json" id="kimi-agent-recordings">"#;
/// The version of the recordings in the page.
const VERSION: u32 = 1;

/// Returns a page with these recordings, by their names. `None` if it has no place for them.
pub(crate) fn filled(page: &str, recordings: &[(String, Recording)]) -> Option<String> {
    let (before, after) = page.split_once(PLACE)?;
    let model = json!({
        "inspector": VERSION,
        "recordings": recordings.iter().map(|(name, recording)| described(name, recording)).collect::<Vec<_>>(),
    });
    Some(format!("{before}{PLACE}{}{after}", escaped(&model.to_string())))
}

/// Returns a recording with the events of each entry.
fn described(name: &str, recording: &Recording) -> Value {
    let mut entries: Vec<Value> = recording
        .entries
        .iter()
        .map(|timed| match &timed.entry {
            Entry::Unknown => json!({"type": "unknown", "time": timed.time}),
            _ => serde_json::to_value(timed).unwrap_or_default(),
        })
        .collect();
    for recorded in recording.events() {
        let Some(Value::Object(entry)) = entries.get_mut(recorded.entry) else { continue };
        let event = json!({"turn": recorded.turn, "step": recorded.step, "event": recorded.event});
        if let Some(events) = entry.entry("events").or_insert_with(|| json!([])).as_array_mut() {
            events.push(event);
        }
    }
    json!({"name": name, "header": recording.header, "entries": entries})
}

/// Escapes JSON for an element `script`, which ends at the first `</script>`.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            other => out.push(other),
        }
    }
    out
}
