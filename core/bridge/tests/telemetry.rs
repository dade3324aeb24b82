//! Telemetry as a binding gets it: operations in the mailbox, in order with the other deliveries.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use kimi_agent_bridge::{
    BridgeBatch, BridgeSession, Callbacks, Delivery, JobKind, Mailbox, Mode, Naming, Reply, next_id, telemetry_names,
};
use kimi_agent_client::SessionOptions;
use kimi_agent_client::host::program;
use kimi_agent_client::testing::{ScriptedAgent, scripted_agent};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

/// A host that applies operations to a tree of spans.
struct Host {
    mailbox: Arc<Mailbox>,
    bell: Arc<Notify>,
    /// The outcomes of tickets.
    outcomes: BTreeMap<u64, kimi_agent_client::Result<Reply>>,
    spans: BTreeMap<u64, Value>,
    metrics: Vec<String>,
    /// The name of the span of each job.
    jobs: Vec<(JobKind, Option<String>)>,
    /// The prompts of a batch.
    prompts: Vec<&'static str>,
}

impl Host {
    fn new() -> Self {
        let bell = Arc::new(Notify::new());
        let rung = Arc::clone(&bell);
        let mailbox = Mailbox::new(move || rung.notify_one());
        let (outcomes, spans) = (BTreeMap::new(), BTreeMap::new());
        Self { mailbox, bell, outcomes, spans, metrics: Vec::new(), jobs: Vec::new(), prompts: Vec::new() }
    }

    fn open(&self, options: Value) -> (BridgeSession, u64) {
        let callbacks = Callbacks { on_approval: Mode::Handler, ..Callbacks::default() };
        let runtime = tokio::runtime::Handle::current();
        BridgeSession::open(next_id(), Arc::clone(&self.mailbox), runtime, map(options), Naming::Snake, callbacks)
            .unwrap()
    }

    /// Applies an operation, as JSON.
    fn apply(&mut self, op: Value) {
        let Some(number) = op["span"].as_u64() else {
            return self.metrics.push(op["metric"].as_str().unwrap().to_owned());
        };
        match op["op"].as_str().unwrap() {
            "start" => assert!(self.spans.insert(number, op).is_none()),
            "end" => {
                let span = self.spans.get_mut(&number).unwrap();
                assert!(span["end"].is_null(), "a span ends once");
                span["end"] = if op["error"].is_null() { json!("ok") } else { op["error"]["type"].clone() };
            }
            "set" => {
                let span = self.spans.get_mut(&number).unwrap();
                if let Some(name) = op["name"].as_str() {
                    span["name"] = name.into();
                }
                span["attributes"].as_object_mut().unwrap().extend(map(op["attributes"].clone()));
            }
            _ => assert!(self.spans[&number]["end"].is_null()),
        }
    }

    fn name(&self, span: u64) -> String {
        self.spans[&span]["name"].as_str().unwrap().to_owned()
    }

    /// Handles deliveries up to the end of this ticket. Returns the error, if it failed.
    async fn until(&mut self, ticket: u64) -> Option<kimi_agent_client::Error> {
        self.outcome(ticket).await.err()
    }

    /// Handles deliveries up to the end of this ticket.
    async fn outcome(&mut self, ticket: u64) -> kimi_agent_client::Result<Reply> {
        loop {
            self.handle_all();
            if let Some(outcome) = self.outcomes.remove(&ticket) {
                return outcome;
            }
            self.bell.notified().await;
        }
    }

    fn handle_all(&mut self) {
        for delivery in self.mailbox.drain() {
            match delivery {
                Delivery::Telemetry { ops, .. } => {
                    let ops = serde_json::to_value(&ops).unwrap();
                    ops.as_array().unwrap().iter().for_each(|op| self.apply(op.clone()));
                }
                Delivery::Job { id, kind: JobKind::NextJob, .. } => {
                    let next = self.prompts.pop().map_or(Value::Null, Value::from);
                    self.mailbox.finish_job(id, Ok(next));
                }
                Delivery::Job { id, kind, span, .. } => {
                    let name = span.map(|span| self.name(span));
                    self.jobs.push((kind, name));
                    let answer = if kind == JobKind::Approval { json!("approve") } else { json!("3") };
                    self.mailbox.finish_job(id, Ok(answer));
                }
                Delivery::Done { ticket, outcome } => drop(self.outcomes.insert(ticket, outcome)),
                _ => {}
            }
        }
    }

