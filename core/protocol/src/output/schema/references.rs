//! References within a schema: their places, and cycles of them.

use serde_json::Value;

use super::rules::{Node, NodeId};
use super::{MAX_MESSAGE, escaped, shortened};
use crate::place::percent_decoded;

/// The part of a schema that a reference names.
#[derive(Debug, PartialEq)]
pub(super) enum Target {
    /// A JSON Pointer; empty for the schema itself.
    Pointer(String),
    Anchor(String),
}

/// Reads a reference. Returns nothing if it leaves the schema, whose `$id` is `id`.
pub(super) fn read(reference: &str, id: Option<&str>) -> Option<Target> {
    let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    // An address with a path would be relative to the folder of the `$id`.
    let is_itself = |id: &str| id.trim_end_matches('#') == address && (id.contains(':') || !id.contains('/'));
    if !address.is_empty() && !id.is_some_and(is_itself) {
        return None;
    }
    let fragment = percent_decoded(fragment)?;
    let is_pointer = fragment.is_empty() || fragment.starts_with('/');
    Some(if is_pointer { Target::Pointer(fragment) } else { Target::Anchor(fragment) })
}

/// A place in a schema.
pub(super) struct Located<'s> {
    pub(super) schema: &'s Value,
    /// The JSON Pointer in its usual spelling.
    pub(super) pointer: String,
    /// The place of an `$id` around it, which changes the meaning of references.
    pub(super) base: Option<String>,
}

/// Finds the place that a JSON Pointer names.
pub(super) fn locate<'s>(root: &'s Value, pointer: &str) -> Option<Located<'s>> {
    let mut at = Located { schema: root, pointer: String::new(), base: None };
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        at.schema = match at.schema {
            Value::Object(map) => map.get(&token)?,
            Value::Array(items) => items.get(token.parse::<usize>().ok()?)?,
            _ => return None,
        };
        at.pointer = format!("{}/{}", at.pointer, escaped(&token));
        at.base = at.base.or_else(|| base_of(at.schema, &at.pointer));
    }
    Some(at)
}

/// Returns the place of the `$id` if a schema has an address of its own.
pub(super) fn base_of(schema: &Value, pointer: &str) -> Option<String> {
    let id = schema.get("$id").and_then(Value::as_str).filter(|id| !id.starts_with('#') && !pointer.is_empty())?;
    (!id.is_empty()).then(|| format!("{pointer}/$id"))
}

/// Describes a reference that leaves the schema.
pub(super) fn foreign(place: &str, target: &str) -> String {
    format!(
        "the schema refers to {:?} at `{}`; expected references within the schema, such as `#/$defs/Item`",
        shortened(target, MAX_MESSAGE),
        shortened(place, MAX_MESSAGE)
    )
}

/// Returns a node that applies itself to the same value, and would never end.
pub(super) fn endless(nodes: &[Node]) -> Option<NodeId> {
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut states = vec![0; nodes.len()];
    for start in 0..nodes.len() {
        let mut stack = vec![(start, nodes[start].in_place())];
        if states[start] == DONE {
            continue;
        }
        states[start] = OPEN;
        while let Some((id, rest)) = stack.last_mut() {
            match rest.pop() {
                Some(next) if states[next] == OPEN => return Some(next),
                Some(next) if states[next] == DONE => {}
                Some(next) => {
                    states[next] = OPEN;
                    stack.push((next, nodes[next].in_place()));
                }
                None => {
                    states[*id] = DONE;
                    stack.pop();
                }
            }
        }
    }
    None
}
