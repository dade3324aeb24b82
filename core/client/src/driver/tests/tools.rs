//! Tools that the agent calls through the MCP server: as one that it calls over the connection. Sockets are real, and
//! so is the time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use rmcp::service::PeerRequestOptions;

use super::*;
use crate::dialect::ToolsEndpoint;
use crate::dialect::{Answer, Call, Dialect, Handshake, Incoming, InitializeParams, Wire, WireVersion};
use crate::error::RpcErrorKind;
use crate::jsonrpc::RpcFailure;
use crate::messages::Json;
use crate::tools_server::tests::{Reports, call, client, client_with};
use crate::{ExternalTool, ToolContext};

/// Wire as an agent would speak it that takes tools from an MCP server.
#[derive(Debug)]
struct Served {
    wire: Wire,
    endpoint: Arc<OnceLock<ToolsEndpoint>>,
}

impl Dialect for Served {
    fn takes_tools_from_server(&self) -> bool {
        true
    }

    fn call(&mut self, id: &str, call: &Call) -> crate::Result<Vec<u8>> {
        let Call::Initialize(params) = call else { return self.wire.call(id, call) };
        if let Some(endpoint) = &params.tools_server {
            self.endpoint.set(endpoint.clone()).expect("one handshake");
        }
        self.wire.call(id, &Call::Initialize(InitializeParams { tools: Vec::new(), ..params.clone() }))
    }

    fn read(&mut self, message: crate::jsonrpc::Message<'_>) -> Incoming {
        self.wire.read(message)
    }

    fn answer(&mut self, rpc_id: &str, request_id: &str, answer: &Answer) -> Vec<u8> {
        self.wire.answer(rpc_id, request_id, answer)
    }

    fn refuse(&mut self, rpc_id: &str, code: i64, message: &str) -> Vec<u8> {
        self.wire.refuse(rpc_id, code, message)
    }

    fn finish_handshake(&mut self, outcome: Result<Json, RpcFailure>) -> crate::Result<Handshake> {
        self.wire.finish_handshake(outcome)
    }

    fn map_error_code(&self, call: &Call, code: i64) -> RpcErrorKind {
        self.wire.map_error_code(call, code)
    }
}

async fn served(options: SessionOptions) -> (Session, Agent, ToolsEndpoint) {
    let (transport, end) = memory::pair(4096);
    let mut agent =
        Agent { reader: BufReader::new(end.reader), writer: end.writer, exit: end.exit, ids: Default::default() };
    let endpoint = Arc::new(OnceLock::new());
    let dialect = Served { wire: Wire::new(WireVersion::LATEST), endpoint: Arc::clone(&endpoint) };
    let opening = options.open_with(transport, Box::new(dialect), "id".to_owned(), PathBuf::from("."));
    let (session, ()) = tokio::join!(opening, agent.welcome());
    (session.expect("open"), agent, endpoint.get().expect("a server").clone())
}

async fn served_in_turn(options: SessionOptions) -> (Session, Agent, Turn, ToolsEndpoint) {
    let (session, mut agent, endpoint) = served(options).await;
    let turn = session.prompt("hi").expect("a turn");
    agent.expect("prompt").await;
    (session, agent, turn, endpoint)
}

fn tool<F, R>(name: &str, handler: F) -> ExternalTool
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, crate::HandlerError>> + Send + 'static,
{
    ExternalTool::new(name, "", json!({"type": "object"}), handler)
}

