//! The description of a message type: its documentation and its fields, as the macro `message!` declares them.

use serde::Serialize;

use super::TypeRef;

/// A message type.
#[derive(Debug, Serialize)]
pub struct MessageType {
    /// Its name.
    pub name: &'static str,
    /// The documentation.
    pub doc: String,
    /// The Wire version that added it.
    pub since: &'static str,
    /// The value of its `type` field, if it has one.
    pub tag: Option<&'static str>,
    /// The attribute that the SDK adds: the name of a `ToolCallInfo`. `None` if it adds none.
    pub adds: Option<&'static str>,
    /// Its fields, in order.
    pub fields: Vec<FieldType>,
}

/// A field of a message type.
#[derive(Debug, Serialize)]
pub struct FieldType {
    /// Its name on the wire.
    pub name: &'static str,
    /// The documentation.
    pub doc: String,
    /// The Wire version that added it.
    pub since: &'static str,
    /// Its type.
    #[serde(rename = "type")]
    pub ty: TypeRef,
    /// Whether the field is required.
    pub required: bool,
}

/// A type that describes itself. The macro `message!` implements it.
pub trait Describe {
    /// Returns the description of the type.
    fn describe() -> MessageType;
}

/// Joins the lines of a doc comment.
pub fn join_doc(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n")
}
