//! Structured output: what a program asks for, the check of values, and the texts for the model.
//!
//! - [`spec`](self): the option, [`OutputMode`], [`OutputError`] and [`OutputInvalid`]
//! - `schema`: the validator of JSON Schema
//! - `extract`: the JSON values in an answer's text
//! - `plan`: an option that was checked, with its schema compiled
//! - `run`: the state of one turn, without I/O

mod error;
mod extract;
mod plan;
mod run;
mod schema;
mod spec;

pub use error::{OutputError, OutputInvalid, parse_violations};
pub use plan::OutputPlan;
pub(crate) use run::OutputRun;
pub use spec::{DEFAULT_NAME, DEFAULT_RETRIES, OUTPUT_KEYS, OutputMode, OutputSpec, parse_output};

/// The limit of errors that the model and the program get.
const MAX_ERRORS: usize = 20;
/// The limit of one error's text, in bytes.
const MAX_MESSAGE: usize = 300;

/// Returns the beginning of a text, at most `limit` bytes, with a mark if it was cut.
fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("{}…", &text[..end])
}
