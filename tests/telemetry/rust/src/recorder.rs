//! The SDK of OpenTelemetry, in memory, and the recorded spans and metrics as JSON.

use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use kimi_agent::Telemetry;
use opentelemetry::trace::{Event, SpanId, SpanKind, Status};
use opentelemetry::{Array, KeyValue};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, Histogram, Metric, MetricData, Sum};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::{Map, Value, json};

/// Records in memory.
pub(crate) struct Recorder {
    spans: InMemorySpanExporter,
    metrics: InMemoryMetricExporter,
    pub(crate) tracers: SdkTracerProvider,
    pub(crate) meters: SdkMeterProvider,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        let (spans, metrics) = (InMemorySpanExporter::default(), InMemoryMetricExporter::default());
        let tracers = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        let reader = PeriodicReader::builder(metrics.clone()).build();
        let meters = SdkMeterProvider::builder().with_reader(reader).build();
        Self { spans, metrics, tracers, meters }
    }

    /// The option of a session that is recorded.
    pub(crate) fn telemetry(&self) -> Telemetry {
        Telemetry::new().tracer_provider(&self.tracers).meter_provider(&self.meters)
    }

    /// The spans that have ended and the metrics, in the form that `run.py` reads.
    pub(crate) fn recorded(&self) -> Result<Value, Box<dyn Error>> {
        self.meters.force_flush()?;
        let spans: Vec<_> = self.spans.get_finished_spans()?.iter().map(span).collect();
        let collected = self.metrics.get_finished_metrics()?;
        let scopes = collected.last().into_iter().flat_map(|resource| resource.scope_metrics());
        let metrics: Vec<_> = scopes.flat_map(|scope| scope.metrics()).flat_map(points).collect();
        Ok(json!({"spans": spans, "metrics": metrics}))
    }
}

fn span(span: &SpanData) -> Value {
    let (status, message) = match &span.status {
        Status::Unset => ("unset", ""),
        Status::Ok => ("ok", ""),
        Status::Error { description } => ("error", &**description),
    };
    let parent = (span.parent_span_id != SpanId::INVALID).then(|| span.parent_span_id.to_string());
    json!({
        "id": span.span_context.span_id().to_string(),
        "parent": parent,
        "start": nanoseconds(span.start_time),
        "name": span.name,
        "kind": kind(&span.span_kind),
        "status": status,
        "message": message,
        "attributes": attributes(&span.attributes),
        "events": span.events.iter().map(event).collect::<Vec<_>>(),
    })
}

fn event(event: &Event) -> Value {
    json!({"name": event.name, "attributes": attributes(&event.attributes)})
}

fn kind(kind: &SpanKind) -> &'static str {
    match kind {
        SpanKind::Client => "client",
        SpanKind::Server => "server",
        SpanKind::Producer => "producer",
        SpanKind::Consumer => "consumer",
        SpanKind::Internal => "internal",
    }
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The values of a metric, each with its attributes.
fn points(metric: &Metric) -> Vec<Value> {
    let found = match metric.data() {
        AggregatedMetrics::U64(MetricData::Sum(sum)) => counts(sum),
        AggregatedMetrics::U64(MetricData::Histogram(histogram)) => buckets(histogram),
        AggregatedMetrics::F64(MetricData::Histogram(histogram)) => buckets(histogram),
        _ => Vec::new(),
    };
    let named = |mut point: Value| {
        point["name"] = metric.name().into();
        point["unit"] = metric.unit().into();
        point
    };
    found.into_iter().map(named).collect()
}

fn counts(sum: &Sum<u64>) -> Vec<Value> {
    let point = |value: u64, given: Value| json!({"attributes": given, "count": value, "sum": value, "boundaries": []});
    sum.data_points().map(|data| point(data.value(), attributes(data.attributes()))).collect()
}

fn buckets<T: Copy + Into<Value>>(histogram: &Histogram<T>) -> Vec<Value> {
    let points = histogram.data_points().map(|data| {
        json!({
            "attributes": attributes(data.attributes()),
            "count": data.count(),
            "sum": Into::<Value>::into(data.sum()),
            "boundaries": data.bounds().collect::<Vec<_>>(),
        })
    });
    points.collect()
}

fn attributes<'a>(given: impl IntoIterator<Item = &'a KeyValue>) -> Value {
    let values = given.into_iter().map(|attribute| (attribute.key.to_string(), value(&attribute.value)));
    Value::Object(values.collect::<Map<_, _>>())
}

fn value(given: &opentelemetry::Value) -> Value {
    match given {
        opentelemetry::Value::Bool(value) => (*value).into(),
        opentelemetry::Value::I64(value) => (*value).into(),
        opentelemetry::Value::F64(value) => (*value).into(),
        opentelemetry::Value::Array(Array::String(texts)) => texts.iter().map(|text| text.as_str()).collect(),
        other => other.as_str().into(),
    }
}
