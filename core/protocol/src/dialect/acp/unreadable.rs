//! Descriptions of tool calls that cannot be read in full. The types of the protocol's crate leave out such parts without
//! a word, and a decision would not know about them.

use agent_client_protocol_schema::v1::{ToolCallContent, ToolCallLocation};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Acp;
use crate::json::scan::{for_each_member, text_of};

/// Returns whether a call has locations or changes of files that cannot be read.
fn hides_places(call: &str) -> bool {
    let mut hides = false;
    let read = for_each_member(call, |name, value| {
        hides |= match name.decode().as_deref() {
            Some("locations") => value != "null" && serde_json::from_str::<Vec<ToolCallLocation>>(value).is_err(),
            Some("content") => has_unreadable_change(value),
            _ => false,
        };
        Ok(())
    });
    read.is_err() || hides
}

fn has_unreadable_change(content: &str) -> bool {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow, rename = "type")]
        kind: &'a RawValue,
    }
    let is_unreadable = |item: &str| {
        let kind = serde_json::from_str::<Typed<'_>>(item).ok().and_then(|item| text_of(item.kind.get()));
        kind.is_some_and(|kind| kind == "diff") && serde_json::from_str::<ToolCallContent>(item).is_err()
    };
    match serde_json::from_str::<Vec<&RawValue>>(content) {
        Ok(items) => items.iter().any(|item| is_unreadable(item.get())),
        // Some agents send one item without a list.
        Err(_) => is_unreadable(content),
    }
}

impl Acp {
    /// Notes that a call names places that cannot be read: no rule with a pattern allows it.
    pub(super) fn note_unreadable(&mut self, id: &str, call: &str) {
        if hides_places(call) {
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
    use super::hides_places;

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
            assert!(!hides_places(call), "{call}");
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
        ] {
            assert!(hides_places(call), "{call}");
        }
    }
}
