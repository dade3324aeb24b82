//! The catalogue of all message types, from which the types of Python and TypeScript are generated.

use serde::Serialize;

use super::message::{self, ContentPart, DisplayBlock};
use super::{Event, TypeRef};

/// A message type.
#[derive(Debug, Serialize)]
pub struct MessageType {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub doc: String,
    /// The Wire version that brought it.
    pub since: &'static str,
    /// The word in its `type` field, where it has one.
    pub tag: Option<&'static str>,
    /// What the SDK adds to it beside its fields: the name of a `ToolCallInfo`.
    pub adds: Option<&'static str>,
    /// Its fields, in order.
    pub fields: Vec<FieldType>,
}

/// A field of a message type.
#[derive(Debug, Serialize)]
pub struct FieldType {
    /// Its name on the wire.
    pub name: &'static str,
    /// What it holds.
    pub doc: String,
    /// The Wire version that brought it.
    pub since: &'static str,
    /// Its type.
    #[serde(rename = "type")]
    pub ty: TypeRef,
    /// Whether it must be there.
    pub required: bool,
}

/// The whole catalogue.
#[derive(Debug, Serialize)]
pub struct Catalog {
    /// Every message type.
    pub messages: Vec<MessageType>,
    /// The type names that are events on the wire.
    pub events: &'static [&'static str],
    /// The type names that are requests on the wire.
    pub requests: &'static [&'static str],
    /// The members of `ContentPart`.
    pub content_parts: &'static [&'static str],
    /// The members of `DisplayBlock`.
    pub display_blocks: &'static [&'static str],
}

#[doc(hidden)]
pub trait Describe {
    #[doc(hidden)]
    fn describe() -> MessageType;
}

#[doc(hidden)]
pub fn join_doc(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n")
}

/// Describes every message type.
///
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// let catalog = kimi_agent::wire::catalog::catalog();
/// assert!(catalog.messages.iter().any(|message| message.name == "StepRetry" && message.since == "1.10"));
/// ```
pub fn catalog() -> Catalog {
    Catalog {
        messages: message::described(),
        events: Event::EVENT_TYPES,
        requests: Event::REQUEST_TYPES,
        content_parts: ContentPart::MEMBERS,
        display_blocks: DisplayBlock::MEMBERS,
    }
}