    /// Starts the span of a turn, as a host does.
    fn begin(&mut self, op: Option<String>) -> Value {
        let op: Value = serde_json::from_str(&op.unwrap()).unwrap();
        let span = op["span"].clone();
        self.apply(op);
        json!({"$span": {"span": span, "traceparent": "00-a-b-01"}})
    }

    /// The spans in order, each with its parent and end.
    fn tree(&self) -> Vec<String> {
        let line = |span: &Value| {
            let parent = span["parent"].as_u64().map_or_else(|| "caller".to_owned(), |parent| self.name(parent));
            format!("{} < {parent}: {}", span["name"].as_str().unwrap(), span["end"].as_str().unwrap_or("open"))
        };
        self.spans.values().map(line).collect()
    }

    fn run_batch(&self, options: Value) -> BridgeBatch {
        let callbacks = Callbacks { on_approval: Mode::Handler, ..Callbacks::default() };
        let runtime = tokio::runtime::Handle::current();
        BridgeBatch::open(next_id(), Arc::clone(&self.mailbox), runtime, map(options), Naming::Snake, callbacks, false)
            .unwrap()
    }

    /// Reads the next result of a batch: its status and text. `None` after the last one.
    async fn next(&mut self, batch: &BridgeBatch) -> Option<(String, String)> {
        let Reply::JobResult(result) = self.outcome(batch.next()).await.unwrap() else { panic!("not a result") };
        let result = result?.to_json();
        let text = result["result"]["text"].as_str().unwrap_or_default().to_owned();
        Some((result["status"].as_str().unwrap().to_owned(), text))
    }
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn options(agent: &ScriptedAgent) -> Value {
    let (program, args) = program(&SessionOptions::new().executable(agent)).unwrap();
    let words = std::iter::once(program.into_os_string()).chain(args);
    let executable: Vec<_> = words.map(|word| word.into_string().unwrap()).collect();
    let tool = json!({"name": "add", "description": "Adds", "parameters": {"type": "object"}});
    json!({"executable": executable, "tools": [tool], "telemetry": {"traceparent": "00-c-d-01"}})
}

#[tokio::test]
async fn operations_come_before_their_effects() {
    let call = json!({"name": "Shell", "approve": {"action": "run", "description": "ls"}});
    let agent = scripted_agent(json!([[
        {"tool_call": call}, {"external_tool": {"name": "add", "arguments": {}}}, {"text": "done"},
    ]]));
    let mut host = Host::new();
    let (session, ticket) = host.open(options(&agent));
    assert_eq!(host.until(ticket).await, None);
    let prompt = host.begin(session.begin_turn(&"go".into(), &Map::new()));
    let turn = session.prompt("go".into(), map(prompt)).unwrap();
    let result = turn.result(None).unwrap();
    assert_eq!(host.until(result).await, None);
    let agent = host.name(*host.spans.keys().next().unwrap());
    assert_eq!(
        host.tree(),
        [
            format!("{agent} < caller: ok"),
            format!("chat < {agent}: ok"),
            format!("execute_tool Shell < {agent}: ok"),
            format!("chat < {agent}: ok"),
            format!("execute_tool add < {agent}: ok"),
            format!("chat < {agent}: ok"),
        ]
    );
    let of_tool = "execute_tool add".to_owned();
    assert_eq!(host.jobs, [(JobKind::Approval, Some(agent)), (JobKind::Tool, Some(of_tool))]);
    let known: Value = serde_json::from_str(&telemetry_names()).unwrap();
    let known: Vec<_> =
        known["metrics"].as_array().unwrap().iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    assert!(host.metrics.iter().all(|metric| known.contains(&metric.as_str())));
}

#[tokio::test]
async fn failures_end_spans() {
    let agent = scripted_agent(json!([[{"wait_cancel": true}]]));
    let mut host = Host::new();
    let (session, ticket) = host.open(options(&agent));
    assert_eq!(host.until(ticket).await, None);
    let mut refused = host.begin(session.begin_turn(&"go".into(), &Map::new()));
    refused["timeout"] = json!("soon");
    assert_eq!(session.prompt("go".into(), map(refused)).unwrap_err().code(), "invalid_option");
    let first = host.begin(session.begin_turn(&"go".into(), &Map::new()));
    let turn = session.prompt("go".into(), map(first)).unwrap();
    let second = host.begin(session.begin_turn(&"go".into(), &Map::new()));
    assert_eq!(session.prompt("go".into(), map(second)).unwrap_err().code(), "turn_in_progress");
    let killed = session.close(&json!(0)).unwrap();
    let _ = turn.result(None).unwrap();
    assert_eq!(host.until(killed).await, None);
    let ends: Vec<_> = host.spans.values().filter(|span| span["parent"].is_null()).map(|span| &span["end"]).collect();
    assert_eq!(ends, ["invalid_option", "session_closed", "turn_in_progress"]);
}

#[tokio::test]
async fn one_shot_completes_attributes() {
    let agent = scripted_agent(json!([[{"text": "done"}]]));
    let mut host = Host::new();
    let options = map(options(&agent));
    let op = BridgeSession::begin_one_shot(&"go".into(), &Map::new(), &options, Naming::Snake).unwrap();
    let prompt = host.begin(op);
    let runtime = tokio::runtime::Handle::current();
    let (mailbox, prompt) = (Arc::clone(&host.mailbox), ("go".into(), map(prompt)));
    let callbacks = Callbacks::default();
    let turn = BridgeSession::one_shot(next_id(), mailbox, runtime, prompt, options, Naming::Snake, callbacks).unwrap();
    let result = turn.result(None).unwrap();
    assert_eq!(host.until(result).await, None);
    let span = host.spans.values().next().unwrap();
    assert_ne!(span["name"], "invoke_agent");
    assert!(span["attributes"]["gen_ai.conversation.id"].is_string());
    assert_eq!(span["end"], "ok");
}

#[tokio::test]
async fn jobs_have_spans() {
    let call = json!({"name": "Shell", "approve": {"action": "run", "description": "ls"}});
    let agent = scripted_agent(json!({"turns": [[
        {"tool_call": call}, {"external_tool": {"name": "add", "arguments": {}}}, {"text": "{{env.TRACEPARENT}}"},
    ]]}));
    let mut host = Host::new();
    host.prompts = vec!["b", "a"];
    let batch = host.run_batch(options(&agent));
    for _ in 0..2 {
        assert_eq!(host.next(&batch).await.unwrap(), ("finished".to_owned(), "00-c-d-01".to_owned()));
    }
    assert_eq!(host.next(&batch).await, None);
    let turns: Vec<u64> =
        host.spans.iter().filter(|(_, span)| span["parent"].is_null()).map(|(number, _)| *number).collect();
    assert_eq!(turns.len(), 2);
    for turn in turns {
        let children = host.spans.values().filter(|span| span["parent"] == turn);
        let names: Vec<_> = children.map(|span| span["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["chat", "execute_tool Shell", "chat", "execute_tool add", "chat"]);
    }
    assert!(host.spans.values().all(|span| span["end"] == "ok"));
    let mut handlers: Vec<_> = host.jobs.iter().map(|(_, name)| name.clone().unwrap()).collect();
    handlers.sort();
    assert_eq!(handlers[..2], ["execute_tool add", "execute_tool add"]);
    assert!(handlers[2..].iter().all(|name| name.starts_with("invoke_agent")));
}

#[tokio::test]
async fn cancelled_jobs_end_spans() {
    let agent = scripted_agent(json!([[{"tool_call": {"name": "Shell"}}, {"wait_cancel": true}]]));
    let mut host = Host::new();
    host.prompts = vec!["a"];
    let batch = host.run_batch(options(&agent));
    let next = batch.next();
    while host.spans.values().all(|span| span["name"] != "execute_tool Shell" || span["end"].is_null()) {
        host.bell.notified().await;
        host.handle_all();
    }
    let cancelled = batch.cancel();
    assert_eq!(host.until(cancelled).await, None);
    assert_eq!(host.until(next).await, None);
    assert!(host.spans.values().all(|span| !span["end"].is_null()), "{:?}", host.spans);
}
