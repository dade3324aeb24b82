//! Spans and metrics with the SDK of OpenTelemetry, in memory and exported to a receiver on loopback.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use kimi_agent::testing::{ReplayMode, replayed_agent};
use kimi_agent::{Approval, ExternalTool, PromptOptions, Telemetry};
use opentelemetry::trace::{
    FutureExt as _, SpanContext, SpanId, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, global};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{MetricExporter, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, InMemorySpanExporterBuilder, SdkTracerProvider, SpanData};
use serde_json::json;

use super::*;

/// The SDK of OpenTelemetry with exporters in memory.
struct Sdk {
    spans: InMemorySpanExporter,
    metrics: InMemoryMetricExporter,
    tracers: SdkTracerProvider,
    meters: SdkMeterProvider,
}

impl Sdk {
    fn new() -> Self {
        let spans = InMemorySpanExporterBuilder::new().build();
        let metrics = InMemoryMetricExporter::default();
        let tracers = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        let reader = PeriodicReader::builder(metrics.clone()).build();
        let meters = SdkMeterProvider::builder().with_reader(reader).build();
        Self { spans, metrics, tracers, meters }
    }

    fn telemetry(&self) -> Telemetry {
        Telemetry::new().tracer_provider(&self.tracers).meter_provider(&self.meters)
    }

    /// The spans that have ended, by their start.
    fn finished(&self) -> Vec<SpanData> {
        let mut spans = self.spans.get_finished_spans().unwrap();
        spans.sort_by_key(|span| span.start_time);
        spans
    }

    /// The tree of the spans, a line each, indented by depth.
    fn tree(&self) -> Vec<String> {
        let spans = self.finished();
        let names: std::collections::HashMap<SpanId, &SpanData> =
            spans.iter().map(|span| (span.span_context.span_id(), span)).collect();
        let depth = |span: &SpanData| {
            let mut parent = span.parent_span_id;
            std::iter::from_fn(|| {
                let found = names.get(&parent)?;
                parent = found.parent_span_id;
                Some(())
            })
            .count()
        };
        spans.iter().map(|span| format!("{}{}", "  ".repeat(depth(span)), span.name)).collect()
    }

    fn span(&self, name: &str) -> SpanData {
        self.finished().into_iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no span {name}"))
    }

    /// The names of the metrics, with the number of their values.
    fn metrics(&self) -> BTreeMap<String, u64> {
        self.meters.force_flush().unwrap();
        let finished = self.metrics.get_finished_metrics().unwrap();
        let scopes = finished.last().unwrap().scope_metrics();
        let metrics = scopes.flat_map(|scope| scope.metrics());
        metrics.map(|metric| (metric.name().to_owned(), values(metric.data()))).collect()
    }
}

fn values(data: &AggregatedMetrics) -> u64 {
    match data {
        AggregatedMetrics::U64(MetricData::Sum(sum)) => sum.data_points().map(|point| point.value()).sum(),
        AggregatedMetrics::U64(MetricData::Histogram(all)) => all.data_points().map(|point| point.count()).sum(),
        AggregatedMetrics::F64(MetricData::Histogram(all)) => all.data_points().map(|point| point.count()).sum(),
        _ => 0,
    }
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.map(|attribute| attribute.value.as_str().into_owned())
}

/// A turn with an approval, a tool of the program, and tokens.
fn script() -> Value {
    let call = json!({"name": "Shell", "approve": {"action": "run", "description": "ls"}});
    json!([[
        {"tool_call": call},
        {"external_tool": {"name": "add", "arguments": {"a": 1}}},
        {"text": "done with {{env.TRACEPARENT}}"},
    ]])
}

/// A tool call that never gets a result.
fn announced() -> Value {
    let function = json!({"name": "Shell", "arguments": "{}"});
    json!({"event": {"type": "ToolCall", "payload": {"type": "function", "id": "tc", "function": function}}})
}

