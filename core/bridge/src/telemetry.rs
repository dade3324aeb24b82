//! Telemetry for the bindings: the option, the operations as deliveries, and the span of a turn. The host starts the span,
//! before the prompt of a session, and as an operation for the job of a batch.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::mailbox::{Delivery, Mailbox};
use super::{BridgeSession, Naming};
use crate::error::{Error, Result, invalid_option};
use crate::messages::Content;
use kimi_agent_client::SessionOptions;
use kimi_agent_client::host::{self, GivenSpan, PostingHost, kind_of};
use kimi_agent_protocol::telemetry::names::{METRICS, SCHEMA_URL, SCOPE};
use kimi_agent_protocol::telemetry::{Identity, Op, TraceContext, TurnSpan};

/// The key of the span in the options of a prompt.
const SPAN: &str = "$span";

/// The value of the option `telemetry`, as the host passes it.
#[derive(Debug, Default)]
pub(super) struct TelemetryOption {
    captures_content: Option<bool>,
    context: TraceContext,
}

/// Returns the names of the scope and the metrics, as JSON: `{"scope", "schema_url", "metrics": [{"name", "kind", "unit",
/// "description", "boundaries"}]}`.
pub fn telemetry_names() -> String {
    serde_json::json!({"scope": SCOPE, "schema_url": SCHEMA_URL, "metrics": METRICS}).to_string()
}

/// Takes the option `telemetry`. `None` if telemetry is off.
pub(super) fn take(map: &mut Map<String, Value>, naming: Naming) -> Result<Option<TelemetryOption>> {
    match map.remove("telemetry") {
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => Ok(Some(TelemetryOption::default())),
        Some(Value::Object(object)) => parse(object, naming).map(Some),
        Some(other) => {
            Err(invalid_option("telemetry", format!("expected a boolean or an object, got {}", kind_of(&other))))
        }
    }
}

fn parse(object: Map<String, Value>, naming: Naming) -> Result<TelemetryOption> {
    let mut option = TelemetryOption::default();
    let capture = naming.name("capture_content");
    for (name, value) in object {
        match (&*name, value) {
            (_, Value::Null) => {}
            ("traceparent", Value::String(text)) => option.context.traceparent = Some(text),
            ("tracestate", Value::String(text)) => option.context.tracestate = Some(text),
            (name, Value::Bool(on)) if name == capture => option.captures_content = Some(on),
            (name, value) if name == capture => {
                let got = kind_of(&value);
                return Err(invalid_option("telemetry", format!("`{capture}`: expected a boolean, got {got}")));
            }
            (name, _) => {
                return Err(invalid_option("telemetry", format!("unknown name {name:?}; expected `{capture}`")));
            }
        }
    }
    Ok(option)
}

impl TelemetryOption {
    /// Makes the session post its operations.
    pub(super) fn apply(self, options: &mut SessionOptions, session: u64, mailbox: &Arc<Mailbox>) {
        let host = Arc::new(PostingHost::new(poster(session, mailbox)));
        host::set_telemetry(options, host, self.captures_content, self.context);
    }

    /// Makes the jobs of a batch post their operations. They include the start of the span of each turn, which has no parent.
    pub(super) fn apply_to_jobs(self, options: &mut SessionOptions, batch: u64, mailbox: &Arc<Mailbox>) {
        let host = PostingHost::starting_turns(poster(batch, mailbox), self.context.clone());
        host::set_telemetry(options, Arc::new(host), self.captures_content, self.context);
    }
}

fn poster(session: u64, mailbox: &Arc<Mailbox>) -> impl Fn(Vec<Op>) + Send + Sync + 'static {
    let mailbox = Arc::clone(mailbox);
    move |ops| mailbox.post(Delivery::Telemetry { session, ops })
}

/// Takes the span that the host has started from the options of a prompt.
pub(super) fn take_span(options: &mut Map<String, Value>) -> Result<Option<GivenSpan>> {
    let Some(given) = options.remove(SPAN).filter(|given| !given.is_null()) else { return Ok(None) };
    let wrong = || invalid_option(SPAN, "expected an object with a number `span`");
    let span = given["span"].as_u64().ok_or_else(wrong)?;
    let context = serde_json::from_value(given).map_err(|_| wrong())?;
    Ok(Some(GivenSpan { span, context }))
}

/// Ends the span of a turn that could not begin.
pub(super) fn refuse(span: Option<GivenSpan>, error: &Error, session: u64, mailbox: &Arc<Mailbox>) {
    if let Some(GivenSpan { span, context }) = span {
        let sink = Arc::new(PostingHost::new(poster(session, mailbox)));
        TurnSpan::started(span, context, Identity::default(), sink).fail(error);
    }
}

