//! Telemetry of a session: its options, and the host that applies the operations of the connection.

#[cfg(feature = "otel")]
mod otel;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Once};
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use kimi_agent_protocol::telemetry::{
    Identity, Op, Sink, SpanStart, TraceContext, Tracker, TurnSpan, allows_content, names, names_events_only,
};

use crate::dialect::Handshake;
use crate::messages::Content;
use crate::options::{PromptOptions, SessionOptions};
use crate::transport::launch::Launch;

#[cfg(feature = "otel")]
pub use otel::Telemetry;

/// Applies the operations of sessions, and makes spans current.
pub trait TelemetryHost: Sink {
    /// Starts the span of a turn in the current context, and returns its context. `None` if the host starts the spans of turns
    /// elsewhere.
    fn start_turn(&self, _start: SpanStart) -> Option<TraceContext> {
        None
    }

    /// Returns the current context.
    fn current(&self) -> TraceContext {
        TraceContext::default()
    }

    /// Makes a span current on this thread until the returned guard is dropped.
    fn enter(&self, _span: u64) -> Option<Box<dyn Any>> {
        None
    }

    /// Returns a host that starts turns in the current context, wherever they start.
    fn in_current(self: Arc<Self>) -> Arc<dyn TelemetryHost>;

    /// Returns the sink.
    fn as_sink(self: Arc<Self>) -> Arc<dyn Sink>;
}

/// Returns the time for operations, in nanoseconds since 1970-01-01 UTC.
pub(crate) fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The telemetry that the options of a session ask for.
#[derive(Clone, Debug)]
pub(crate) struct TelemetryOptions {
    pub(crate) host: Arc<dyn TelemetryHost>,
    /// `None`: the environment decides.
    pub(crate) captures_content: Option<bool>,
    /// The context in which the session is opened. `None`: the current context of the host.
    pub(crate) context: Option<TraceContext>,
}

impl TelemetryOptions {
    /// Makes the current context the parent of all turns.
    #[cfg(feature = "batch")]
    pub(crate) fn in_current(mut self) -> Self {
        self.host = self.host.in_current();
        self
    }

    fn captures_content(&self) -> bool {
        self.captures_content.unwrap_or_else(environment_allows_content)
    }
}

/// Returns whether the environment allows content in spans.
fn environment_allows_content() -> bool {
    static LOGGED: Once = Once::new();
    let Ok(value) = std::env::var(names::CAPTURE_VARIABLE) else { return false };
    if names_events_only(&value) {
        LOGGED.call_once(|| {
            let variable = names::CAPTURE_VARIABLE;
            let remedy = "set the variable to SPAN_ONLY, or set `capture_content`";
            tracing::warn!(
                variable,
                value,
                remedy,
                "content is not recorded, because the SDK makes no events of content"
            );
        });
    }
    allows_content(&value)
}

/// The span of a turn that a host has started itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenSpan {
    /// The number in the operation that started it.
    pub span: u64,
    /// The context of the span.
    pub context: TraceContext,
}

/// The telemetry of an open session.
#[derive(Debug)]
pub(crate) struct SessionTelemetry {
    host: Arc<dyn TelemetryHost>,
    captures_content: bool,
    identity: Identity,
}

impl SessionTelemetry {
    /// The telemetry of a session that is not open yet. `id`: its id, if it is known.
    pub(crate) fn of(options: &SessionOptions, id: Option<&str>) -> Option<Self> {
        let telemetry = options.telemetry.as_deref()?;
        let identity = Identity {
            conversation: id.or(options.session_id.as_deref()).map(str::to_owned),
            model: options.model.clone(),
            ..Identity::default()
        };
        let captures_content = telemetry.captures_content();
        Some(Self { host: Arc::clone(&telemetry.host), captures_content, identity })
    }

    /// Adopts what the agent has reported.
    pub(crate) fn learn(&mut self, handshake: &Handshake) {
        self.identity.learn(handshake);
    }