/// A tool that makes a span of its own, and says which span it runs in.
fn tool(sdk: &Sdk) -> ExternalTool {
    let tracer = sdk.tracers.tracer("program");
    ExternalTool::new("add", "Adds", json!({"type": "object"}), move |_| {
        let tracer = tracer.clone();
        async move {
            // The context also holds after a wait.
            tokio::task::yield_now().await;
            tracer.in_span("work", |_| ());
            Ok("3")
        }
    })
}

async fn run(sdk: &Sdk, telemetry: Telemetry) -> kimi_agent::PromptResult {
    let (options, _agent) = with(script());
    let options = options.telemetry(telemetry).tool(tool(sdk)).on_approval(|_| async { Ok(Approval::Approve) });
    let session = options.start().await.unwrap();
    let result = session.prompt("go").unwrap().result().await.unwrap();
    session.close().await.unwrap();
    result
}

#[tokio::test]
async fn turn_is_tree_below_caller() {
    let sdk = Sdk::new();
    let caller = sdk.tracers.tracer("program").start("caller");
    let caller = Context::current_with_span(caller);
    let parent = caller.span().span_context().clone();
    let result = run(&sdk, sdk.telemetry()).with_context(caller.clone()).await;
    caller.span().end();
    let tree = [
        "caller",
        "  invoke_agent kimi-scripted-agent",
        "    chat",
        "    execute_tool Shell",
        "    chat",
        "    execute_tool add",
        "      work",
        "    chat",
    ];
    assert_eq!(sdk.tree(), tree);
    // The agent was started in the context of the caller.
    assert_eq!(result.text, format!("done with {}", traceparent(&parent)));
    let shell = sdk.span("execute_tool Shell");
    assert_eq!(shell.events.iter().map(|event| &*event.name).collect::<Vec<_>>(), ["kimi_agent.approval"]);
    assert_eq!(attribute(&shell, "gen_ai.tool.type").as_deref(), Some("extension"));
    assert_eq!(attribute(&sdk.span("execute_tool add"), "gen_ai.tool.type").as_deref(), Some("function"));
    assert_eq!(shell.instrumentation_scope.schema_url(), Some("https://opentelemetry.io/schemas/1.41.1"));
    assert!(sdk.finished().iter().all(|span| attribute(span, "gen_ai.input.messages").is_none()));
}

fn traceparent(span: &SpanContext) -> String {
    format!("00-{}-{}-{:02x}", span.trace_id(), span.span_id(), span.trace_flags().to_u8())
}

/// Runs a turn over ACP with an approval.
async fn run_acp(options: SessionOptions) {
    let options = options.dialect(kimi_agent::Dialect::Acp).on_approval(|_| async { Ok(Approval::Approve) });
    let session = options.start().await.unwrap();
    session.prompt("go").unwrap().result().await.unwrap();
    session.close().await.unwrap();
}