/// A tool that never ends, and reports when it has begun and when it is dropped.
fn endless() -> (ExternalTool, tokio::sync::mpsc::UnboundedReceiver<&'static str>) {
    struct Gone(tokio::sync::mpsc::UnboundedSender<&'static str>);
    impl Drop for Gone {
        fn drop(&mut self) {
            let _ = self.0.send("gone");
        }
    }
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let tool = tool("endless", move |_| {
        let gone = Gone(sender.clone());
        async move {
            let _ = gone.0.send("begun");
            std::future::pending::<()>().await;
            drop(gone);
            Ok(Value::Null)
        }
    });
    (tool, receiver)
}

#[tokio::test]
async fn tool_call_becomes_request_of_turn() {
    let options = SessionOptions::new()
        .tool(tool("add", |args| async move { Ok(json!(args["a"].as_i64().ok_or("no a")? + 1)) }))
        .tool(tool("panics", |_| async { panic!("boom") }))
        .tool(tool("nonsense", |_| async { Ok(json!({"is_error": "maybe", "output": 1})) }))
        .tool(tool("slow", |_| std::future::pending()).timeout(Duration::from_millis(1)));
    let (session, mut agent, mut turn, endpoint) = served_in_turn(options).await;
    assert_eq!(session.external_tools().accepted, ["add", "panics", "nonsense", "slow"]);
    let client = client(&endpoint, true).await;
    assert_eq!(call(&client, "add", json!({"a": 2})).await, (false, "3".to_owned()));
    assert_eq!(call(&client, "add", json!({})).await, (true, "no a".to_owned()));
    assert_eq!(call(&client, "panics", json!({})).await, (true, "the handler panicked: boom".to_owned()));
    let (failed, reason) = call(&client, "nonsense", json!({})).await;
    assert!(failed && reason.starts_with("the handler returned an invalid ToolReturnValue"), "{reason}");
    assert_eq!(call(&client, "slow", json!({})).await, (true, "the handler took longer than its 1ms".to_owned()));
    assert_eq!(call(&client, "other", json!({})).await, (true, "other: the program has no such tool".to_owned()));
    agent.finish().await;
    let mut requests = Vec::new();
    let mut failures = Vec::new();
    while let Some(event) = turn.next().await {
        match event.expect("an event") {
            Event::ToolCallRequest(call) => requests.push((call.id, call.name, call.arguments)),
            Event::HandlerFailed(failed) => failures.push((failed.request_id, failed.name)),
            _ => {}
        }
    }
    let ids: Vec<_> = (1..=6).map(|n| format!("mcp-{n}")).collect();
    assert_eq!(requests.iter().map(|request| request.0.clone()).collect::<Vec<_>>(), ids);
    assert_eq!(requests[0].2.as_deref(), Some(r#"{"a":2}"#));
    let names = ["add", "panics", "nonsense", "slow"].map(|name| Some(name.to_owned()));
    assert_eq!(failures, (1..5).map(|n| (Some(ids[n].clone()), names[n - 1].clone())).collect::<Vec<_>>());
    client.cancel().await.expect("gone");
    tokio::spawn(agent.obey());
    session.close().await.expect("closed");
}

#[tokio::test]
async fn tool_call_outside_turn_reaches_on_event() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let options = SessionOptions::new()
        .tool(tool("add", |_| async { Ok(json!("3")) }))
        .on_event(move |event| record.lock().unwrap().push(event.type_name().to_owned()));
    let (session, agent, endpoint) = served(options).await;
    tokio::spawn(agent.obey());
    let client = client(&endpoint, false).await;
    assert_eq!(call(&client, "add", json!({})).await, (false, "3".to_owned()));
    session.close().await.expect("closed");
    assert_eq!(*seen.lock().unwrap(), ["ToolCallRequest"]);
}

#[tokio::test]
async fn progress_of_tool_reaches_client_before_result() {
    let schema = json!({"type": "object"});
    let handler = |_, context: ToolContext| async move {
        context.progress(Some(0.25), Some("first"));
        context.progress(Some(0.5), Some("half"));
        Ok(context.call_id().to_owned())
    };
    let options = SessionOptions::new().tool(ExternalTool::with_context("build", "", schema, handler));
    let (session, agent, _turn, endpoint) = served_in_turn(options).await;
    tokio::spawn(agent.obey());
    let (reporter, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let client = client_with(Reports(reporter), &endpoint, true).await;
    assert_eq!(call(&client, "build", json!({})).await, (false, "mcp-1".to_owned()));
    // The first report may be replaced by the second.
    let last = loop {
        let report = reports.recv().await.expect("a report");
        if report.message.as_deref() == Some("half") {
            break report;
        }
    };
    assert_eq!((last.progress, last.total), (0.5, Some(1.0)));
    session.close().await.expect("closed");
}

#[tokio::test]
async fn thread_of_cancelled_tool_sees_cancellation() {
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let schema = json!({"type": "object"});
    let handler = move |_, context: ToolContext| {
        let _ = begun.send(context);
        std::future::pending::<Result<Value, crate::HandlerError>>()
    };
    let options = SessionOptions::new().tool(ExternalTool::with_context("endless", "", schema, handler));
    let (session, agent, _turn, endpoint) = served_in_turn(options).await;
    tokio::spawn(agent.obey());
    let client = client(&endpoint, true).await;
    let calling = tokio::spawn(async move { call(&client, "endless", json!({})).await });
    let context = begins.recv().await.expect("a call");
    assert!(!context.is_cancelled());
    calling.abort();
    session.close().await.expect("closed");
    context.cancelled().await;
}

#[tokio::test]
async fn cancelled_turn_stops_its_tools() {
    let (endless, mut told) = endless();
    let (session, mut agent, mut turn, endpoint) = served_in_turn(SessionOptions::new().tool(endless)).await;
    let client = Arc::new(client(&endpoint, true).await);
    let calling = tokio::spawn({
        let client = Arc::clone(&client);
        async move { call(&client, "endless", json!({})).await }
    });
    assert_eq!(told.recv().await, Some("begun"));
    let agent = async {
        agent.expect("cancel").await;
        assert_eq!(told.recv().await, Some("gone"));
        assert_eq!(calling.await.expect("no panic"), (true, "endless: its turn has ended".to_owned()));
        // While the cancel is under way, none begins any more.
        let answer = call(&client, "endless", json!({})).await;
        assert_eq!(answer, (true, "endless: the turn was cancelled".to_owned()));
        assert!(told.try_recv().is_err());
        agent.answer("cancel", json!({})).await;
        agent.answer("prompt", json!({"status": "cancelled"})).await;
        agent
    };
    let (cancelled, agent) = tokio::join!(turn.cancel(), agent);
    cancelled.expect("cancelled");
    assert_eq!(turn.result().await.expect("an outcome").status, crate::TurnStatus::Cancelled);
    tokio::spawn(agent.obey());
    session.close().await.expect("closed");
}

#[tokio::test]
async fn cancelled_client_call_stops_tool() {
    let (endless, mut told) = endless();
    let (session, agent, _turn, endpoint) = served_in_turn(SessionOptions::new().tool(endless)).await;
    tokio::spawn(agent.obey());
    let first = client(&endpoint, true).await;
    let request = CallToolRequest::new(CallToolRequestParams::new("endless"));
    let handle = first
        .send_request_with_option(ClientRequest::CallToolRequest(request), PeerRequestOptions::no_options())
        .await
        .expect("sent");
    assert_eq!(told.recv().await, Some("begun"));
    handle.cancel(None).await.expect("cancelled");
    assert_eq!(told.recv().await, Some("gone"));
    first.cancel().await.expect("gone");
    session.close().await.expect("closed");
}

#[tokio::test]
async fn close_during_call_ends_everything() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let (endless, mut told) = endless();
    let (session, agent, turn, endpoint) = served_in_turn(SessionOptions::new().tool(endless)).await;
    let client = Arc::new(client(&endpoint, true).await);
    let calling = tokio::spawn({
        let client = Arc::clone(&client);
        async move { drop(client.call_tool(CallToolRequestParams::new("endless")).await) }
    });
    assert_eq!(told.recv().await, Some("begun"));
    let obeying = tokio::spawn(agent.obey());
    session.close().await.expect("closed");
    // Everything is closed by then, without any other wait.
    assert_eq!(told.try_recv(), Ok("gone"));
    let address = endpoint.url["http://".len()..endpoint.url.len() - "/mcp".len()].to_owned();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    calling.await.expect("no panic");
    obeying.await.expect("no panic");
    drop((turn, session));
    drop(Arc::into_inner(client).expect("the only one").cancel().await);
    while tasks() > before {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn fifty_calls_run_at_once() {
    // None ends before all have begun.
    let barrier = Arc::new(tokio::sync::Barrier::new(50));
    let running = Arc::new(AtomicUsize::new(0));
    let (gate, count) = (Arc::clone(&barrier), Arc::clone(&running));
    let options = SessionOptions::new().tool(tool("meet", move |args| {
        let (gate, count) = (Arc::clone(&gate), Arc::clone(&count));
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            gate.wait().await;
            Ok(args["n"].clone())
        }
    }));
    let (session, agent, _turn, endpoint) = served_in_turn(options).await;
    tokio::spawn(agent.obey());
    for sessions in [true, false] {
        let client = Arc::new(client(&endpoint, sessions).await);
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..50 {
            let client = Arc::clone(&client);
            calls.spawn(async move { (n, call(&client, "meet", json!({"n": n})).await) });
        }
        while let Some(done) = calls.join_next().await {
            let (n, answer) = done.expect("no panic");
            assert_eq!(answer, (false, n.to_string()));
        }
    }
    assert_eq!(running.load(Ordering::SeqCst), 100);
    session.close().await.expect("closed");
}

#[tokio::test]
async fn unread_turn_blocks_tool_calls() {
    let options = SessionOptions::new().event_buffer_bytes(1024).tool(tool("add", |_| async { Ok(json!("3")) }));
    let (session, agent, mut turn, endpoint) = served_in_turn(options).await;
    tokio::spawn(agent.obey());
    let client = Arc::new(client(&endpoint, false).await);
    let text = "x".repeat(600);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (client, text) = (Arc::clone(&client), text.clone());
        calls.spawn(async move { call(&client, "add", json!({"text": text})).await });
    }
    // Two fill the buffer; they are answered, and the others wait.
    for _ in 0..2 {
        assert_eq!(calls.join_next().await.expect("a call").expect("no panic"), (false, "3".to_owned()));
    }
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(calls.len(), 18);
    for _ in 0..20 {
        assert_eq!(turn.next().await.expect("an event").expect("fine").type_name(), "ToolCallRequest");
    }
    while let Some(done) = calls.join_next().await {
        assert_eq!(done.expect("no panic"), (false, "3".to_owned()));
    }
    session.close().await.expect("closed");
}

#[tokio::test]
async fn served_output_is_approved() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let output = crate::Output::new(schema).check(|value| async move {
        if value["n"] == 3 { Ok(()) } else { Err(vec![crate::OutputError::new("/n", "expected 3")]) }
    });
    let options = SessionOptions::new()
        .output(output)
        .on_approval(|request| async move { panic!("asked about {}", request.sender) });
    let (session, mut agent, mut turn, endpoint) = served_in_turn(options).await;
    assert!(session.external_tools().accepted.is_empty());
    let client = client(&endpoint, true).await;
    let listed = client.list_all_tools().await.expect("tools");
    assert_eq!(listed.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["final_result"]);
    let function = json!({"name": "mcp__program__final_result", "arguments": "{\"n\": 3}"});
    agent.event("ToolCall", json!({"type": "function", "id": "t", "function": function})).await;
    let asked = json!({"id": "a", "tool_call_id": "t", "sender": "mcp__program__final_result", "action": "call", "description": ""});
    agent.request("a", "ApprovalRequest", asked).await;
    assert_eq!(agent.read().await["result"]["response"], "approve");
    let (failed, reason) = call(&client, "final_result", json!({"n": "3"})).await;
    assert!(failed && reason.contains("- /n: want integer, but got string"), "{reason}");
    let (failed, reason) = call(&client, "final_result", json!({"n": 2})).await;
    assert!(failed && reason.contains("- /n: expected 3"), "{reason}");
    assert_eq!(call(&client, "final_result", json!({"n": 3})).await, (false, "The result is accepted.".to_owned()));
    agent.finish().await;
    assert_eq!(turn.result().await.expect("a result").output, Some(json!({"n": 3})));
    client.cancel().await.expect("gone");
    tokio::spawn(agent.obey());
    session.close().await.expect("closed");
}

#[tokio::test]
async fn exhausted_served_output_cancels_turn() {
    let output = crate::Output::new(json!({"type": "object", "required": ["n"]})).retries(0);
    let (session, agent, mut turn, endpoint) = served_in_turn(SessionOptions::new().output(output)).await;
    tokio::spawn(agent.obey());
    let client = client(&endpoint, true).await;
    assert!(call(&client, "final_result", json!({})).await.0);
    assert_eq!(turn.result().await.expect_err("no value").code(), "output_invalid");
    client.cancel().await.expect("gone");
    session.close().await.expect("closed");
}
