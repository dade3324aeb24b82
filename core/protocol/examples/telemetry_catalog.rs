//! Prints the names of spans, attributes, events and metrics as JSON. docs/reference/telemetry.md comes from them.

#![allow(clippy::print_stdout, reason = "the generator reads the output")]

use kimi_agent_protocol::telemetry::names::{ATTRIBUTES, CONTENT, EVENTS, METRICS, SCHEMA_URL, SCOPE, SPANS};
use serde_json::json;

fn main() -> serde_json::Result<()> {
    let catalog = json!({
        "scope": SCOPE,
        "schema_url": SCHEMA_URL,
        "spans": SPANS,
        "attributes": ATTRIBUTES,
        "content": CONTENT,
        "events": EVENTS,
        "metrics": METRICS,
    });
    println!("{}", serde_json::to_string_pretty(&catalog)?);
    Ok(())
}