#[tokio::test]
async fn acp_prompt_carries_trace() {
    let sdk = Sdk::new();
    let call = json!({"name": "Shell", "approve": {"action": "run", "description": "ls"}});
    let turns = json!([[{"tool_call": call}, {"text": "done"}]]);
    let agent = scripted_agent(json!({"release": "2.1.0", "turns": turns}));
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("run.jsonl");
    let options = || SessionOptions::new().telemetry(sdk.telemetry());
    run_acp(options().executable(&agent).record(&recording)).await;
    // Agents over ACP report no steps.
    assert_eq!(sdk.tree(), ["invoke_agent Kimi Code CLI", "  execute_tool Shell"]);
    let sent = std::fs::read_to_string(&recording).unwrap();
    let header = traceparent(&sdk.finished()[0].span_context);
    assert!(sent.contains(&format!(r#""_meta":{{"traceparent":"{header}"}}"#)), "{sent}");
    // The trace does not count as a difference from a recording.
    run_acp(options().executable(replayed_agent(&recording).mode(ReplayMode::Verify))).await;
    run_acp(SessionOptions::new().executable(replayed_agent(&recording).mode(ReplayMode::Verify))).await;
}

#[tokio::test]
async fn metrics_count_turn() {
    let sdk = Sdk::new();
    run(&sdk, sdk.telemetry()).await;
    let metrics = sdk.metrics();
    // A turn, three steps and two tool calls.
    assert_eq!(metrics["gen_ai.client.operation.duration"], 6);
    assert_eq!(metrics["kimi_agent.tool_calls"], 2);
    assert!(!metrics.contains_key("kimi_agent.approvals.rejected"));
}

#[tokio::test]
async fn content_is_captured_on_demand() {
    let sdk = Sdk::new();
    run(&sdk, sdk.telemetry().capture_content(true)).await;
    let turn = sdk.span("invoke_agent kimi-scripted-agent");
    let input = attribute(&turn, "gen_ai.input.messages").unwrap();
    assert_eq!(input, r#"[{"role":"user","parts":[{"type":"text","content":"go"}]}]"#);
    let tool = sdk.span("execute_tool add");
    assert_eq!(attribute(&tool, "gen_ai.tool.call.arguments").as_deref(), Some(r#"{"a":1}"#));
    assert_eq!(attribute(&tool, "gen_ai.tool.call.result").as_deref(), Some("3"));
}

#[tokio::test]
async fn one_shot_starts_agent_in_turn() {
    let sdk = Sdk::new();
    let (options, _agent) = with(json!([[{"text": "{{env.TRACEPARENT}}"}]]));
    let mut turn = kimi_agent::prompt("go", options.telemetry(sdk.telemetry()));
    let text = turn.result().await.unwrap().text;
    let turn = sdk.span("invoke_agent kimi-scripted-agent");
    assert_eq!(text, traceparent(&turn.span_context));
    assert!(attribute(&turn, "gen_ai.conversation.id").is_some());
}

#[tokio::test]
async fn own_variable_is_kept() {
    let sdk = Sdk::new();
    let caller = Context::current_with_span(sdk.tracers.tracer("program").start("caller"));
    let (options, _agent) = with(json!([[{"text": "{{env.TRACEPARENT}}"}]]));
    let options = options.telemetry(sdk.telemetry()).env([("TRACEPARENT", "mine")]);
    let session = options.start().with_context(caller).await.unwrap();
    assert_eq!(session.prompt("go").unwrap().result().await.unwrap().text, "mine");
}

#[tokio::test]
async fn failures_end_their_spans() {
    let sdk = Sdk::new();
    let (options, _agent) = with(json!([[announced(), {"exit": 3}]]));
    let session = options.telemetry(sdk.telemetry()).start().await.unwrap();
    let wrong = PromptOptions::new("go").timeout(std::time::Duration::ZERO);
    assert_eq!(session.prompt(wrong).unwrap_err().code(), "invalid_option");
    assert_eq!(session.prompt("go").unwrap().result().await.unwrap_err().code(), "agent_exited");
    let types: Vec<_> = sdk.finished().iter().filter_map(|span| attribute(span, "error.type")).collect();
    assert!(types.contains(&"invalid_option".to_owned()) && types.contains(&"agent_exited".to_owned()), "{types:?}");
    assert!(matches!(sdk.span("invoke_agent kimi-scripted-agent").status, Status::Error { .. }));
}

#[tokio::test]
async fn open_step_has_error_of_turn() {
    let sdk = Sdk::new();
    let (options, _agent) = with(json!([[{"text": "Half"}, {"error": {"code": -32003, "message": "down"}}]]));
    let session = options.telemetry(sdk.telemetry()).start().await.unwrap();
    assert_eq!(session.prompt("go").unwrap().result().await.unwrap_err().code(), "llm_service_error");
    session.close().await.unwrap();
    let chat = sdk.span("chat");
    assert_eq!(attribute(&chat, "error.type").as_deref(), Some("llm_service_error"));
    assert_eq!(attribute(&chat, "gen_ai.response.finish_reasons"), None);
    assert!(matches!(chat.status, Status::Error { .. }));
}

#[tokio::test]
async fn failed_start_ends_one_shot() {
    let sdk = Sdk::new();
    let options = SessionOptions::new().executable("/no/such/kimi").telemetry(sdk.telemetry());
    let error = kimi_agent::prompt("go", options).result().await.unwrap_err();
    assert_eq!(error.code(), "spawn_error");
    assert_eq!(attribute(&sdk.span("invoke_agent"), "error.type").as_deref(), Some("spawn_error"));
}

#[tokio::test]
async fn dropped_session_ends_spans() {
    let sdk = Sdk::new();
    let (options, _agent) = with(json!([[announced(), {"wait_cancel": true}]]));
    let session = options.telemetry(sdk.telemetry()).start().await.unwrap();
    let mut turn = session.prompt("go").unwrap();
    until(&mut turn, "ToolCall").await;
    session.close_with_timeout(std::time::Duration::ZERO).await.unwrap();
    drop((turn, session));
    assert_eq!(sdk.tree(), ["invoke_agent kimi-scripted-agent", "  execute_tool Shell"]);
}

#[tokio::test]
async fn global_provider_is_default() {
    let sdk = Sdk::new();
    global::set_tracer_provider(sdk.tracers.clone());
    run(&sdk, Telemetry::new()).await;
    assert!(sdk.tree().contains(&"  execute_tool add".to_owned()));
}

/// A receiver of OTLP on loopback, which keeps the path and the body of each request.
struct Receiver {
    address: std::net::SocketAddr,
    received: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let kept = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                kept.lock().unwrap().push(read_request(&mut stream));
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}").unwrap();
            }
        });
        Self { address, received }
    }

    fn endpoint(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn read_request(stream: &mut TcpStream) -> (String, Value) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let path = line.split(' ').nth(1).unwrap().to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        match header.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (path, serde_json::from_slice(&body).unwrap())
}

/// Sends the requests of an exporter, each over a connection of its own.
#[derive(Debug)]
struct Client;

impl HttpClient for Client {
    fn send_bytes<'a, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let mut stream = TcpStream::connect(request.uri().authority().unwrap().as_str())?;
            let (path, body) = (request.uri().path(), request.body());
            write!(stream, "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len())?;
            stream.write_all(body)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            Ok(Response::new(Bytes::from_static(b"{}")))
        })
    }
}

