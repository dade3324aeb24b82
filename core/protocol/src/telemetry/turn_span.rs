//! The span of a turn. The host starts it, so that its parent is the context of the caller and the sampler of the host decides.

use std::sync::Arc;

use super::content::{cut, input_messages};
use super::{
    Attributes, Identity, Op, Sink, SpanError, SpanKind, SpanStart, TraceContext, Value, names, next_span, seconds,
};
use crate::connection::TurnStatus;
use crate::error::{Error, STDERR};
use crate::messages::Content;

/// The span of a turn that has been started. If it is dropped before a connection takes it, it ends with an error.
#[derive(Debug)]
pub struct TurnSpan {
    pub(super) span: u64,
    pub(super) began: u64,
    pub(super) context: TraceContext,
    pub(super) identity: Identity,
    sink: Arc<dyn Sink>,
    has_ended: bool,
}

impl TurnSpan {
    /// Returns the operation that starts the span of a turn. The host applies it, and passes the number of the span and its
    /// context to [`TurnSpan::started`]. `has_output`: the turn must return structured output.
    pub fn start(
        identity: &Identity,
        input: &Content,
        has_output: bool,
        captures_content: bool,
        time: u64,
    ) -> SpanStart {
        let attributes = identity
            .of_turn()
            .maybe(names::OUTPUT_TYPE, has_output.then_some("json"))
            .maybe(names::INPUT_MESSAGES, captures_content.then(|| input_messages(input)));
        SpanStart {
            span: next_span(),
            parent: None,
            name: identity.turn_name(),
            kind: SpanKind::Client,
            time,
            attributes,
        }
    }

    /// Takes over a span that the host has started. `identity` is that of the start.
    pub fn started(span: u64, context: TraceContext, identity: Identity, sink: Arc<dyn Sink>) -> Self {
        let began = sink.now();
        Self { span, began, context, identity, sink, has_ended: false }
    }

    /// Returns the number of the span.
    pub fn span(&self) -> u64 {
        self.span
    }

    /// Returns the context that the agent gets.
    pub fn context(&self) -> &TraceContext {
        &self.context
    }

    /// Ends the span, because the turn could not begin.
    pub fn fail(mut self, error: &Error) {
        self.end(Some(SpanError::of(error)));
    }

    /// Ends the span, because the turn was cancelled before it began.
    pub fn cancel(mut self) {
        let status = TurnStatus::Cancelled.as_str();
        let attributes = Attributes::default().with(names::STATUS, status);
        self.sink.apply(vec![Op::Set { span: self.span, name: None, attributes }]);
        self.end(None);
    }

    fn end(&mut self, error: Option<SpanError>) {
        let time = self.sink.now();
        let kind = error.as_ref().map(|error| error.kind.as_str());
        let attributes = self.identity.of_operation(names::INVOKE_AGENT).maybe(names::ERROR_TYPE, kind);
        let value = seconds(self.began, time).into();
        self.has_ended = true;
        self.sink.apply(vec![
            Op::Record { metric: names::DURATION, value, attributes },
            Op::End { span: self.span, time, error },
        ]);
    }

    /// The span is ended by another operation.
    pub(super) fn note_ended(&mut self) {
        self.has_ended = true;
    }

    /// Returns the operation that completes the attributes, if the agent was not known at the start.
    pub(super) fn identify(&mut self, identity: &Identity) -> Option<Op> {
        if self.identity == *identity {
            return None;
        }
        let known = std::mem::replace(&mut self.identity, identity.clone()).of_turn();
        let is_new = |(name, value): &(&'static str, Value)| known.get(name) != Some(value);
        let attributes = identity.of_turn().into_iter().filter(is_new).collect();
        Some(Op::Set { span: self.span, name: Some(identity.turn_name()), attributes })
    }
}

impl Drop for TurnSpan {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(Some(SpanError::of(&Error::session_closed())));
        }
    }
}

impl SpanError {
    /// The error of a turn. Its text has neither the stderr of the agent nor parts of an output, because spans without content
    /// have an error, too.
    pub(super) fn of(error: &Error) -> Self {
        let text = match error {
            Error::OutputInvalid(invalid) => format!("no valid output (attempts: {})", invalid.attempts),
            other => other.to_string(),
        };
        let message = text.split(STDERR).next().unwrap_or_default().trim_end_matches([';', ' ', '\n']);
        Self { kind: error.code().to_owned(), message: cut(message).to_owned() }
    }
}
