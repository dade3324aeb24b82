//! The API of OpenTelemetry as the host of telemetry, for programs in Rust.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kimi_agent_protocol::telemetry::names::{ERROR_TYPE, Instrument, METRICS, Metric, SCHEMA_URL, SCOPE};
use kimi_agent_protocol::telemetry::{Attributes, Op, Sink, SpanError, SpanKind, SpanStart, TraceContext, Value};
use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider};
use opentelemetry::trace::{Span, SpanContext, Status, TraceContextExt as _, Tracer, TracerProvider};
use opentelemetry::{Array, Context, InstrumentationScope, KeyValue, StringValue};

use super::{TelemetryHost, TelemetryOptions, unix_nanos};
use crate::options::SessionOptions;

/// Spans and metrics of a session through the API of OpenTelemetry. [`SessionOptions::telemetry`] takes it.
///
/// ```
/// use kimi_agent::{SessionOptions, Telemetry};
/// let options = SessionOptions::new().telemetry(Telemetry::new());
/// # options.validate().unwrap();
/// ```
#[derive(Clone, Default)]
pub struct Telemetry {
    tracer: Option<Arc<BoxedTracer>>,
    meter: Option<Meter>,
    captures_content: Option<bool>,
}

impl Telemetry {
    /// Makes telemetry with the global providers, which are looked up when the first session starts.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::Telemetry;
    /// let telemetry = Telemetry::new();
    /// # drop(telemetry);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the provider of the tracer. Default: the global provider.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::Telemetry;
    /// let provider = opentelemetry::trace::noop::NoopTracerProvider::new();
    /// let telemetry = Telemetry::new().tracer_provider(&provider);
    /// # drop(telemetry);
    /// ```
    #[must_use]
    pub fn tracer_provider<P>(mut self, provider: &P) -> Self
    where
        P: TracerProvider,
        P::Tracer: Send + Sync + 'static,
        <P::Tracer as Tracer>::Span: Span + Send + Sync + 'static,
    {
        self.tracer = Some(Arc::new(BoxedTracer::new(Box::new(provider.tracer_with_scope(scope())))));
        self
    }

    /// Sets the provider of the meter. Default: the global provider.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::Telemetry;
    /// let telemetry = Telemetry::new().meter_provider(&*opentelemetry::global::meter_provider());
    /// # drop(telemetry);
    /// ```
    #[must_use]
    pub fn meter_provider(mut self, provider: &(impl MeterProvider + ?Sized)) -> Self {
        self.meter = Some(provider.meter_with_scope(scope()));
        self
    }

    /// Sets whether spans have content: prompts, answers, arguments and results of tools. Default: the environment variable
    /// `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`, else false.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::Telemetry;
    /// let telemetry = Telemetry::new().capture_content(true);
    /// # drop(telemetry);
    /// ```
    #[must_use]
    pub fn capture_content(mut self, capture: bool) -> Self {
        self.captures_content = Some(capture);
        self
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("captures_content", &self.captures_content).finish_non_exhaustive()
    }
}

impl SessionOptions {
    /// Reports spans and metrics of the session through the API of OpenTelemetry. Each turn is a span whose parent is the context
    /// in which [`Session::prompt`](crate::Session::prompt) is called. Handlers and tools run in the context of their spans.
    /// Default: no telemetry.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{SessionOptions, Telemetry};
    /// let options = SessionOptions::new().telemetry(Telemetry::new().capture_content(false));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        let captures_content = telemetry.captures_content;
        let host = Arc::new(OtelHost::new(telemetry, None));
        self.telemetry = Some(Box::new(TelemetryOptions { host, captures_content, context: None }));
        self
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(SCOPE).with_version(env!("CARGO_PKG_VERSION")).with_schema_url(SCHEMA_URL).build()
}

/// Applies operations with the API of OpenTelemetry.
struct OtelHost {
    telemetry: Telemetry,
    api: OnceLock<Api>,
    /// The contexts of the spans that are open.
    contexts: Mutex<HashMap<u64, Context>>,
    /// The parent of turns. `None`: the current context.
    caller: Option<Context>,
}

struct Api {
    tracer: Arc<BoxedTracer>,
    instruments: HashMap<&'static str, Recorder>,
}

/// The instrument of a metric.
enum Recorder {
    Whole(Histogram<u64>),
    Seconds(Histogram<f64>),
    Count(Counter<u64>),
}

impl fmt::Debug for OtelHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OtelHost").field(&self.telemetry).finish()
    }
}

impl Api {
    fn new(telemetry: &Telemetry) -> Self {
        let tracer = telemetry.tracer.clone();
        let tracer = tracer.unwrap_or_else(|| Arc::new(global::tracer_with_scope(scope())));
        let meter = telemetry.meter.clone().unwrap_or_else(|| global::meter_with_scope(scope()));
        let instruments = METRICS.iter().map(|metric| (metric.name, Recorder::new(metric, &meter))).collect();
        Self { tracer, instruments }
    }
}

impl Recorder {
    fn new(metric: &Metric, meter: &Meter) -> Self {
        let Metric { name, unit, description, .. } = *metric;
        let boundaries = metric.boundaries.to_vec();
        match metric.kind {
            Instrument::Counter => {
                Self::Count(meter.u64_counter(name).with_unit(unit).with_description(description).build())
            }
            Instrument::Histogram if unit == "s" => {
                let histogram = meter.f64_histogram(name).with_unit(unit).with_description(description);
                Self::Seconds(histogram.with_boundaries(boundaries).build())
            }
            Instrument::Histogram => {
                let histogram = meter.u64_histogram(name).with_unit(unit).with_description(description);
                Self::Whole(histogram.with_boundaries(boundaries).build())
            }
        }
    }

