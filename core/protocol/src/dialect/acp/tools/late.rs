//! What agents report after the end of a call: output that its result lacks, or another end.

use std::hash::{DefaultHasher, Hasher as _};

use agent_client_protocol_schema::v1::{ToolCallStatus, ToolCallUpdateFields};
use serde::Serialize;
use serde_json::Value;

use super::output::text;
use super::{Tools, is_end};
use crate::dialect::acp::content;
use crate::messages::Content;

/// The end of a call, as the agent has reported it last.
#[derive(Debug, Default)]
pub(super) struct ReportedEnd {
    is_failure: bool,
    /// The hash of the output. `None` if there was none.
    output: Option<u64>,
    /// The hash of the raw output.
    raw: Option<u64>,
}

/// A hash of what is written, because an output can be large.
#[derive(Default)]
struct Hashed(DefaultHasher);

impl std::io::Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn hash_of(value: &impl Serialize) -> Option<u64> {
    let mut hashed = Hashed::default();
    serde_json::to_writer(&mut hashed, value).ok().map(|()| hashed.0.finish())
}

fn hash_of_output(output: &Content) -> Option<u64> {
    let is_empty = matches!(output, Content::Text(text) if text.is_empty());
    hash_of(output).filter(|_| !is_empty)
}

/// The hash of a raw output. `None` without one.
pub(super) fn hash_of_raw(raw: Option<&Value>) -> Option<u64> {
    raw.filter(|raw| !raw.is_null()).and_then(hash_of)
}

impl ReportedEnd {
    pub(super) fn new(is_failure: bool, output: &Content, raw: Option<u64>) -> Self {
        Self { is_failure, output: hash_of_output(output), raw }
    }
}

impl Tools {
    /// Takes in an update of a call that has ended. Returns whether it says what the result of the call does not say.
    pub(in super::super) fn take_late(&mut self, id: &str, fields: &ToolCallUpdateFields) -> bool {
        let Some(call) = self.find(id).filter(|call| call.ended && !call.has_other_input(fields)) else { return false };
        let changes = call.displayed.len();
        let others = call.take_content(fields.content.clone().unwrap_or_default());
        call.display = Vec::new();
        call.display_size = 0;
        call.outlives_turn &= !is_end(fields);
        let before = &mut call.reported_end;
        let raw = hash_of_raw(fields.raw_output.as_ref());
        // Raw output stands for missing content. Beside content it is new if it has another text.
        let shown = fields.raw_output.as_ref().and_then(text).and_then(|text| hash_of_output(&text.into()));
        let is_other = raw.is_some() && raw != before.raw && shown != before.output;
        let stands = fields.raw_output.clone().filter(|_| before.output.is_none());
        let is_failure = if is_end(fields) { fields.status == Some(ToolCallStatus::Failed) } else { before.is_failure };
        let mut now = ReportedEnd::new(is_failure, &content::output(stands, others), raw.or(before.raw));
        now.output = now.output.or(before.output);
        let is_new = now.output != before.output || now.is_failure != before.is_failure || is_other;
        *before = now;
        is_new || call.displayed.len() > changes
    }
}
