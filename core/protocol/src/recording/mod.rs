//! Recordings of sessions, without I/O: the entries of a file, the reading of its lines, and the replacement of secrets
//! and of the machine's directories. docs/recording-format.md specifies the format.

mod clean;
mod comparison;
mod decoded;
mod entry;
mod escapes;
mod events;
mod keys;
mod literals;
mod names;
mod pairs;
mod parts;
mod pieces;
mod places;
mod purpose;
mod read;
mod redact;
mod spellings;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::time::Instant;

use serde::Serialize;
use serde::de::IgnoredAny;

pub(crate) use decoded::decoded;

pub use comparison::{Difference, difference};
pub use entry::{
    AgentName, CallEntry, CallKind, Decider, DecisionEntry, EndEntry, EndReason, Entry, ErrorText, GapEntry,
    HeaderEntry, MessageEntry, OpenedEntry, PolicyEntry, RecordsEntry, SdkName, Side, TimedEntry, ToolCallEntry,
    ToolOfProgram, ToolResultEntry, TurnEntry,
};
pub use events::RecordedEvent;
pub use parts::{SecretTexts, masked_arguments};
pub use places::Places;
pub use purpose::{Purpose, prompt_nonce};
pub use read::{InvalidRecording, Recording};
pub use redact::{MASK, Place, Redactor};
pub use writer::EntryWriter;

use crate::json::scan::for_each_member;

/// The version of the format.
pub const FORMAT: u32 = 1;
/// The beginning of a report of the agent that plays a recording: the program does something else.
pub const PROGRAM_DIFFERS: &str = "the program differs from the recording: ";
/// A part of such a report if the program has left out something.
pub const PROGRAM_NEVER: &str = "the program never ";

/// The end of an entry of a message.
const END: &[u8] = b"}\n";

/// Receives the entries of a recording as they happen. It must not block.
pub trait Recorder: fmt::Debug + Send {
    /// Takes a line between the SDK and the agent, and its time. `is_json` if it is known to be an object of JSON.
    fn message(&mut self, now: Instant, from: Side, line: &[u8], is_json: bool);
    /// Takes another entry.
    fn entry(&mut self, entry: Entry);
}

/// The beginning of the last entry of a message, which the next one has, too, if it came at the same time.
#[derive(Debug, Default)]
struct Head {
    of: Option<(f64, Side)>,
    text: Vec<u8>,
}

impl Head {
    /// Writes the entry of a line between the SDK and the agent, whose secrets are replaced, with a line feed.
    fn write_message(&mut self, out: &mut Vec<u8>, time: f64, from: Side, line: &[u8], is_json: bool) {
        if !is_json && serde_json::from_slice::<IgnoredAny>(line).is_err() {
            let line = Some(String::from_utf8_lossy(line).into_owned());
            let entry = Entry::Message(MessageEntry { from, message: None, line });
            return write_line(out, &TimedEntry { time, entry });
        }
        if self.of != Some((time, from)) {
            self.set(time, from);
        }
        // Most of a recording are these lines: the message is copied once, and not encoded again.
        out.reserve(self.text.len() + line.len() + END.len());
        for part in [&self.text, line, END] {
            out.extend_from_slice(part);
        }
    }

    fn set(&mut self, time: f64, from: Side) {
        self.of = Some((time, from));
        self.text.clear();
        self.text.extend_from_slice(b"{\"time\":");
        // A number cannot fail to be encoded.
        serde_json::to_writer(&mut self.text, &time).ok();
        self.text.extend_from_slice(match from {
            Side::Sdk => b",\"type\":\"message\",\"from\":\"sdk\",\"message\":".as_slice(),
            Side::Agent => b",\"type\":\"message\",\"from\":\"agent\",\"message\":".as_slice(),
        });
    }
}

/// Writes the first entry, with a line feed. Secrets are replaced in it.
fn write_header(out: &mut Vec<u8>, header: HeaderEntry, redactor: &Redactor) {
    write_redacted(out, &Entry::Header(Box::new(header)), redactor);
}

/// Writes an entry, with a line feed. Secrets are replaced in it.
fn write_entry(out: &mut Vec<u8>, time: f64, entry: Entry, redactor: &Redactor) {
    write_redacted(out, &TimedEntry { time, entry }, redactor);
}

/// Members of entries whose values are the SDK's own, also such as are not words. A value of an option can be the same.
const FIXED: &[&str] = &[
    "by",
    "bytes",
    "call",
    "decision",
    "dialect",
    "duration",
    "entries",
    "exit_code",
    "format",
    "kind",
    "reason",
    "sdk",
    "signal",
    "started",
    "time",
    "turn",
    "type",
];

fn write_redacted(out: &mut Vec<u8>, entry: &impl Serialize, redactor: &Redactor) {
    // The entries are maps with text as keys, so they cannot fail to be encoded.
    let Ok(json) = serde_json::to_string(entry) else { return };
    let (mut begin, mut is_policy) = ("{\"", false);
    let written = for_each_member(&json, |name, value| {
        is_policy |= name.written() == "type" && value == "\"policy\"";
        for part in [begin.as_bytes(), name.written().as_bytes(), b"\":"] {
            out.extend_from_slice(part);
        }
        // The reason of a decision quotes the call.
        let is_fixed = FIXED.contains(&name.written()) && !(is_policy && name.written() == "reason");
        match is_fixed {
            true => out.extend_from_slice(value.as_bytes()),
            false => out.extend_from_slice(&redactor.redacted_json(&redactor.readable(value.as_bytes()))),
        }
        begin = ",\"";
        Ok(())
    });
    debug_assert!(written.is_ok(), "an entry is an object");
    out.extend_from_slice(END);
}

fn write_line(out: &mut Vec<u8>, entry: &impl Serialize) {
    // The entries are maps with text as keys, so they cannot fail to be encoded.
    if serde_json::to_writer(&mut *out, entry).is_ok() {
        out.push(b'\n');
    }
}
