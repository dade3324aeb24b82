//! The page of the inspector, and the recordings in it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use kimi_agent_protocol::messages::Event;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::inspect::RecordingFile;

/// The page of this build; empty if it was built without the inspector.
pub(crate) const PAGE: &str = include_str!(concat!(env!("OUT_DIR"), "/inspector.html"));
const PLACE: &str = r#"<script type="application/json" id="kimi-agent-recordings">"#;
/// The version of the recordings in the page.
const VERSION: u32 = 2;
/// The recordings begin before this many bytes of a page, in every version of the inspector.
const BEFORE: u64 = 4 << 20;

#[derive(Serialize)]
struct Embedded<'a> {
    inspector: u32,
    recordings: Vec<EmbeddedRecording<'a>>,
}

/// A recording. Its lines stay text: a `Value` cannot hold all JSON, and the page shows what was recorded.
#[derive(Serialize)]
struct EmbeddedRecording<'a> {
    name: &'a str,
    is_cut: bool,
    header: &'a RawValue,
    entries: Vec<EmbeddedEntry<'a>>,
}

#[derive(Serialize)]
struct EmbeddedEntry<'a> {
    entry: &'a RawValue,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<EmbeddedEvent>,
}

#[derive(Serialize)]
struct EmbeddedEvent {
    turn: Option<u64>,
    step: u32,
    event: Event,
}

/// Returns a page with these recordings. `None` if it has no place for them.
pub(crate) fn filled(page: &str, files: &[RecordingFile]) -> Option<String> {
    let (before, after) = page.split_once(PLACE)?;
    let embedded = Embedded { inspector: VERSION, recordings: files.iter().map(embedded).collect() };
    let text = serde_json::to_string(&embedded).ok()?;
    Some(format!("{before}{PLACE}{}{after}", escaped(&text)))
}

/// Returns whether a file is a page of the inspector, of any version.
pub(crate) fn is_page(path: &Path) -> bool {
    let is_file = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let mut begin = Vec::new();
    let read = is_file.then(|| File::open(path).and_then(|file| file.take(BEFORE).read_to_end(&mut begin)));
    read.is_some_and(|read| read.is_ok()) && String::from_utf8_lossy(&begin).contains(PLACE)
}

/// Returns the lines of a recording, each with the events of its entry.
fn embedded(file: &RecordingFile) -> EmbeddedRecording<'_> {
    let mut lines = file.text.lines();
    let header = raw(lines.next().unwrap_or_default());
    // The reader of recordings skips empty lines, and the last line if it is cut.
    let lines = lines.filter(|line| !line.trim().is_empty()).take(file.recording.entries.len());
    let mut entries: Vec<_> = lines.map(|line| EmbeddedEntry { entry: raw(line), events: Vec::new() }).collect();
    for recorded in file.recording.events() {
        if let Some(entry) = entries.get_mut(recorded.entry) {
            entry.events.push(EmbeddedEvent { turn: recorded.turn, step: recorded.step, event: recorded.event });
        }
    }
    EmbeddedRecording { name: &file.name, is_cut: file.recording.is_cut, header, entries }
}

fn raw(line: &str) -> &RawValue {
    serde_json::from_str(line.trim()).unwrap_or(RawValue::NULL)
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
