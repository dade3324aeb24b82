//! What a mailbox holds, as JSON.

use std::collections::VecDeque;

use kimi_agent::bridge::{Delivery, JobKind, LogLevel, Naming, Payload, Reply, origin_of, written_for_host};
use kimi_agent::wire::Event;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// All of them, as one text.
pub(crate) fn to_json(deliveries: &VecDeque<Delivery>) -> String {
    struct All<'a>(&'a VecDeque<Delivery>);

    impl Serialize for All<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(self.0.iter().map(Told))
        }
    }

    Box::<str>::from(text(&All(deliveries))).into_string()
}

/// JSON text, by way of no `Value`: that can't hold all that an agent may write in an event of an unknown type, as half of
/// a surrogate pair, or a number beyond all bounds.
pub(crate) fn text(value: &impl Serialize) -> Box<RawValue> {
    written_for_host(|| serde_json::value::to_raw_value(value)).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A delivery as JSON. It is written at once, without a part of it being made first.
struct Told<'a>(&'a Delivery);

impl Serialize for Told<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Delivery::Done { ticket, outcome: Ok(Reply::Nothing) } => ("done", ticket, ()).serialize(serializer),
            Delivery::Done { ticket, outcome: Ok(Reply::Outcome(result)) } => {
                ("done", ticket, result).serialize(serializer)
            }
            Delivery::Done { ticket, outcome: Ok(Reply::Sessions(sessions)) } => {
                ("done", ticket, sessions).serialize(serializer)
            }
            Delivery::Done { ticket, outcome: Err(error) } => {
                let (message, fields) = error.told(Naming::Camel);
                ("failed", ticket, error.code(), message, fields).serialize(serializer)
            }
            Delivery::Readable { turn } => ("readable", turn).serialize(serializer),
            Delivery::Settled { turn } => ("settled", turn).serialize(serializer),
            Delivery::Job { id, session, kind, index, payload, in_turn } => {
                let origin = match payload {
                    Payload::Event(event) => origin_of(event).map(|origin| (origin.session, origin.request)),
                    _ => None,
                };
                let payload = Given { payload, whole: *kind == JobKind::Event };
                ("job", id, session, kind.as_str(), index, payload, in_turn, origin).serialize(serializer)
            }
            Delivery::CancelJob { id } => ("cancel_job", id).serialize(serializer),
            Delivery::Log { level, target, message } => {
                ("log", level_name(*level), target, message).serialize(serializer)
            }
        }
    }
}

/// What a function is called with. A request comes without the envelope that names its type: its handler knows that.
struct Given<'a> {
    payload: &'a Payload,
    whole: bool,
}

impl Serialize for Given<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.payload {
            Payload::Event(event) if self.whole => event.serialize(serializer),
            Payload::Event(event) => match &**event {
                Event::ApprovalRequest(request) => request.serialize(serializer),
                Event::QuestionRequest(request) => request.serialize(serializer),
                Event::ToolCallRequest(request) => request.serialize(serializer),
                Event::HookRequest(request) => request.serialize(serializer),
                other => other.serialize(serializer),
            },
            Payload::Arguments(arguments) => arguments.serialize(serializer),
            Payload::Line(line) => line.serialize(serializer),
        }
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
