//! What a mailbox holds, as JSON.

use std::collections::VecDeque;

use kimi_agent::bridge::{Delivery, JobKind, LogLevel, Payload, Reply};
use kimi_agent::wire::Event;
use serde_json::{Value, json};

use crate::error_json;

pub(crate) fn to_json(deliveries: VecDeque<Delivery>) -> String {
    Value::Array(deliveries.into_iter().map(delivery).collect()).to_string()
}

fn delivery(delivery: Delivery) -> Value {
    match delivery {
        Delivery::Done { ticket, outcome: Ok(Reply::Nothing) } => json!(["done", ticket, null]),
        Delivery::Done { ticket, outcome: Ok(Reply::Outcome(result)) } => json!(["done", ticket, result]),
        Delivery::Done { ticket, outcome: Err(error) } => {
            let error = error_json(&error);
            json!(["failed", ticket, error["code"], error["message"], error["fields"]])
        }
        Delivery::Readable { turn } => json!(["readable", turn]),
        Delivery::Settled { turn } => json!(["settled", turn]),
        Delivery::Job { id, session, kind, index, payload, in_turn } => {
            let payload = match payload {
                Payload::Event(event) if kind == JobKind::Event => json!(event),
                Payload::Event(event) => request(&event),
                Payload::Arguments(arguments) => arguments,
                Payload::Line(line) => Value::String(line),
            };
            json!(["job", id, session, kind.as_str(), index, payload, in_turn])
        }
        Delivery::CancelJob { id } => json!(["cancel_job", id]),
        Delivery::Log { level, target, message } => json!(["log", level_name(level), target, message]),
    }
}

/// A request without the envelope that names its type: its handler knows that.
fn request(event: &Event) -> Value {
    match json!(event) {
        Value::Object(mut map) => map.remove("payload").unwrap_or_default(),
        other => other,
    }
}

fn level_name(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    }
}
