//! `_meta`: data that agents add to messages. It becomes a field of the event.

use agent_client_protocol_schema::v1 as acp;
use serde_json::{Map, Value};

use crate::dialect::Incoming;
use crate::jsonrpc::is_too_deep;
use crate::messages::{ContentPart, Event, Extra};

const NAME: &str = "_meta";

/// The limit of `_meta` of all updates of one tool call, in bytes. The rest is left out.
const MAX_BYTES: usize = 1 << 20;

/// Reads the text of a `_meta`. `None` if it is not an object.
pub(super) fn read(text: Option<&str>) -> Option<acp::Meta> {
    text.filter(|text| !is_too_deep(text)).and_then(|text| serde_json::from_str(text).ok())
}

/// Merges the `_meta` of a message and of the object in it, which has precedence. `None` if both are empty.
pub(super) fn of_both(of_message: Option<acp::Meta>, of_object: Option<&acp::Meta>) -> Option<acp::Meta> {
    let mut all = of_message.unwrap_or_default();
    if let Some(more) = of_object {
        merge(&mut all, more);
    }
    (!all.is_empty()).then_some(all)
}

/// Merges the members of an object into another one. Objects in both are merged; for other values the later one is
/// used.
fn merge(all: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (name, value) in more {
        match (all.get_mut(name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (Some(old), _) => *old = value.clone(),
            (None, _) => {
                all.insert(name.clone(), value.clone());
            }
        }
    }
}

/// The `_meta` of the updates of a tool call.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    all: acp::Meta,
    bytes: usize,
}

impl Gathered {
    pub(super) fn add(&mut self, meta: &acp::Meta) {
        self.bytes += serde_json::to_string(meta).map_or(0, |text| text.len());
        if self.bytes <= MAX_BYTES {
            merge(&mut self.all, meta);
        }
    }

    /// Returns about how many bytes it takes.
    pub(super) fn size(&self) -> usize {
        if self.all.is_empty() { 0 } else { self.bytes.min(MAX_BYTES) }
    }

    pub(super) fn take(&mut self) -> Option<acp::Meta> {
        Some(std::mem::take(&mut self.all)).filter(|all| !all.is_empty())
    }
}

/// Sets `_meta` in the fields of an event.
pub(super) fn put(extra: &mut Extra, meta: Option<acp::Meta>) {
    if let Some(meta) = meta {
        extra.insert(NAME, Value::Object(meta));
    }
}

/// Sets `_meta` in the fields of a request.
pub(super) fn put_into(request: &mut Event, meta: Option<acp::Meta>) {
    if let Some(extra) = extra_of(request) {
        put(extra, meta);
    }
}

/// Sets the `_meta` of an update in the event for the update. Returns whether there is such an event.
pub(super) fn put_into_first(meta: acp::Meta, all: &mut [Incoming]) -> bool {
    let event = |incoming: &Incoming| match incoming {
        Incoming::Event(event) | Incoming::OutOfTurn(event) => matches!(**event, Event::Unknown(_)),
        _ => false,
    };
    // The event contains the whole update.
    if all.iter().any(event) {
        return true;
    }
    let extra = all.iter_mut().find_map(|incoming| match incoming {
        Incoming::Event(event) | Incoming::OutOfTurn(event) => extra_of(event),
        _ => None,
    });
    let found = extra.is_some();
    if let Some(extra) = extra {
        put(extra, Some(meta));
    }
    found
}

pub(super) fn extra_of(event: &mut Event) -> Option<&mut Extra> {
    Some(match event {
        Event::ContentPart(ContentPart::Text(part)) => &mut part.extra,
        Event::ContentPart(ContentPart::Think(part)) => &mut part.extra,
        Event::ContentPart(ContentPart::ImageUrl(part)) => &mut part.extra,
        Event::ContentPart(ContentPart::AudioUrl(part)) => &mut part.extra,
        Event::ContentPart(ContentPart::Resource(part)) => &mut part.extra,
        Event::ContentPart(ContentPart::Unknown(part)) => &mut part.extra,
        Event::StatusUpdate(update) => &mut update.extra,
        Event::Plan(plan) => &mut plan.extra,
        Event::PlanDisplay(plan) => &mut plan.extra,
        Event::CompactionBegin(begin) => &mut begin.extra,
        Event::CompactionEnd(end) => &mut end.extra,
        Event::ToolCall(call) => &mut call.extra,
        Event::ApprovalRequest(request) => &mut request.extra,
        Event::QuestionRequest(request) => &mut request.extra,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merged_meta_prefers_inner_values() {
        let read = |a, b| of_both(read(a), read(b).as_ref()).map(Value::Object);
        assert_eq!(read(None, None), None);
        assert_eq!(read(Some("null"), Some("{}")), None);
        assert_eq!(read(Some("[1]"), Some(r#"{"a":1}"#)), Some(json!({"a": 1})));
        let both = read(Some(r#"{"a":{"x":1,"y":1},"b":1}"#), Some(r#"{"a":{"y":2},"b":{"z":3}}"#));
        assert_eq!(both, Some(json!({"a": {"x": 1, "y": 2}, "b": {"z": 3}})));
        let deep = format!("{}1{}", r#"{"a":"#.repeat(120), "}".repeat(120));
        assert_eq!(read(Some(&deep), None), None);
    }

    #[test]
    fn large_tool_call_meta_is_dropped() {
        let meta = |name: &str| acp::Meta::from_iter([(name.to_owned(), json!("x".repeat(400_000)))]);
        let mut gathered = Gathered::default();
        for name in ["a", "b", "c", "d"] {
            gathered.add(&meta(name));
        }
        let kept = gathered.take().expect("some");
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(gathered.take(), None);
    }
}
