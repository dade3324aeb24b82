//! The contents of a mailbox as values for JavaScript.

use kimi_agent::Error;
use kimi_agent::batch::JobResult;
use kimi_agent::wire::Event;
use kimi_agent_bridge::{JobKind, LogLevel, Mailbox, Payload, Reply, origin_of, written_for_host};
use napi_derive::napi;
use serde::Serialize;

use crate::error::NativeError;

/// Names a request of a session. JavaScript gets it with a request and gives it back with the answer.
#[napi(object)]
pub struct RequestOrigin {
    /// The session.
    pub session: f64,
    /// The request.
    pub request: f64,
}

impl From<kimi_agent_bridge::RequestOrigin> for RequestOrigin {
    fn from(origin: kimi_agent_bridge::RequestOrigin) -> Self {
        Self { session: origin.session as f64, request: origin.request as f64 }
    }
}

impl From<RequestOrigin> for kimi_agent_bridge::RequestOrigin {
    fn from(origin: RequestOrigin) -> Self {
        Self { session: origin.session as u64, request: origin.request as u64 }
    }
}

/// One message of the core for JavaScript.
///
/// - `done` and `failed` end the operation of a ticket; `json` is its value, if it has one. `job_result` ends that of
///   `NativeBatch.next()`; without `json` the batch has ended, and `error` is that of a failed job.
/// - `readable`: a turn has events to drain. Follows a `drain()` that returned null, once.
/// - `settled`: a turn has an outcome or has been abandoned. Comes once a turn, whether the turn is read or not.
/// - `job`: a handler is to be called, and `jobDone()` or `jobFailed()` after it. `owner` is the key of its session or agent,
///   `index` the place of a tool or hook in the options, or the number of an output's check. The payload is the request, the
///   tool's arguments, the value of an output, the event or the line, `callId` the ID of a tool's call. `inTurn` says whether
///   the session's running turn waits for the handler, `origin` which request the payload is, `span` the number of the span
///   that the handler runs in.
/// - `telemetry`: operations on spans and metrics for the session with the key `owner`, in order.
/// - `cancel_job`: a job was withdrawn.
/// - `log`: a record of the log, up to the level that `setLogLevel()` set.
#[napi(discriminant = "type", discriminant_case = "snake_case", object_from_js = false)]
pub enum Delivery {
    /// An operation succeeded.
    Done { ticket: f64, json: Option<String> },
    /// A job of a batch has ended, or the batch.
    JobResult { ticket: f64, json: Option<String>, error: Option<NativeError> },
    /// An operation failed.
    Failed { ticket: f64, error: NativeError },
    /// A turn has events.
    Readable { turn: f64 },
    /// A turn has ended.
    Settled { turn: f64 },
    /// A handler is to be called.
    Job {
        id: f64,
        owner: f64,
        #[napi(
            ts_type = "'approval' | 'question' | 'tool' | 'hook' | 'event' | 'stderr' | 'read_file' | 'write_file' | 'terminal' | 'output' | 'next_job' | 'progress'"
        )]
        kind: &'static str,
        index: Option<u32>,
        payload_json: String,
        call_id: Option<String>,
        in_turn: bool,
        origin: Option<RequestOrigin>,
        span: Option<f64>,
    },
    /// Operations on spans and metrics.
    Telemetry { owner: f64, ops_json: String },
    /// A job is not needed.
    CancelJob { id: f64 },
    /// A log record.
    Log {
        #[napi(ts_type = "'error' | 'warn' | 'info' | 'debug' | 'trace'")]
        level: &'static str,
        target: String,
        message: String,
    },
}

