//! Recordings of sessions, without I/O: the entries of a file, the reading of its lines, and the replacement of secrets
//! and of the machine's directories. docs/recording-format.md specifies the format.

mod entry;
mod events;
mod keys;
mod read;
mod redact;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;
use serde::de::IgnoredAny;

pub use entry::{
    AgentName, CallEntry, CallKind, Decider, DecisionEntry, EndEntry, EndReason, Entry, ErrorText, GapEntry,
    HeaderEntry, MessageEntry, OpenedEntry, RecordsEntry, SdkName, Side, TimedEntry, ToolCallEntry, ToolOfProgram,
    ToolResultEntry, TurnEntry,
};
pub use events::RecordedEvent;
pub use read::{InvalidRecording, Recording};
pub use redact::{Place, Redactor};

/// The version of the format.
pub const FORMAT: u32 = 1;

/// Receives the entries of a recording as they happen. It adds the time, and must not block.
pub trait Recorder: fmt::Debug + Send {
    /// Takes a line between the SDK and the agent.
    fn message(&mut self, from: Side, line: &[u8]);
    /// Takes another entry.
    fn entry(&mut self, entry: Entry);
}

/// Writes the entry of a line between the SDK and the agent, with a line feed. `time` is in seconds.
pub fn write_message(out: &mut Vec<u8>, time: f64, from: Side, line: &[u8], redactor: &Redactor) {
    let line = redactor.redacted(line);
    let line = String::from_utf8_lossy(&line);
    let line = line.trim_end_matches(['\r', '\n']);
    if serde_json::from_str::<IgnoredAny>(line).is_err() {
        let entry = Entry::Message(MessageEntry { from, message: None, line: Some(line.to_owned()) });
        return write_line(out, &TimedEntry { time, entry });
    }
    // Most of a recording are these lines: the message is copied once, and not encoded again.
    let from = match from {
        Side::Sdk => "sdk",
        Side::Agent => "agent",
    };
    out.extend_from_slice(format!(r#"{{"time":{time},"type":"message","from":"{from}","message":"#).as_bytes());
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(b"}\n");
}

/// Writes the first entry, with a line feed. Secrets are replaced in its JSON.
pub fn write_header(out: &mut Vec<u8>, header: HeaderEntry, redactor: &Redactor) {
    let mut line = Vec::new();
    write_line(&mut line, &Entry::Header(Box::new(header)));
    out.extend_from_slice(&redactor.redacted(&line));
}

/// Writes an entry, with a line feed. Secrets are replaced in its JSON.
pub fn write_entry(out: &mut Vec<u8>, time: f64, entry: Entry, redactor: &Redactor) {
    let mut line = Vec::new();
    write_line(&mut line, &TimedEntry { time, entry });
    out.extend_from_slice(&redactor.redacted(&line));
}

fn write_line(out: &mut Vec<u8>, entry: &impl Serialize) {
    // The entries are maps with text as keys, so they cannot fail to be encoded.
    if serde_json::to_writer(&mut *out, entry).is_ok() {
        out.push(b'\n');
    }
}
