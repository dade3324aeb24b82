//! The form of updates of calls: whether it is that of the protocol, and a readable form of others.

use agent_client_protocol_schema::v1::{self as acp, ToolCallContent};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::dialect::acp::failure;
use crate::json::scan::for_each_member;
use crate::json::{Key, parsed_object};

/// Returns whether the id, the title, the status and the content of an update have the forms of the protocol.
pub(in super::super) fn is_plain(update: &str, needs_title: bool) -> bool {
    const STATUSES: [&str; 5] = ["\"pending\"", "\"in_progress\"", "\"completed\"", "\"failed\"", "null"];
    let (mut is_plain, mut has_title) = (true, !needs_title);
    let read = for_each_member(update, |name, value| {
        is_plain &= match name.written() {
            "status" => STATUSES.contains(&value),
            "title" => {
                has_title |= value.starts_with('"');
                value.starts_with('"') || value == "null"
            }
            "toolCallId" => value.starts_with('"'),
            "content" => value == "null" || has_plain_items(value),
            _ => true,
        };
        Ok(())
    });
    read.is_ok() && is_plain && has_title
}

pub(super) fn has_plain_items(content: &str) -> bool {
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(borrow, rename = "type")]
        kind: Key<'a>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        #[serde(borrow)]
        path: Option<&'a RawValue>,
        #[serde(borrow, rename = "oldText")]
        old_text: Option<&'a RawValue>,
        #[serde(borrow, rename = "newText")]
        new_text: Option<&'a RawValue>,
    }
    let is_text = |value: &RawValue| value.get().starts_with('"');
    let Ok(items) = serde_json::from_str::<Vec<Item<'_>>>(content) else { return false };
    items.iter().all(|item| match &*item.kind.0 {
        "content" => item.content.is_some_and(|block| serde_json::from_str::<acp::ContentBlock>(block.get()).is_ok()),
        "diff" => {
            item.path.is_some_and(is_text) && item.new_text.is_some_and(is_text) && item.old_text.is_none_or(is_text)
        }
        "terminal" => true,
        _ => false,
    })
}

/// Makes an update of a tool call readable: a number as the id becomes text, a status of other agents becomes one of the protocol,
/// and content without a known form becomes text. `None` if the update is not an object.
pub(in super::super) fn readable(update: &str) -> Option<String> {
    let mut update = parsed_object(update)?;
    if let Some(Value::String(status)) = update.get("status") {
        let word = failure::in_snake_case(status);
        let status = match &*word {
            "cancelled" | "canceled" | "error" | "errored" | "failure" | "aborted" | "rejected" | "denied"
            | "timeout" | "timed_out" | "interrupted" | "killed" | "refused" => "failed",
            "success" | "successful" | "succeeded" | "complete" | "done" | "finished" | "ok" => "completed",
            "running" | "started" | "executing" => "in_progress",
            word => word,
        };
        let status = status.to_owned();
        update.insert("status".to_owned(), status.into());
    }
    if let Some(Value::Number(id)) = update.get("toolCallId") {
        let id = id.to_string();
        update.insert("toolCallId".to_owned(), id.into());
    }
    if !update.get("title").is_none_or(Value::is_string) {
        update.remove("title");
    }
    if update.get("sessionUpdate").is_some_and(|kind| kind == "tool_call") {
        update.entry("title").or_insert_with(|| "".into());
    }
    if let Some(content) = update.get_mut("content").filter(|content| !content.is_null()) {
        let items = match content.take() {
            Value::Array(items) => items,
            single => vec![single],
        };
        *content = items.into_iter().map(readable_content).collect();
    }
    Some(Value::Object(update).to_string())
}

pub(super) fn readable_content(item: Value) -> Value {
    let is_plain = serde_json::from_value::<ToolCallContent>(item.clone()).is_ok();
    if is_plain {
        return item;
    }
    let text = match &item {
        Value::String(text) => Some(text),
        item => match item.get("text").or_else(|| item.get("content")?.get("text")).or_else(|| item.get("content")) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        },
    };
    let text = text.cloned().unwrap_or_else(|| item.to_string());
    json!({"type": "content", "content": {"type": "text", "text": text}})
}