    pub(crate) fn host(&self) -> &Arc<dyn TelemetryHost> {
        &self.host
    }

    pub(crate) fn tracker(&self) -> Tracker {
        Tracker::new(self.identity.clone(), self.captures_content, Arc::clone(&self.host).as_sink())
    }

    /// Returns the operation that starts the span of a turn.
    pub(crate) fn start(&self, content: &Content, has_output: bool) -> SpanStart {
        TurnSpan::start(&self.identity, content, has_output, self.captures_content, self.host.now())
    }

    /// Returns the span of a turn: that of the host if it has started one, otherwise a new one.
    pub(crate) fn begin(&self, prompt: &mut PromptOptions, has_output: bool) -> Option<Box<TurnSpan>> {
        let given = prompt.span.take().or_else(|| {
            let start = self.start(&prompt.content, has_output || prompt.output.is_some());
            let span = start.span;
            Some(GivenSpan { span, context: self.host.start_turn(start)? })
        })?;
        let sink = Arc::clone(&self.host).as_sink();
        Some(Box::new(TurnSpan::started(given.span, given.context, self.identity.clone(), sink)))
    }
}

impl SessionOptions {
    /// Adds the variables of the trace to the environment of the agent, unless `env` sets them.
    pub(crate) fn add_trace(&self, launch: &mut Launch) {
        let Some(telemetry) = self.telemetry.as_deref() else { return };
        if self.variables().any(|name| names::ENVIRONMENT.iter().any(|own| name == *own)) {
            return;
        }
        let context = telemetry.context.clone().unwrap_or_else(|| telemetry.host.current());
        launch.env.extend(context.variables().map(|(name, value)| (name.into(), value.into())));
    }
}

/// A future that runs in a span of the host.
pub(crate) struct InSpan<F> {
    span: u64,
    host: Arc<dyn TelemetryHost>,
    future: Pin<Box<F>>,
}

impl<F> InSpan<F> {
    pub(crate) fn new(future: F, span: u64, host: Arc<dyn TelemetryHost>) -> Self {
        Self { span, host, future: Box::pin(future) }
    }
}

impl<F: Future> Future for InSpan<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _guard = self.host.enter(self.span);
        self.future.as_mut().poll(cx)
    }
}

impl<F> fmt::Debug for InSpan<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InSpan").field("span", &self.span).finish_non_exhaustive()
    }
}

/// Posts operations with a function, for hosts that apply them elsewhere.
pub struct PostingHost<F> {
    post: F,
    /// The context of the caller, if the spans of turns are posted, too.
    caller: Option<TraceContext>,
}

impl<F> PostingHost<F> {
    /// Makes a host that starts the spans of turns before it calls the core.
    pub fn new(post: F) -> Self {
        Self { post, caller: None }
    }

    /// Makes a host whose turns are started by the core. It posts the start of their spans, without a parent. Until the span
    /// exists elsewhere, the context of a turn is that of the caller.
    pub fn starting_turns(post: F, caller: TraceContext) -> Self {
        Self { post, caller: Some(caller) }
    }
}

impl<F> fmt::Debug for PostingHost<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostingHost")
    }
}

impl<F: Fn(Vec<Op>) + Send + Sync + 'static> Sink for PostingHost<F> {
    fn now(&self) -> u64 {
        unix_nanos()
    }

    fn apply(&self, ops: Vec<Op>) {
        (self.post)(ops);
    }
}

impl<F: Fn(Vec<Op>) + Send + Sync + 'static> TelemetryHost for PostingHost<F> {
    fn start_turn(&self, start: SpanStart) -> Option<TraceContext> {
        let caller = self.caller.clone()?;
        self.apply(vec![Op::Start(start)]);
        Some(caller)
    }

    fn in_current(self: Arc<Self>) -> Arc<dyn TelemetryHost> {
        self
    }

    fn as_sink(self: Arc<Self>) -> Arc<dyn Sink> {
        self
    }
}
