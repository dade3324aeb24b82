//! Telemetry in the conventions of OpenTelemetry, without OpenTelemetry: a [`Tracker`] turns the outputs of a connection into
//! operations on spans and metrics, which a [`Sink`] applies with the API of the host.
//!
//! - `names`: all names of spans, attributes, events and metrics
//! - `ops`: the operations
//! - `content`: messages as attributes
//! - `turn_span`: the span of a turn, which the host starts
//! - `trace`: the spans of a turn
//! - `tracker`: the turns of a session

mod content;
pub mod names;
pub mod ops;
mod trace;
mod tracker;
mod turn_span;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::dialect::Handshake;
pub(crate) use content::cut_at;
pub use ops::{Attributes, Op, SpanError, SpanKind, SpanStart, Value};
pub(crate) use tracker::Decision;
pub use tracker::Tracker;
pub use turn_span::TurnSpan;

/// Applies operations, in the order of the calls.
pub trait Sink: fmt::Debug + Send + Sync {
    /// Returns the time, in nanoseconds since 1970-01-01 UTC.
    fn now(&self) -> u64;
    /// Applies operations. It must not block.
    fn apply(&self, ops: Vec<Op>);
}

/// The context of a trace in the headers of W3C, which a span has outside of its process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    /// The header `traceparent`. `None` without a span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The header `tracestate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl TraceContext {
    /// Returns the headers that are set, with their names.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let state = self.tracestate.as_deref().filter(|state| !state.is_empty() && self.traceparent.is_some());
        let headers = [("traceparent", self.traceparent.as_deref()), ("tracestate", state)];
        headers.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// Returns the variables for the environment of an agent.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let [parent, state] = names::ENVIRONMENT;
        self.headers().map(move |(name, value)| (if name == "traceparent" { parent } else { state }, value))
    }
}

/// The properties of a session that its spans have as attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The name of the agent.
    pub agent: Option<String>,
    /// The version of the agent.
    pub version: Option<String>,
    /// The id of the session.
    pub conversation: Option<String>,
    /// The option `model`.
    pub model: Option<String>,
}

impl Identity {
    /// Adopts the properties that the agent has reported.
    pub fn learn(&mut self, handshake: &Handshake) {
        if let Some(server) = &handshake.server {
            (self.agent, self.version) = (Some(server.name.clone()), Some(server.version.clone()));
        }
        if handshake.session_id.is_some() {
            self.conversation.clone_from(&handshake.session_id);
        }
    }

    /// Returns the value of `gen_ai.provider.name`, if the agent is known.
    fn provider(&self) -> Option<&str> {
        let agent = self.agent.as_deref()?;
        Some(if agent.to_ascii_lowercase().contains("kimi") { "moonshot_ai" } else { agent })
    }

    /// Returns the attributes of the span of a turn.
    fn of_turn(&self) -> Attributes {
        self.of_operation(names::INVOKE_AGENT)
            .maybe(names::CONVERSATION, self.conversation.as_deref())
            .maybe(names::AGENT_NAME, self.agent.as_deref())
            .maybe(names::AGENT_VERSION, self.version.as_deref())
    }

    /// Returns the attributes that spans and metrics have.
    fn of_operation(&self, operation: &str) -> Attributes {
        Attributes::default()
            .with(names::OPERATION, operation)
            .maybe(names::PROVIDER, self.provider())
            .maybe(names::REQUEST_MODEL, self.model.as_deref())
    }

    /// Returns the name of the span of a turn.
    fn turn_name(&self) -> String {
        named(names::INVOKE_AGENT, self.agent.as_deref())
    }
}

/// Returns the name of a span: its operation, and the object of the operation if it is known.
fn named(operation: &str, object: Option<&str>) -> String {
    object.map_or_else(|| operation.to_owned(), |object| format!("{operation} {object}"))
}

/// Returns whether the value of the variable of [`names::CAPTURE_VARIABLE`] allows content in spans.
pub fn allows_content(value: &str) -> bool {
    ["true", "1", "span_only", "span_and_event"].iter().any(|word| value.trim().eq_ignore_ascii_case(word))
}

/// Returns whether the value of the variable of [`names::CAPTURE_VARIABLE`] allows content in events alone.
pub fn names_events_only(value: &str) -> bool {
    value.trim().eq_ignore_ascii_case("event_only")
}

/// Returns a number for a span, which is unique in this process.
fn next_span() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the seconds between two times in nanoseconds.
fn seconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_name_each_thing_once() {
        let named = names::ATTRIBUTES.iter().map(|attribute| attribute.name);
        let mut all: Vec<_> = named.chain(names::METRICS.iter().map(|metric| metric.name)).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(names::CONTENT.iter().all(|content| all.contains(content)));
    }

    #[test]
    fn only_words_for_spans_allow_content() {
        assert!(["true", "TRUE", " 1", "SPAN_ONLY", "span_and_event"].into_iter().all(allows_content));
        assert!(!["", "false", "0", "NO_CONTENT", "EVENT_ONLY"].into_iter().any(allows_content));
        assert!(names_events_only("event_only ") && !names_events_only("SPAN_AND_EVENT"));
    }

    #[test]
    fn state_without_parent_is_left_out() {
        let context = TraceContext { traceparent: None, tracestate: Some("a=b".to_owned()) };
        assert_eq!(context.headers().count(), 0);
        let context = TraceContext { traceparent: Some("00-1-2-01".to_owned()), ..context };
        let variables: Vec<_> = context.variables().collect();
        assert_eq!(variables, [("TRACEPARENT", "00-1-2-01"), ("TRACESTATE", "a=b")]);
    }

    #[test]
    fn operation_as_json_has_its_fields() {
        let attributes = Attributes::default().with(names::STEPS, 2).with(names::STATUS, "finished");
        let set = Op::Set { span: 3, name: None, attributes };
        let json =
            r#"{"op":"set","span":3,"attributes":{"kimi_agent.turn.steps":2,"kimi_agent.turn.status":"finished"}}"#;
        assert_eq!(serde_json::to_string(&set).expect("JSON"), json);
        let end = Op::End { span: 3, time: 5, error: None };
        assert_eq!(serde_json::to_string(&end).expect("JSON"), r#"{"op":"end","span":3,"time":5,"error":null}"#);
    }
}
