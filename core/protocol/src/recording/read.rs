//! The reading of recordings.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::FORMAT;
use super::entry::{Entry, HeaderEntry, TimedEntry};

/// A recording that was read.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The first entry.
    pub header: HeaderEntry,
    /// The other entries, in order.
    pub entries: Vec<TimedEntry>,
    /// Whether the last line was cut, because the program was killed or still writes.
    pub is_cut: bool,
}

/// Why a text is not a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct InvalidRecording {
    /// The number of the line, from 1 on.
    pub line: usize,
    /// The problem.
    pub reason: String,
}

impl Recording {
    /// Reads a recording. A last line that is cut is ignored, and so are entries of unknown types.
    ///
    /// # Errors
    /// [`InvalidRecording`] names the line and the problem.
    pub fn read(text: &str) -> Result<Self, InvalidRecording> {
        let mut lines = text.split_inclusive('\n').enumerate();
        let fail = |line: usize, reason: String| InvalidRecording { line: line + 1, reason };
        let (_, first) = lines.next().ok_or_else(|| fail(0, "the file is empty".to_owned()))?;
        let header = read_header(first).map_err(|reason| fail(0, reason))?;
        let (mut entries, mut is_cut) = (Vec::new(), false);
        for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            match read_entry(line) {
                Ok(entry) => entries.push(entry),
                Err(_) if !line.ends_with('\n') => is_cut = true,
                Err(reason) => return Err(fail(number, reason)),
            }
        }
        Ok(Self { header, entries, is_cut })
    }
}

fn read_header(line: &str) -> Result<HeaderEntry, String> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: String,
        format: u32,
    }
    let not = |error: serde_json::Error| format!("it is not the header of a recording: {}", in_line(&error));
    // The problem of another file, for example an image, would not help.
    let kind: Kind = serde_json::from_str(line).map_err(|_| "it is not the header of a recording".to_owned())?;
    if kind.kind != "header" {
        return Err(format!("it is not the header of a recording, but an entry `{}`", kind.kind));
    }
    if kind.format > FORMAT {
        let format = kind.format;
        return Err(format!(
            "the format {format} is newer than this version of kimi-agent reads, which is {FORMAT}; update it"
        ));
    }
    serde_json::from_str(line).map_err(not)
}

fn read_entry(line: &str) -> Result<TimedEntry, String> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: String,
        time: f64,
    }
    let Kind { kind, time } = parse(line)?;
    let entry = match kind.as_str() {
        "message" => Entry::Message(parse(line)?),
        "opened" => Entry::Opened(parse(line)?),
        "call" => Entry::Call(parse(line)?),
        "decision" => Entry::Decision(parse(line)?),
        "policy" => Entry::Policy(parse(line)?),
        "tool_call" => Entry::ToolCall(parse(line)?),
        "tool_result" => Entry::ToolResult(parse(line)?),
        "records" => Entry::Records(parse(line)?),
        "turn" => Entry::Turn(parse(line)?),
        "gap" => Entry::Gap(parse(line)?),
        "end" => Entry::End(parse(line)?),
        _ => Entry::Unknown,
    };
    Ok(TimedEntry { time, entry })
}

fn parse<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line.trim_end()).map_err(|error| format!("it cannot be read: {}", in_line(&error)))
}

/// Describes a problem of JSON by its column. The text of the parser counts lines from the start of the entry.
fn in_line(error: &serde_json::Error) -> String {
    let (text, column) = (error.to_string(), error.column());
    let reason = text.strip_suffix(&format!(" at line {} column {column}", error.line()));
    reason.map_or(text.clone(), |reason| format!("{reason}, at column {column}"))
}