impl Delivery {
    /// The delivery for JavaScript. A text that no JavaScript string can hold fails the operation or the job instead.
    pub(crate) fn new(delivery: kimi_agent_bridge::Delivery, mailbox: &Mailbox) -> Option<Self> {
        Some(match delivery {
            kimi_agent_bridge::Delivery::Done { ticket, outcome } => {
                let ticket = ticket as f64;
                if let Ok(Reply::JobResult(result)) = outcome {
                    return Some(Self::job_result(ticket, result.as_deref()));
                }
                match outcome.and_then(reply_json) {
                    Ok(json) => Self::Done { ticket, json },
                    Err(error) => Self::Failed { ticket, error: NativeError::from(&error) },
                }
            }
            kimi_agent_bridge::Delivery::Readable { turn } => Self::Readable { turn: turn as f64 },
            kimi_agent_bridge::Delivery::Settled { turn } => Self::Settled { turn: turn as f64 },
            kimi_agent_bridge::Delivery::Job { id, session, kind, index, payload, call_id, in_turn, span } => {
                let payload_json = match checked("the agent's request", payload_json(&payload, kind)) {
                    Ok(json) => json,
                    Err(error) => {
                        mailbox.finish_job(id, Err(error.to_string()));
                        return None;
                    }
                };
                let origin = match &payload {
                    Payload::Event(event) => origin_of(event).map(RequestOrigin::from),
                    Payload::Arguments(_) | Payload::Line(_) => None,
                };
                let index = index.and_then(|index| u32::try_from(index).ok());
                Self::Job {
                    id: id as f64,
                    owner: session as f64,
                    kind: kind.as_str(),
                    index,
                    payload_json,
                    call_id,
                    in_turn,
                    origin,
                    span: span.map(|span| span as f64),
                }
            }
            kimi_agent_bridge::Delivery::Telemetry { session, ops } => {
                Self::Telemetry { owner: session as f64, ops_json: checked("the telemetry", to_json(&ops)).ok()? }
            }
            kimi_agent_bridge::Delivery::CancelJob { id } => Self::CancelJob { id: id as f64 },
            kimi_agent_bridge::Delivery::Log { level, target, message } => {
                Self::Log { level: level_name(level), target, message: checked("a log record", message).ok()? }
            }
        })
    }
}

impl Delivery {
    fn job_result(ticket: f64, result: Option<&JobResult>) -> Self {
        let Some(result) = result else { return Self::JobResult { ticket, json: None, error: None } };
        match checked("the result of a job", to_json(&result.to_json())) {
            Ok(json) => {
                let error = result.error.as_ref().map(NativeError::from);
                Self::JobResult { ticket, json: Some(json), error }
            }
            Err(error) => Self::Failed { ticket, error: NativeError::from(&error) },
        }
    }
}

fn reply_json(reply: Reply) -> Result<Option<String>, Error> {
    let json = match reply {
        Reply::Nothing => return Ok(None),
        Reply::Outcome(result) => to_json(&result),
        Reply::Sessions(sessions) => to_json(&sessions),
        Reply::Text(text) => to_json(&text),
        // Delivered with its error.
        Reply::JobResult(_) => return Ok(None),
    };
    checked("the agent's answer", json).map(Some)
}

/// A handler's argument. A request comes without the envelope that names its type: its handler knows the type.
fn payload_json(payload: &Payload, kind: JobKind) -> String {
    match payload {
        Payload::Event(event) if kind == JobKind::Event => to_json(event),
        Payload::Event(event) => match &**event {
            Event::ApprovalRequest(request) => to_json(request),
            Event::QuestionRequest(request) => to_json(request),
            Event::ToolCallRequest(request) => to_json(request),
            Event::HookRequest(request) => to_json(request),
            Event::ReadFileRequest(request) => to_json(request),
            Event::WriteFileRequest(request) => to_json(request),
            Event::TerminalRequest(request) => to_json(request),
            other => to_json(other),
        },
        Payload::Arguments(arguments) => to_json(arguments),
        Payload::Line(line) => to_json(line),
    }
}

/// JSON text. Not by way of a `Value`, which can't hold everything that an agent may write in an event of an unknown type,
/// for example half of a surrogate pair.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    written_for_host(|| serde_json::to_string(value)).unwrap_or_else(|_| "null".to_owned())
}

/// The longest text that a string of V8's can hold, in units of UTF-16.
const LONGEST_STRING: usize = 0x1fff_ffe8;

/// Refuses a text that is too long for a JavaScript string. Only a text of that many bytes is counted.
pub(crate) fn checked(what: &str, text: String) -> Result<String, Error> {
    if text.len() <= LONGEST_STRING || text.encode_utf16().count() <= LONGEST_STRING {
        return Ok(text);
    }
    Err(Error::Protocol(format!(
        "{what} of {} bytes is longer than a JavaScript string can be ({LONGEST_STRING} characters); lower maxLineBytes",
        text.len()
    ).into()))
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
