//! The arguments of a call, which the agent sends in parts, as a whole, or as content.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use agent_client_protocol_schema::v1::{ToolCallContent, ToolCallUpdateFields};
use serde_json::{Map, Value};

use super::Call;
use crate::dialect::Incoming;
use crate::dialect::acp::{Acp, content};
use crate::json::of_text;
use crate::messages::ToolCallPart;

impl Call {
    /// Whether these are other arguments than those of the call, which has ended.
    pub(super) fn has_other_input(&self, fields: &ToolCallUpdateFields) -> bool {
        let raw = fields.raw_input.as_ref().filter(|raw| !is_blank(raw) && !raw.is_null());
        raw.is_some_and(|raw| hash_of(&whole_arguments(raw, None)) != self.ended_with)
    }
}

/// Returns a hash of JSON that does not depend on the order of its members; `None` if the text is not JSON.
pub(super) fn hash_of(arguments: &str) -> Option<u64> {
    let value = of_text(arguments)?;
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    Some(hasher.finish())
}

impl Acp {
    /// Emits the new part of the arguments.
    pub(super) fn take_arguments(&mut self, id: &str, whole: &str, all: &mut Vec<Incoming>) {
        let last = self.tools.last.as_deref() == Some(id);
        let Some(call) = self.tools.find(id) else { return };
        match whole.strip_prefix(&*call.arguments) {
            Some("") => return,
            Some(new) if last => {
                let part = ToolCallPart { arguments_part: Some(new.to_owned()), extra: Default::default() };
                all.push(Incoming::event(part));
            }
            None if is_same_json(&call.arguments, whole) => return,
            // A part can only extend the last call. In any other case the whole call is emitted again.
            _ => {
                let name = call.name.clone();
                self.tell(id, &name, whole, true, all);
            }
        }
        if let Some(call) = self.tools.find(id) {
            if !call.arguments.is_empty() && !whole.starts_with(&*call.arguments) {
                call.note_replaced();
            }
            call.arguments = whole.to_owned();
        }
    }
}

/// Returns whether an object has this text as a value.
pub(super) fn has_value(raw: &Value, text: &str) -> bool {
    raw.as_object().is_some_and(|raw| raw.values().any(|value| value.as_str() == Some(text)))
}

/// Returns whether the arguments are an empty object.
pub(super) fn is_blank(raw: &Value) -> bool {
    raw.as_object().is_some_and(Map::is_empty)
}

/// Arguments are an object. Other text is output of the tool.
pub(super) fn looks_like_arguments(text: &str) -> bool {
    text.is_empty() || text.trim_start().starts_with('{')
}

/// Returns whether the content of an update shows the arguments of the call, or a part of them while the call runs.
pub(super) fn shows_arguments(content: &[ToolCallContent], arguments: &str, ends: bool) -> bool {
    content::text(content).is_some_and(|text| {
        is_same_json(&text, arguments) || text == arguments || (!ends && looks_like_arguments(&text))
    })
}

pub(super) fn is_same_json(a: &str, b: &str) -> bool {
    of_text(a).is_some_and(|a| of_text(b) == Some(a))
}

/// Returns the arguments as text, with the agent's formatting if it displays them.
pub(super) fn whole_arguments(raw: &Value, content: Option<&[ToolCallContent]>) -> String {
    let shown = content.and_then(content::text).filter(|text| of_text(text).as_ref() == Some(raw));
    shown.unwrap_or_else(|| raw.to_string())
}
