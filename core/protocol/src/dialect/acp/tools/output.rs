//! The content and the raw output of a call, and the result that is made of them.

use std::hash::BuildHasher as _;

use agent_client_protocol_schema::v1::ToolCallContent;
use serde_json::{Value, json};

use super::arguments::hash_of;
use super::late::{ReportedEnd, hash_of_raw};
use super::{Call, UNFINISHED};
use crate::connection::EARLIER_TURN;
use crate::dialect::acp::{content, meta};
use crate::messages::{DisplayBlock, Event, ToolResult, ToolReturnValue};

impl Call {
    pub(super) fn keep_content(&mut self, content: Vec<ToolCallContent>) {
        self.content_size = content.iter().map(content::size).sum();
        self.content = content;
    }

    /// Takes the changes of files from the newest content, and returns the rest.
    pub(super) fn take_content(&mut self, content: Vec<ToolCallContent>) -> Vec<ToolCallContent> {
        let mut others = Vec::new();
        for item in content {
            let diff = match item {
                ToolCallContent::Diff(diff) => diff,
                ToolCallContent::Content(_) => {
                    others.push(item);
                    continue;
                }
                _ => continue,
            };
            if self.displayed.insert(self.displayed.hasher().hash_one((&diff.path, &diff.old_text, &diff.new_text))) {
                let block = content::change(diff);
                self.display_size +=
                    size_of::<DisplayBlock>() + block.path.len() + block.old_text.len() + block.new_text.len();
                self.display.push(DisplayBlock::Diff(block));
            }
        }
        others
    }
}

impl Call {
    /// Ends the call, and returns its result.
    pub(super) fn end(&mut self, failed: bool, raw_output: Option<Value>) -> ToolResult {
        let call = self;
        call.ended = true;
        let mut extras = std::mem::take(&mut call.about);
        if let Some(title) = call.title.take() {
            extras.insert("title".to_owned(), json!(title));
        }
        let content = std::mem::take(&mut call.content);
        let meta = call.meta.take();
        let shown = call.raw_output.take();
        let raw_output = if shown.is_some() && !raw_output.as_ref().is_some_and(has_text) { shown } else { raw_output };
        let raw = hash_of_raw(raw_output.as_ref());
        let (output, rest) = content::output_and_rest(raw_output, content);
        if let Some(rest) = rest {
            extras.insert("rawOutput".to_owned(), rest);
        }
        call.reported_end = ReportedEnd::new(failed, &output, raw);
        let mut result = ToolResult {
            tool_call_id: call.id.clone(),
            return_value: ToolReturnValue {
                is_error: failed,
                output,
                message: String::new(),
                display: std::mem::take(&mut call.display),
                extras: (!extras.is_empty()).then_some(extras),
                extra: Default::default(),
            },
            extra: Default::default(),
            tool_call: Default::default(),
        };
        (call.about_size, call.content_size, call.raw_size, call.display_size) = (0, 0, 0, 0);
        call.ended_with = hash_of(&std::mem::take(&mut call.arguments));
        if call.is_of_earlier_turn {
            result.extra.insert(EARLIER_TURN, json!(true));
        }
        meta::put(&mut result.extra, meta);
        result
    }

    /// Returns the result of a call that has not ended with its turn. `None` if it has shown no output.
    pub(super) fn end_unfinished(&mut self, is_failure: bool) -> Option<(Event, usize)> {
        if self.ended || (self.content.is_empty() && self.raw_output.is_none()) {
            return None;
        }
        let size = self.size();
        self.unfinished_arguments.clone_from(&self.arguments);
        let mut result = self.end(is_failure, None);
        self.is_unfinished = true;
        result.return_value.message = UNFINISHED.to_owned();
        result.extra.insert("synthesized", json!(true));
        Some((result.into(), size))
    }
}

/// Returns the first text of a raw output that is output. A status or the command itself is not.
pub(super) fn text(raw: &Value) -> Option<&str> {
    const OUTPUT: [&str; 10] = [
        "output",
        "stdout",
        "stderr",
        "text",
        "content",
        "result",
        "aggregated_output",
        "aggregatedOutput",
        "formatted_output",
        "formattedOutput",
    ];
    match raw {
        Value::String(text) => Some(&**text).filter(|text| !text.is_empty()),
        Value::Array(items) => items.iter().find_map(text),
        Value::Object(members) => OUTPUT.iter().find_map(|name| text(members.get(*name)?)),
        _ => None,
    }
}

pub(super) fn has_text(raw: &Value) -> bool {
    text(raw).is_some()
}