fn has_output(options: &Map<String, Value>) -> bool {
    options.get("output").is_some_and(|output| !output.is_null())
}

impl BridgeSession {
    /// Returns the operation that starts the span of the next turn, as JSON. `None` without telemetry, or before the session is
    /// open. The host applies it in the context of the caller, and passes the span with the prompt: the key `$span` of its
    /// options has `{"span", "traceparent", "tracestate"}`.
    pub fn begin_turn(&self, content: &Content, options: &Map<String, Value>) -> Option<String> {
        let start = host::start_of_turn(self.opened()?, content, has_output(options))?;
        serde_json::to_string(&Op::Start(start)).ok()
    }

    /// Returns the operation that starts the span of a turn with a session of its own, as
    /// [`begin_turn`](Self::begin_turn) does. `options` are those of the session.
    ///
    /// # Errors
    /// Returns the error for a wrong option.
    pub fn begin_one_shot(
        content: &Content,
        given: &Map<String, Value>,
        options: &Map<String, Value>,
        naming: Naming,
    ) -> Result<Option<String>> {
        let Some(telemetry) = take(&mut options.clone(), naming)? else { return Ok(None) };
        let known = ["model", "session_id", "sessionId"];
        let known = options.iter().filter(|(name, _)| known.contains(&name.as_str()));
        let known = known.map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut read = host::session_options(known, naming)?;
        host::set_telemetry(&mut read, Arc::new(PostingHost::new(drop)), telemetry.captures_content, telemetry.context);
        let start = host::start_of_one_shot(&read, content, has_output(given) || has_output(options));
        Ok(start.and_then(|start| serde_json::to_string(&Op::Start(start)).ok()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn option_follows_language() {
        let read = |value: Value, naming| take(&mut map(json!({"telemetry": value})), naming);
        assert!(read(json!(false), Naming::Snake).expect("off").is_none());
        assert!(read(json!(true), Naming::Snake).expect("on").is_some());
        let option = read(json!({"captureContent": true, "traceparent": "00-1"}), Naming::Camel).expect("an option");
        let option = option.expect("on");
        assert_eq!((option.captures_content, option.context.traceparent.as_deref()), (Some(true), Some("00-1")));
        assert!(read(json!({"captureContent": true}), Naming::Snake).is_err());
        assert!(read(json!({"capture_content": 1}), Naming::Snake).is_err());
        assert!(read(json!(1), Naming::Snake).is_err());
    }

    #[test]
    fn span_is_taken_from_options() {
        let mut options = map(json!({"$span": {"span": 5, "traceparent": "00-1", "tracestate": null}, "timeout": 1}));
        let span = take_span(&mut options).expect("a span").expect("a span");
        assert_eq!((span.span, span.context.traceparent.as_deref()), (5, Some("00-1")));
        assert_eq!(options, map(json!({"timeout": 1})));
        assert_eq!(take_span(&mut options).expect("no span"), None);
        assert!(take_span(&mut map(json!({"$span": {"span": "5"}}))).is_err());
    }

    #[test]
    fn one_shot_starts_with_known_attributes() {
        let start = |options: Value| {
            BridgeSession::begin_one_shot(&"hi".into(), &Map::new(), &map(options), Naming::Camel)
                .expect("valid options")
        };
        assert_eq!(start(json!({"model": "k2"})), None);
        let op = start(json!({"model": "k2", "sessionId": "s", "telemetry": true})).expect("an operation");
        let op: Value = serde_json::from_str(&op).expect("JSON");
        assert_eq!((&op["op"], &op["name"], &op["kind"]), (&json!("start"), &json!("invoke_agent"), &json!("client")));
        assert_eq!((&op["parent"], &op["attributes"]["gen_ai.conversation.id"]), (&Value::Null, &json!("s")));
    }

    #[test]
    fn refused_prompt_posts_end() {
        let mailbox = Mailbox::new(|| {});
        let span = GivenSpan { span: 7, context: TraceContext::default() };
        refuse(Some(span), &invalid_option("timeout", "no"), 3, &mailbox);
        let posted = mailbox.drain();
        let Some(Delivery::Telemetry { session: 3, ops }) = posted.front() else { panic!("{posted:?}") };
        let Some(Op::End { span: 7, error: Some(error), .. }) = ops.last() else { panic!("{ops:?}") };
        assert_eq!(error.kind, "invalid_option");
    }
}
