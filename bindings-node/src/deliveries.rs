//! What a mailbox holds, as JSON.

use std::collections::VecDeque;

use kimi_agent::bridge::{Delivery, JobKind, LogLevel, Payload, Reply};
use kimi_agent::wire::Event;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::error_json;

pub(crate) fn to_json(deliveries: VecDeque<Delivery>) -> String {
    text(&deliveries.into_iter().map(delivery).collect::<Vec<_>>()).to_string()
}

/// JSON text, by way of no `Value`: that can't hold all that an agent may write in an event of an unknown type, as half of
/// a surrogate pair, or a number beyond all bounds.
pub(crate) fn text(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn delivery(delivery: Delivery) -> Box<RawValue> {
    let value = match delivery {
        Delivery::Done { ticket, outcome: Ok(Reply::Nothing) } => json!(["done", ticket, null]),
        Delivery::Done { ticket, outcome: Ok(Reply::Outcome(result)) } => json!(["done", ticket, result]),
        Delivery::Done { ticket, outcome: Ok(Reply::Sessions(sessions)) } => json!(["done", ticket, sessions]),
        Delivery::Done { ticket, outcome: Err(error) } => {
            let error = error_json(&error);
            json!(["failed", ticket, error["code"], error["message"], error["fields"]])
        }
        Delivery::Readable { turn } => json!(["readable", turn]),
        Delivery::Settled { turn } => json!(["settled", turn]),
        Delivery::Job { id, session, kind, index, payload, in_turn } => {
            let payload = match payload {
                Payload::Event(event) if kind == JobKind::Event => text(&event),
                Payload::Event(event) => request(&event),
                Payload::Arguments(arguments) => text(&arguments),
                Payload::Line(line) => text(&line),
            };
            return text(&("job", id, session, kind.as_str(), index, payload, in_turn));
        }
        Delivery::CancelJob { id } => json!(["cancel_job", id]),
        Delivery::Log { level, target, message } => json!(["log", level_name(level), target, message]),
    };
    text(&value)
}

/// A request without the envelope that names its type: its handler knows that.
fn request(event: &Event) -> Box<RawValue> {
    match event {
        Event::ApprovalRequest(request) => text(request),
        Event::QuestionRequest(request) => text(request),
        Event::ToolCallRequest(request) => text(request),
        Event::HookRequest(request) => text(request),
        other => text(other),
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