#[tokio::test]
async fn spans_are_exported_over_otlp() {
    let receiver = Receiver::start();
    let spans = SpanExporter::builder().with_http().with_http_client(Client).with_protocol(Protocol::HttpJson);
    let spans = spans.with_endpoint(receiver.endpoint("/v1/traces")).build().unwrap();
    let metrics = MetricExporter::builder().with_http().with_http_client(Client).with_protocol(Protocol::HttpJson);
    let metrics = metrics.with_endpoint(receiver.endpoint("/v1/metrics")).build().unwrap();
    let sdk = Sdk {
        tracers: SdkTracerProvider::builder().with_batch_exporter(spans).build(),
        meters: SdkMeterProvider::builder().with_reader(PeriodicReader::builder(metrics).build()).build(),
        ..Sdk::new()
    };
    run(&sdk, sdk.telemetry()).await;
    sdk.tracers.force_flush().unwrap();
    sdk.meters.force_flush().unwrap();
    let received = receiver.received.lock().unwrap().clone();
    let all = |path: &str, list: &str, scoped: &str, items: &str| -> Vec<Value> {
        let bodies = received.iter().filter(|(at, _)| at == path).map(|(_, body)| body);
        let scopes =
            bodies.flat_map(|body| body[list].as_array().unwrap()).flat_map(|one| one[scoped].as_array().unwrap());
        scopes.flat_map(|scope| scope[items].as_array().unwrap().clone()).collect()
    };
    let spans = all("/v1/traces", "resourceSpans", "scopeSpans", "spans");
    let turn = spans.iter().find(|span| span["name"] == "invoke_agent kimi-scripted-agent").unwrap();
    let children = spans.iter().filter(|span| span["parentSpanId"] == turn["spanId"]).count();
    assert_eq!((children, spans.len()), (5, 7));
    let metrics = all("/v1/metrics", "resourceMetrics", "scopeMetrics", "metrics");
    assert!(metrics.iter().any(|metric| metric["name"] == "gen_ai.client.operation.duration"));
}