    fn record(&self, value: &Value, attributes: &[KeyValue]) {
        let whole = match value {
            Value::Int(number) => u64::try_from(*number).unwrap_or_default(),
            _ => 0,
        };
        match (self, value) {
            (Self::Seconds(histogram), Value::Double(seconds)) => histogram.record(*seconds, attributes),
            (Self::Seconds(_), _) => {}
            (Self::Whole(histogram), _) => histogram.record(whole, attributes),
            (Self::Count(counter), _) => counter.add(whole, attributes),
        }
    }
}

impl OtelHost {
    fn new(telemetry: Telemetry, caller: Option<Context>) -> Self {
        Self { telemetry, api: OnceLock::new(), contexts: Mutex::default(), caller }
    }

    fn caller(&self) -> Context {
        self.caller.clone().unwrap_or_else(Context::current)
    }

    fn api(&self) -> &Api {
        self.api.get_or_init(|| Api::new(&self.telemetry))
    }

    fn contexts(&self) -> MutexGuard<'_, HashMap<u64, Context>> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the context of a span that is open.
    fn context(&self, span: u64) -> Option<Context> {
        self.contexts().get(&span).cloned()
    }

    fn start(&self, start: SpanStart, parent: &Context) -> Context {
        let tracer = &self.api().tracer;
        let kind = match start.kind {
            SpanKind::Client => opentelemetry::trace::SpanKind::Client,
            SpanKind::Internal => opentelemetry::trace::SpanKind::Internal,
        };
        let builder = tracer
            .span_builder(start.name)
            .with_kind(kind)
            .with_start_time(time(start.time))
            .with_attributes(key_values(start.attributes));
        let context = parent.with_span(tracer.build_with_context(builder, parent));
        self.contexts().insert(start.span, context.clone());
        context
    }

    fn end(&self, span: u64, ended: u64, error: Option<SpanError>) {
        let Some(context) = self.contexts().remove(&span) else { return };
        let span = context.span();
        if let Some(SpanError { kind, message }) = error {
            span.set_attribute(KeyValue::new(ERROR_TYPE, kind));
            span.set_status(Status::error(message));
        }
        span.end_with_timestamp(time(ended));
    }

    fn apply_one(&self, op: Op) {
        match op {
            Op::Start(start) => {
                let parent = start.parent.and_then(|parent| self.context(parent)).unwrap_or_default();
                self.start(start, &parent);
            }
            Op::Event { span, name, time: at, attributes } => {
                if let Some(context) = self.context(span) {
                    context.span().add_event_with_timestamp(name, time(at), key_values(attributes));
                }
            }
            Op::Set { span, name, attributes } => {
                let Some(context) = self.context(span) else { return };
                if let Some(name) = name {
                    context.span().update_name(name);
                }
                context.span().set_attributes(key_values(attributes));
            }
            Op::End { span, time, error } => self.end(span, time, error),
            Op::Record { metric, value, attributes } => {
                if let Some(recorder) = self.api().instruments.get(metric) {
                    recorder.record(&value, &key_values(attributes));
                }
            }
        }
    }
}

impl Sink for OtelHost {
    fn now(&self) -> u64 {
        unix_nanos()
    }

    fn apply(&self, ops: Vec<Op>) {
        ops.into_iter().for_each(|op| self.apply_one(op));
    }
}

impl TelemetryHost for OtelHost {
    fn start_turn(&self, start: SpanStart) -> Option<TraceContext> {
        let context = self.start(start, &self.caller());
        Some(headers(context.span().span_context()))
    }

    fn current(&self) -> TraceContext {
        headers(self.caller().span().span_context())
    }

    fn in_current(self: Arc<Self>) -> Arc<dyn TelemetryHost> {
        Arc::new(Self::new(self.telemetry.clone(), Some(Context::current())))
    }

    fn enter(&self, span: u64) -> Option<Box<dyn Any>> {
        Some(Box::new(self.context(span)?.attach()))
    }

    fn as_sink(self: Arc<Self>) -> Arc<dyn Sink> {
        self
    }
}

/// Returns a span's context as the headers of W3C. The global propagator may use others.
fn headers(span: &SpanContext) -> TraceContext {
    if !span.is_valid() {
        return TraceContext::default();
    }
    let flags = span.trace_flags().to_u8();
    TraceContext {
        traceparent: Some(format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id())),
        tracestate: Some(span.trace_state().header()).filter(|state| !state.is_empty()),
    }
}

fn time(nanos: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(nanos)
}

fn key_values(attributes: Attributes) -> Vec<KeyValue> {
    attributes.into_iter().map(|(name, value)| KeyValue::new(name, attribute(value))).collect()
}

fn attribute(value: Value) -> opentelemetry::Value {
    match value {
        Value::Text(text) => text.into(),
        Value::Int(number) => number.into(),
        Value::Double(number) => number.into(),
        Value::Texts(texts) => {
            opentelemetry::Value::Array(Array::String(texts.into_iter().map(StringValue::from).collect()))
        }
    }
}
