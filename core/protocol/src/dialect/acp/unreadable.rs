//! Descriptions of tool calls that cannot be read in full. The types of the protocol's crate leave out such parts without
//! a word, and a decision would not know about them.

use std::borrow::Cow;

use agent_client_protocol_schema::v1::{ToolCallContent, ToolCallLocation};
use serde_json::value::RawValue;

use super::Acp;
use crate::json::scan::{for_each_member, text_of};
use crate::jsonrpc::relayed::has_repeated_names;

/// The message that describes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Update,
    /// Content that is not a list is left out.
    Request,
}

/// Returns whether a call has locations or changes of files that cannot be read, or a member twice, of which the SDK knows one.
fn hides_places(call: &str, of: Of) -> bool {
    let mut hides = false;
    let read = for_each_member(call, |name, value| {
        hides |= match name.decode().as_deref() {
            Some("locations") => value != "null" && serde_json::from_str::<Vec<ToolCallLocation>>(value).is_err(),
            Some("content") => has_unreadable_change(value, of),
            _ => false,
        };
        Ok(())
    });
    read.is_err() || hides || has_repeated_names(call)
}

fn has_unreadable_change(content: &str, of: Of) -> bool {
    match serde_json::from_str::<Vec<&RawValue>>(content) {
        Ok(items) => items.iter().any(|item| is_change(item.get()) && !is_readable(item.get())),
        // Some agents send one item without a list.
        Err(_) => is_change(content) && (of == Of::Request || !is_readable(content)),
    }
}

fn is_readable(item: &str) -> bool {
    serde_json::from_str::<ToolCallContent>(item).is_ok()
}

/// Whether an item can be the change of a file: by its type, in any spelling, or by its members.
fn is_change(item: &str) -> bool {
    let mut is_change = false;
    let read = for_each_member(item, |name, value| {
        is_change |= match name.decode().as_deref() {
            Some("type") => text_of(value).is_some_and(|kind| kind.to_lowercase().contains("diff")),
            Some("path" | "newText" | "oldText") => true,
            _ => false,
        };
        Ok(())
    });
    item.starts_with('{') && (is_change || read.is_err())
}

/// Returns what a request says about its call in a form that cannot be read, as text: a program that decides must see it.
pub(super) fn unread_parts(call: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let read = for_each_member(call, |name, value| {
        match name.decode().as_deref() {
            Some("content") if value != "null" => match serde_json::from_str::<Vec<&RawValue>>(value) {
                Ok(items) => {
                    parts.extend(items.iter().map(|item| item.get()).filter(|item| !is_readable(item)).map(shown));
                }
                Err(_) => parts.push(shown(value)),
            },
            Some("locations") if value != "null" && serde_json::from_str::<Vec<ToolCallLocation>>(value).is_err() => {
                parts.push(format!("locations: {value}"));
            }
            Some("rawInput") if value != "null" && (!value.starts_with('{') || has_repeated_names(value)) => {
                parts.push(format!("rawInput: {value}"));
            }
            _ => {}
        }
        Ok(())
    });
    if read.is_err() {
        parts.push(call.to_owned());
    }
    parts
}

/// A text without its quotes, and any other value as it is written.
fn shown(value: &str) -> String {
    text_of(value).map_or_else(|| value.to_owned(), Cow::into_owned)
}

impl Acp {
    /// Notes that a call names places that cannot be read: no rule with a pattern allows it.
    pub(super) fn note_unreadable(&mut self, id: &str, call: &str, of: Of) {
        if hides_places(call, of) {
            tracing::debug!(
                field = "locations, content",
                "places of a tool call that can't be read: no rule with a pattern allows it"
            );
            self.tools.set_incomplete(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Of, hides_places, unread_parts};

    #[test]
    fn unread_parts_are_shown() {
        for (call, parts) in [
            (r#"{"content": [{"type": "diff", "path": "/a", "newText": "b"}], "rawInput": {"a": 1}}"#, &[][..]),
            (r#"{"content": null, "locations": null, "rawInput": null}"#, &[]),
            (r#"{"locations": [{"path": "/a"}]}"#, &[]),
            (r#"{"content": [{"type": "diff", "path": "/a"}]}"#, &[r#"{"type": "diff", "path": "/a"}"#]),
            (r#"{"content": ["delete /a", 7]}"#, &["delete /a", "7"]),
            (r#"{"content": "delete \u002fa"}"#, &["delete /a"]),
            (r#"{"locations": ["/a"]}"#, &[r#"locations: ["/a"]"#]),
            (r#"{"rawInput": "rm -rf /"}"#, &[r#"rawInput: "rm -rf /""#]),
            (r#"{"raw\u0049nput": ["rm", "-rf"]}"#, &[r#"rawInput: ["rm", "-rf"]"#]),
        ] {
            assert_eq!(unread_parts(call), parts, "{call}");
        }
    }

    #[test]
    fn readable_descriptions_hide_nothing() {
        for call in [
            r"{}",
            r#"{"locations": null, "content": null}"#,
            r#"{"locations": [], "content": []}"#,
            r#"{"locations": [{"path": "/a", "line": 3}, {"path": "/b", "_meta": {}}]}"#,
            r#"{"content": [{"type": "diff", "path": "/a", "oldText": null, "newText": "b"}]}"#,
            r#"{"content": {"type": "diff", "path": "/a", "newText": "b"}}"#,
            r#"{"content": "done"}"#,
            r#"{"content": [{"type": "content", "content": {"type": "text", "text": "a"}}, {"type": "new"}, 7]}"#,
        ] {
            assert!(!hides_places(call, Of::Update), "{call}");
        }
    }

    #[test]
    fn unreadable_places_are_noticed() {
        for call in [
            r#"{"locations": {"path": "/a"}}"#,
            r#"{"locations": "/a"}"#,
            r#"{"locations": ["/a"]}"#,
            r#"{"locations": [{"path": "/a"}, {"file": "/b"}]}"#,
            r#"{"locations": [{"path": 7}]}"#,
            r#"{"\u006cocations": [null]}"#,
            r#"{"content": [{"type": "diff", "file": "/a", "newText": "b"}]}"#,
            r#"{"content": [{"type": "\u0064iff", "path": ["/a"], "newText": "b"}]}"#,
            r#"{"content": {"type": "diff", "path": "/a"}}"#,
            r#"{"content": [{"type": "Diff", "path": "/a", "newText": "b"}]}"#,
            r#"{"content": [{"type": "file_change", "path": "/a", "newText": "b"}]}"#,
            r#"{"content": [{"path": "/a", "newText": "b"}]}"#,
        ] {
            assert!(hides_places(call, Of::Update), "{call}");
        }
    }

    #[test]
    fn requests_leave_out_content_that_is_no_list() {
        let change = r#"{"content": {"type": "diff", "path": "/a", "newText": "b"}}"#;
        assert!(hides_places(change, Of::Request) && !hides_places(change, Of::Update));
        for call in
            [r#"{"content": {"type": "content", "content": {"type": "text", "text": "a"}}}"#, r#"{"content": "a"}"#]
        {
            assert!(!hides_places(call, Of::Request), "{call}");
        }
    }
}
