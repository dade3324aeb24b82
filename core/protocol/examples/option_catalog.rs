//! Prints the declarations of all options as JSON, and the address of the page of errors. The types of Python and TypeScript
//! and docs/reference/options.md come from them.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use kimi_agent_protocol::error::ERRORS_PAGE;
use kimi_agent_protocol::naming::Naming;
use kimi_agent_protocol::options::{Fallback, OPTIONS, OptionInfo, PROMPT_OPTIONS, SMALLEST_BUFFER};
use serde_json::{Value, json};

fn main() -> serde_json::Result<()> {
    let options = OPTIONS.iter().chain(PROMPT_OPTIONS).map(described).collect::<serde_json::Result<Vec<_>>>()?;
    let catalog = json!({"options": options, "smallest_buffer": SMALLEST_BUFFER, "errors_page": ERRORS_PAGE});
    println!("{}", serde_json::to_string_pretty(&catalog)?);
    Ok(())
}

/// Describes an option, with texts and names in both spellings.
fn described(option: &OptionInfo) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(option)?;
    value["node_name"] = Naming::Camel.name(option.name).into();
    for key in ["doc", "doc_for_agent"] {
        if let Some(text) = value[key].as_str() {
            value[&format!("node_{key}")] = Naming::Camel.spell(text).into();
        }
    }
    if let Fallback::Words(words) = option.default {
        value["node_default"] = Naming::Camel.spell(words).into();
    }
    Ok(value)
}
