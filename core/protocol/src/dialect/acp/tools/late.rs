//! What agents report after the end of a call: output that its result lacks, or another end.

use std::hash::{DefaultHasher, Hasher as _};

use agent_client_protocol_schema::v1::{ToolCallStatus, ToolCallUpdateFields};

use super::{Tools, is_end};
use crate::dialect::acp::content;
use crate::messages::Content;

/// The end of a call, as the agent has reported it last.
#[derive(Debug, Default)]
pub(super) struct ReportedEnd {
    is_failure: bool,
    /// The hash of the output. `None` if there was none.
    output: Option<u64>,
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

impl ReportedEnd {
    pub(super) fn new(is_failure: bool, output: &Content) -> Self {
        let is_empty = matches!(output, Content::Text(text) if text.is_empty());
        let mut hashed = Hashed::default();
        let is_read = !is_empty && serde_json::to_writer(&mut hashed, output).is_ok();
        Self { is_failure, output: is_read.then(|| hashed.0.finish()) }
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
        let before = &mut call.reported_end;
        // Raw output stands for missing content.
        let raw = fields.raw_output.clone().filter(|_| before.output.is_none());
        let is_failure = if is_end(fields) { fields.status == Some(ToolCallStatus::Failed) } else { before.is_failure };
        let mut now = ReportedEnd::new(is_failure, &content::output(raw, others));
        now.output = now.output.or(before.output);
        let is_new = now.output != before.output || now.is_failure != before.is_failure;
        *before = now;
        is_new || call.displayed.len() > changes
    }
}
