//! JSON Schemas of draft 2020-12 and draft 7. A schema is compiled once; no file and no network is read.
//!
//! - `rules`: the compiled form
//! - `compile`: turns keywords into nodes
//! - `keywords`: reads the values of keywords, and refuses wrong ones
//! - `references`: the places that references name, and cycles
//! - `pattern`: regular expressions in the notation of ECMA-262
//! - `number`: comparison of numbers and values
//! - `check`: the check of a value

mod check;
mod compile;
mod keywords;
mod number;
mod pattern;
mod references;
mod rules;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use super::{MAX_MESSAGE, OutputError, shortened};
pub(super) use check::{TOO_COMPLEX, Work};
use rules::Node;

/// A compiled JSON Schema of draft 2020-12, or of draft 7 if `$schema` says so.
pub(super) struct Schema {
    /// The first node is the schema itself.
    nodes: Vec<Node>,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

impl Schema {
    /// Compiles a schema. With `skips_patterns`, a pattern that the validator does not read, such as one with look-around,
    /// is not checked.
    ///
    /// # Errors
    /// Returns the problem of the schema, with the place in it.
    pub(super) fn compile(schema: &Value, skips_patterns: bool) -> Result<Self, String> {
        Ok(Self { nodes: compile::compile(schema, skips_patterns)? })
    }

    /// Returns the violations of a value; none if it is valid. All values of one answer share the limit of work.
    pub(super) fn check(&self, value: &Value, work: &mut Work) -> Vec<OutputError> {
        check::check(&self.nodes, value, work)
    }
}

/// Returns a text in quotation marks, shortened.
fn quoted(text: &str) -> String {
    let debug = format!("{:?}", shortened(text, MAX_MESSAGE)).replace("\\\"", "\"").replace('\'', "\\'");
    format!("'{}'", &debug[1..debug.len() - 1])
}

/// Returns a list of texts, only as long as a message can be.
fn listed(texts: impl Iterator<Item = String>, separator: &str) -> String {
    let mut list = String::new();
    for text in texts {
        if list.len() > MAX_MESSAGE {
            break;
        }
        if !list.is_empty() {
            list.push_str(separator);
        }
        list.push_str(&text);
    }
    list
}

/// Writes a key as a part of a JSON Pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
