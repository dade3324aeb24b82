//! The content of prompts.

use kimi_agent::Result;
use kimi_agent::wire::{Content, ContentPart, ResourcePart};
use serde_json::{Value, json};

use crate::case::Problem;

/// The content of a prompt, with `ContentPart::file` and resources as the scenario writes them.
pub(crate) fn input(op: &Value) -> Result<Result<Content>, Problem> {
    let problem = |error: serde_json::Error| format!("`input`: {error}");
    let Some(items) = op["input"].as_array() else {
        return serde_json::from_value(op["input"].clone()).map(Ok).map_err(problem);
    };
    let mut parts = Vec::new();
    for item in items {
        let only = item.as_object().filter(|item| item.len() == 1);
        if let Some(path) = only.and_then(|item| item.get("file")?.as_str()) {
            match ContentPart::file(path) {
                Ok(part) => parts.push(part),
                Err(error) => return Ok(Err(error)),
            }
        } else if let Some(given) = only.and_then(|item| item.get("resource")) {
            parts.push(resource(given).into());
        } else {
            let Content::Parts(more) = serde_json::from_value(json!([item])).map_err(problem)? else { continue };
            parts.extend(more);
        }
    }
    Ok(Ok(Content::Parts(parts)))
}

fn resource(given: &Value) -> ResourcePart {
    let text = |name: &str| given[name].as_str().map(str::to_owned);
    let mut part = ResourcePart::new(text("uri").unwrap_or_default());
    if let Some(text) = text("text") {
        part = part.with_text(text);
    }
    if let Some(kind) = text("mime_type") {
        part = part.with_mime_type(kind);
    }
    match text("data") {
        Some(data) => part.with_data(data),
        None => part,
    }
}
