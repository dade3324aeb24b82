//! The operations on spans and metrics that a connection's tracker makes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::*;
use crate::answers::Approval;
use crate::budget::Budget;
use crate::dialect::Answer;
use crate::messages::{PolicyDecision, PolicyOutcome, ToolCallInfo};
use crate::output::{OutputPlan, OutputSpec};
use crate::telemetry::{Identity, Op, Sink, TraceContext, Tracker, TurnSpan, names};

mod failures;

/// Keeps the operations. Each look at its clock takes a second.
#[derive(Debug, Default)]
struct Memory {
    clock: AtomicU64,
    ops: Mutex<Vec<Op>>,
}

impl Sink for Memory {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1_000_000_000, Ordering::Relaxed)
    }

    fn apply(&self, ops: Vec<Op>) {
        self.ops.lock().expect("no panic").extend(ops);
    }
}

/// A span as the host would have it.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    name: String,
    parent: Option<u64>,
    attributes: BTreeMap<String, Value>,
    events: Vec<(String, Value)>,
    /// How it ended: `ok`, or the type of its error.
    end: Option<String>,
}

impl Memory {
    /// Applies the operations as a host does. Checks that each names a span that is open.
    fn spans(&self) -> BTreeMap<u64, Seen> {
        let mut spans: BTreeMap<u64, Seen> = BTreeMap::new();
        for op in self.ops.lock().expect("no panic").iter() {
            let json = serde_json::to_value(op).expect("JSON");
            let attributes = json["attributes"].as_object().cloned().unwrap_or_default();
            let number = json["span"].as_u64();
            if let Op::Start(start) = op {
                let open = |parent: u64| spans.get(&parent).is_some_and(|parent| parent.end.is_none());
                assert!(start.parent.is_none_or(open), "the parent of {} is not open", start.name);
                let seen = Seen { name: start.name.clone(), parent: start.parent, ..Seen::default() };
                assert!(spans.insert(start.span, seen).is_none());
            }
            let Some(number) = number else { continue };
            let span = spans.get_mut(&number).expect("a span");
            assert!(span.end.is_none(), "{json} comes after the end of its span");
            match op {
                Op::Event { name, .. } => span.events.push(((*name).to_owned(), json["attributes"].clone())),
                Op::End { error, .. } => {
                    span.end = Some(error.as_ref().map_or_else(|| "ok".to_owned(), |error| error.kind.clone()));
                }
                // Some SDKs keep both values of an attribute that is set twice.
                _ => attributes
                    .into_iter()
                    .for_each(|(name, value)| assert!(span.attributes.insert(name, value).is_none())),
            }
            if let Op::Set { name: Some(name), .. } = op {
                span.name.clone_from(name);
            }
        }
        spans
    }

    /// The tree of the spans, a line each: indented by depth, with how they ended.
    fn tree(&self) -> Vec<String> {
        let spans = self.spans();
        let depth = |span: &Seen| {
            let mut parent = span.parent;
            std::iter::from_fn(|| {
                let found = spans.get(&parent?)?;
                parent = found.parent;
                Some(())
            })
            .count()
        };
        let line = |span: &Seen| {
            let end = span.end.as_deref().unwrap_or("open");
            format!("{}{}: {end}", "  ".repeat(depth(span)), span.name)
        };
        spans.values().map(line).collect()
    }

    fn span(&self, name: &str) -> Seen {
        self.spans().into_values().find(|span| span.name == name).unwrap_or_else(|| panic!("no span {name}"))
    }

    /// The texts of the errors of spans.
    fn descriptions(&self) -> Vec<String> {
        let ops = self.ops.lock().expect("no panic");
        let described = ops.iter().filter_map(|op| match op {
            Op::End { error, .. } => error.as_ref(),
            _ => None,
        });
        described.map(|error| error.message.clone()).collect()
    }

    fn recorded(&self, wanted: &str) -> Vec<(Value, Value)> {
        let ops = self.ops.lock().expect("no panic");
        let json = ops.iter().map(|op| serde_json::to_value(op).expect("JSON"));
        let wanted = json.filter(|op| op["metric"] == wanted);
        wanted.map(|op| (op["value"].clone(), op["attributes"].clone())).collect()
    }
}

struct Traced {
    peer: Peer,
    memory: Arc<Memory>,
}

impl Traced {
    fn open(sources: AnswerSources) -> Self {
        Self::open_capturing(sources, false)
    }

    fn open_capturing(sources: AnswerSources, captures_content: bool) -> Self {
        Self::tracing(Peer::open_with(timing(), sources), captures_content)
    }

    fn open_timed(timing: Timing, sources: AnswerSources) -> Self {
        Self::tracing(Peer::open_with(timing, sources), false)
    }

    fn tracing(mut peer: Peer, captures_content: bool) -> Self {
        let memory = Arc::new(Memory::default());
        let identity = Identity {
            agent: Some("Kimi".to_owned()),
            version: Some("1.49.0".to_owned()),
            conversation: Some("s-1".to_owned()),
            model: Some("k2".to_owned()),
        };
        let sink: Arc<dyn Sink> = memory.clone();
        peer.connection.set_telemetry(Tracker::new(identity.clone(), captures_content, Arc::clone(&sink)));
        Self { peer, memory }
    }

    fn begin(&mut self, turn: TurnKey, captures_content: bool) -> u64 {
        let number = self.trace_turn(turn, captures_content);
        self.peer.prompt(turn);
        number
    }

    /// Starts the span of a turn.
    fn trace_turn(&mut self, turn: TurnKey, captures_content: bool) -> u64 {
        let identity = Identity { model: Some("k2".to_owned()), ..Identity::default() };
        let start = TurnSpan::start(&identity, &"hi".into(), false, captures_content, self.memory.now());
        let number = start.span;
        self.memory.apply(vec![Op::Start(start)]);
        let sink: Arc<dyn Sink> = self.memory.clone();
        let span = TurnSpan::started(number, TraceContext::default(), identity, sink);
        self.peer.connection.trace_turn(turn, span);
        number
    }

    fn prompt(&mut self) -> u64 {
        self.begin(1, false)
    }

    fn call(&mut self, id: &str, name: &str) {
        self.peer.event("ToolCall", &call(id, name));
    }

    fn result(&mut self, id: &str, is_error: bool) {
        self.peer.event("ToolResult", &result(id, is_error));
    }

    /// Begins a turn with a step that is open, after a text.
    fn begin_step(&mut self) {
        self.prompt();
        self.peer.event("StepBegin", &json!({"n": 1}));
        self.peer.event("ContentPart", &json!({"type": "text", "text": "I look."}));
    }

    /// Returns how the spans of steps ended, each with its finish reasons.
    fn steps(&mut self) -> Vec<(String, Value)> {
        self.drain();
        let spans = self.memory.spans().into_values();
        let of_step = |mut span: Seen| {
            let reasons = span.attributes.remove(names::FINISH_REASONS).unwrap_or_default();
            (span.end.unwrap_or_else(|| "open".to_owned()), reasons)
        };
        spans.filter(|span| span.name == "chat k2").map(of_step).collect()
    }

    fn drain(&mut self) {
        self.peer.trace();
    }
}

fn call(id: &str, name: &str) -> Value {
    json!({"type": "function", "id": id, "function": {"name": name, "arguments": "{\"command\":\"ls\"}"}, "extras": null})
}

fn result(id: &str, is_error: bool) -> Value {
    json!({
        "tool_call_id": id,
        "return_value": {"is_error": is_error, "output": "done", "message": "", "display": []},
    })
}

fn status(output: i64) -> Value {
    json!({"context_usage": 0.1, "token_usage": usage(output), "message_id": "m-1"})
}

#[test]
fn steps_nest_below_turn() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    traced.peer.event("StepBegin", &json!({"n": 1}));
    traced.peer.event("ContentPart", &json!({"type": "text", "text": "I look."}));
    traced.call("tc", "Shell");
    traced.peer.event("StatusUpdate", &status(5));
    traced.result("tc", false);
    traced.peer.event("StepBegin", &json!({"n": 2}));
    traced.peer.event("StatusUpdate", &status(7));
    traced.peer.finish();
    traced.drain();
    let tree = ["invoke_agent Kimi: ok", "  chat k2: ok", "  execute_tool Shell: ok", "  chat k2: ok"];
    assert_eq!(traced.memory.tree(), tree);
    let turn = traced.memory.span("invoke_agent Kimi").attributes;
    assert_eq!(turn[names::CONVERSATION], "s-1");
    assert_eq!((&turn[names::INPUT_TOKENS], &turn[names::OUTPUT_TOKENS]), (&json!(2), &json!(12)));
    assert_eq!((&turn[names::STEPS], &turn[names::FINISH_REASONS]), (&json!(2), &json!(["stop"])));
    let chat = traced.memory.span("chat k2").attributes;
    assert_eq!(chat[names::FINISH_REASONS], json!(["tool_calls"]));
    assert_eq!((&chat[names::OUTPUT_TOKENS], &chat[names::RESPONSE_ID]), (&json!(5), &json!("m-1")));
}

#[test]
fn metrics_count_tokens_once() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    traced.peer.event("StepBegin", &json!({"n": 1}));
    traced.peer.event("StatusUpdate", &status(5));
    traced.peer.finish();
    traced.drain();
    let tokens = traced.memory.recorded(names::TOKEN_USAGE);
    let kinds: Vec<_> = tokens.iter().map(|(value, of)| (value.clone(), of[names::TOKEN_TYPE].clone())).collect();
    assert_eq!(kinds, [(json!(1), json!("input")), (json!(5), json!("output"))]);
    let of: Vec<_> = traced.memory.recorded(names::DURATION).into_iter().map(|(_, of)| of).collect();
    assert_eq!(of.iter().map(|of| &of[names::OPERATION]).collect::<Vec<_>>(), ["chat", "invoke_agent"]);
}

#[test]
fn tool_failure_is_error_of_span() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    traced.call("tc", "Shell");
    traced.result("tc", true);
    traced.peer.finish();
    traced.drain();
    assert_eq!(traced.memory.tree(), ["invoke_agent Kimi: ok", "  execute_tool Shell: tool_error"]);
    let calls = traced.memory.recorded(names::TOOL_CALLS);
    assert_eq!(calls, [(json!(1), json!({"gen_ai.tool.name": "Shell", "error.type": "tool_error"}))]);
}

#[test]
fn default_rejection_is_event_of_call() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    // The tracker has not seen the call when the approval is decided.
    traced.call("tc", "Shell");
    traced.peer.request("r", "ApprovalRequest", &approval("a"));
    traced.drain();
    let (name, attributes) = traced.memory.span("execute_tool Shell").events.remove(0);
    assert_eq!(name, names::APPROVAL_EVENT);
    assert_eq!((&attributes[names::APPROVAL], &attributes[names::DECIDED_BY]), (&json!("reject"), &json!("default")));
    assert_eq!(traced.memory.recorded(names::REJECTED).len(), 1);
}

#[test]
fn handler_runs_in_span_of_turn() {
    let sources = AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() };
    let mut traced = Traced::open(sources);
    let turn = traced.prompt();
    traced.call("tc", "Shell");
    traced.peer.request("r", "ApprovalRequest", &approval("a"));
    let asked = std::iter::from_fn(|| traced.peer.next_output()).find_map(|output| match output {
        Output::Ask { key, scope, request } => Some((key, scope, request)),
        _ => None,
    });
    let (key, scope, request) = asked.expect("a request");
    assert_eq!(traced.peer.connection.span_of(scope, &request), Some(turn));
    traced.peer.connection.answer(key, &Answer::Approval(Approval::Approve), traced.peer.now);
    let (_, attributes) = traced.memory.span("execute_tool Shell").events.remove(0);
    assert_eq!((&attributes[names::APPROVAL], &attributes[names::DECIDED_BY]), (&json!("approve"), &json!("handler")));
    assert!(traced.memory.recorded(names::REJECTED).is_empty());
}

#[test]
fn program_tool_runs_in_own_span() {
    let sources = AnswerSources { tools: ["add".to_owned()].into(), ..AnswerSources::default() };
    let mut traced = Traced::open(sources);
    traced.prompt();
    traced.call("tc", "add");
    traced.peer.request("r", "ToolCallRequest", &json!({"id": "tc", "name": "add", "arguments": "{}"}));
    let asked = std::iter::from_fn(|| traced.peer.next_output()).find_map(|output| match output {
        Output::Ask { scope, request, .. } => Some((scope, request)),
        _ => None,
    });
    let (scope, request) = asked.expect("a request");
    let span = traced.peer.connection.span_of(scope, &request).expect("a span");
    let spans = traced.memory.spans();
    assert_eq!(
        (spans[&span].name.as_str(), &spans[&span].attributes[names::TOOL_TYPE]),
        ("execute_tool add", &json!("function"))
    );
}

#[test]
fn parallel_calls_have_own_spans() {
    let sources = AnswerSources { tools: ["add".to_owned()].into(), ..AnswerSources::default() };
    let mut traced = Traced::open(sources);
    traced.prompt();
    traced.call("a", "mcp__add");
    traced.call("b", "mcp__add");
    let mut spans = BTreeSet::new();
    for id in ["mcp-1", "mcp-2"] {
        traced.peer.request(id, "ToolCallRequest", &json!({"id": id, "name": "add", "arguments": "{}"}));
        let asked = std::iter::from_fn(|| traced.peer.next_output()).find_map(|output| match output {
            Output::Ask { key, scope, request, .. } => Some((key, scope, request)),
            _ => None,
        });
        let (key, scope, request) = asked.expect("a request");
        spans.insert(traced.peer.connection.span_of(scope, &request).expect("a span"));
        let result = crate::messages::ToolReturnValue::ok("3");
        traced.peer.connection.answer(key, &Answer::Tool(result), traced.peer.now);
    }
    traced.result("a", false);
    traced.result("b", false);
    traced.peer.finish();
    traced.drain();
    let tree = ["invoke_agent Kimi: ok", "  execute_tool mcp__add: ok", "  execute_tool mcp__add: ok"];
    assert_eq!((traced.memory.tree(), spans.len()), (tree.map(str::to_owned).to_vec(), 2));
    assert_eq!(traced.memory.recorded(names::TOOL_CALLS).len(), 2);
}

#[test]
fn withdrawn_call_has_error_of_turn() {
    for (cancelled, error) in [(true, "cancelled"), (false, "agent_exited")] {
        let sources = AnswerSources { tools: ["add".to_owned()].into(), ..AnswerSources::default() };
        let mut traced = Traced::open(sources);
        traced.prompt();
        traced.peer.request("r", "ToolCallRequest", &json!({"id": "other", "name": "add", "arguments": "{}"}));
        traced.peer.asked();
        if cancelled {
            traced.peer.cancel(1);
            traced.peer.answer("prompt", &json!({"status": "cancelled"}));
        } else {
            traced.peer.connection.close(&Error::AgentExited(AgentExit::default()));
        }
        traced.drain();
        assert_eq!(traced.memory.span("execute_tool add").end.as_deref(), Some(error));
    }
}

#[test]
fn unannounced_call_gets_span() {
    let sources = AnswerSources { tools: ["add".to_owned()].into(), ..AnswerSources::default() };
    let mut traced = Traced::open(sources);
    traced.prompt();
    traced.peer.request("r", "ToolCallRequest", &json!({"id": "other", "name": "add", "arguments": "{}"}));
    let key = traced.peer.asked();
    let result = crate::messages::ToolReturnValue::ok("3");
    traced.peer.connection.answer(key, &Answer::Tool(result), traced.peer.now);
    traced.peer.finish();
    traced.drain();
    assert_eq!(traced.memory.tree(), ["invoke_agent Kimi: ok", "  execute_tool add: ok"]);
}

#[test]
fn subagent_nests_below_its_call() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    traced.call("task", "Task");
    let of_subagent = |event: Value| json!({"parent_tool_call_id": "task", "agent_id": "a1", "event": event});
    let inner = json!({"type": "StepBegin", "payload": {"n": 1}});
    traced.peer.event("SubagentEvent", &of_subagent(inner));
    let inner = json!({"type": "ToolCall", "payload": call("tc", "Shell")});
    traced.peer.event("SubagentEvent", &of_subagent(inner));
    traced.result("task", false);
    traced.peer.finish();
    traced.drain();
    let tree = ["invoke_agent Kimi: ok", "  execute_tool Task: ok", "    chat k2: ok", "    execute_tool Shell: ok"];
    assert_eq!(traced.memory.tree(), tree);
}

#[test]
fn death_ends_all_spans() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    traced.peer.event("StepBegin", &json!({"n": 1}));
    traced.call("tc", "Shell");
    let exit = AgentExit { exit_code: Some(1), stderr: "private".to_owned(), ..AgentExit::default() };
    traced.peer.connection.close(&Error::AgentExited(exit));
    traced.drain();
    assert_eq!(traced.memory.descriptions(), ["the agent exited with code 1"; 3]);
    let tree = ["invoke_agent Kimi: agent_exited", "  chat k2: agent_exited", "  execute_tool Shell: agent_exited"];
    assert_eq!(traced.memory.tree(), tree);
}

#[test]
fn dropped_connection_ends_all_spans() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    traced.call("tc", "Shell");
    traced.drain();
    let memory = Arc::clone(&traced.memory);
    drop(traced);
    assert_eq!(memory.tree(), ["invoke_agent Kimi: session_closed", "  execute_tool Shell: session_closed"]);
}

#[test]
fn refused_prompt_ends_its_span() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    traced.begin(2, false);
    traced.peer.finish();
    traced.drain();
    assert_eq!(traced.memory.tree(), ["invoke_agent Kimi: ok", "invoke_agent Kimi: turn_in_progress"]);
}

#[test]
fn span_ends_without_connection() {
    let memory = Arc::new(Memory::default());
    let start = TurnSpan::start(&Identity::default(), &"hi".into(), true, false, 0);
    let number = start.span;
    assert_eq!(start.attributes.get(names::OUTPUT_TYPE), Some(&"json".into()));
    memory.apply(vec![Op::Start(start)]);
    let sink: Arc<dyn Sink> = memory.clone();
    drop(TurnSpan::started(number, TraceContext::default(), Identity::default(), sink));
    assert_eq!(memory.tree(), ["invoke_agent: session_closed"]);
}

#[test]
fn content_needs_permission() {
    let texts = |captures_content: bool| {
        let mut traced = Traced::open_capturing(AnswerSources::default(), captures_content);
        traced.begin(1, captures_content);
        traced.peer.event("StepBegin", &json!({"n": 1}));
        traced.peer.event("ContentPart", &json!({"type": "text", "text": "I look."}));
        traced.call("tc", "Shell");
        traced.result("tc", false);
        traced.peer.finish();
        traced.drain();
        let spans = traced.memory.spans();
        let all = spans.into_values().flat_map(|span| span.attributes);
        all.filter(|(name, _)| names::CONTENT.contains(&name.as_str())).collect::<BTreeMap<_, _>>()
    };
    assert!(texts(false).is_empty());
    let texts = texts(true);
    assert_eq!(texts.len(), 4);
    assert_eq!(texts[names::TOOL_ARGUMENTS], "{\"command\":\"ls\"}");
    assert_eq!(texts[names::TOOL_RESULT], "done");
    assert_eq!(texts[names::INPUT_MESSAGES], r#"[{"role":"user","parts":[{"type":"text","content":"hi"}]}]"#);
}

#[test]
fn names_are_in_tables() {
    let mut traced = Traced::open_capturing(AnswerSources::default(), true);
    traced.begin(1, true);
    traced.peer.event("StepBegin", &json!({"n": 1}));
    traced.peer.event("ContentPart", &json!({"type": "text", "text": "I look."}));
    traced.call("tc", "Shell");
    traced.peer.request("r", "ApprovalRequest", &approval("a"));
    traced.peer.event("StatusUpdate", &status(5));
    traced.result("tc", false);
    traced.peer.finish();
    traced.drain();
    let known: Vec<_> = names::ATTRIBUTES.iter().map(|attribute| attribute.name).collect();
    for op in traced.memory.ops.lock().expect("no panic").iter() {
        let json = serde_json::to_value(op).expect("JSON");
        for name in json["attributes"].as_object().into_iter().flat_map(|attributes| attributes.keys()) {
            assert!(known.contains(&name.as_str()), "{name} is in no table");
        }
    }
}

/// Allows every call by one rule.
#[derive(Debug)]
struct AllowAll;

impl ToolRules for AllowAll {
    fn decide(&self, call: &ToolCallInfo, _: &str) -> PolicyDecision {
        PolicyDecision {
            tool_call: call.clone(),
            decision: PolicyOutcome::Allow,
            rule: Some("Shell".to_owned()),
            source: Some("allow[0]".to_owned()),
            reason: None,
            part: None,
            extra: Default::default(),
        }
    }
}

#[test]
fn policy_decision_is_event_of_call() {
    let sources = AnswerSources { rules: Some(Arc::new(Box::new(AllowAll))), ..AnswerSources::default() };
    let mut traced = Traced::open(sources);
    traced.prompt();
    traced.call("tc", "Shell");
    traced.peer.request("r", "ApprovalRequest", &approval("a"));
    traced.drain();
    let events: BTreeMap<_, _> = traced.memory.span("execute_tool Shell").events.into_iter().collect();
    assert_eq!(events[names::POLICY_EVENT][names::POLICY_RULE], "Shell");
    assert_eq!(events[names::POLICY_EVENT][names::POLICY_DECISION], "allow");
    assert_eq!(events[names::APPROVAL_EVENT][names::DECIDED_BY], "policy");
}

#[test]
fn retry_is_event_of_step() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    traced.peer.event("StepBegin", &json!({"n": 1}));
    let retry = json!({
        "n": 1, "next_attempt": 2, "max_attempts": 3, "wait_s": 0.5, "error_type": "RateLimit", "status_code": 429,
    });
    traced.peer.event("StepRetry", &retry);
    traced.drain();
    let (name, attributes) = traced.memory.span("chat k2").events.remove(0);
    assert_eq!(name, names::RETRY_EVENT);
    let wanted = json!({"error.type": "RateLimit", "kimi_agent.retry.attempt": 2, "http.response.status_code": 429});
    assert_eq!(attributes, wanted);
}

#[test]
fn failed_handler_rejects_in_telemetry() {
    let sources = AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() };
    let mut traced = Traced::open(sources);
    traced.prompt();
    traced.peer.request("r", "ApprovalRequest", &approval("a"));
    let key = traced.peer.asked();
    traced.peer.connection.handler_failed(key, "broken".to_owned(), traced.peer.now);
    traced.drain();
    let events: BTreeMap<_, _> = traced.memory.span("invoke_agent Kimi").events.into_iter().collect();
    assert_eq!(events[names::APPROVAL_EVENT][names::DECIDED_BY], "handler_failed");
    assert_eq!(events[names::HANDLER_FAILED_EVENT], json!({"kimi_agent.handler.kind": "approval"}));
    assert_eq!(traced.memory.recorded(names::REJECTED).len(), 1);
}

#[test]
fn cancel_withdraws_approval() {
    let sources = AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() };
    let mut traced = Traced::open(sources);
    traced.prompt();
    traced.call("tc", "Shell");
    traced.peer.request("r", "ApprovalRequest", &approval("a"));
    traced.drain();
    traced.peer.cancel(1);
    traced.peer.answer("prompt", &json!({"status": "cancelled"}));
    traced.drain();
    let (_, attributes) = traced.memory.span("execute_tool Shell").events.remove(0);
    assert_eq!(
        (&attributes[names::APPROVAL], &attributes[names::DECIDED_BY]),
        (&json!("withdrawn"), &json!("cancelled"))
    );
}

#[test]
fn queued_turn_has_own_span() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    traced.peer.cancel(1);
    traced.begin(2, false);
    traced.peer.answer("prompt", &json!({"status": "cancelled"}));
    traced.call("tc", "Shell");
    traced.result("tc", false);
    traced.peer.finish();
    traced.drain();
    let spans = traced.memory.spans();
    let tool = spans.values().find(|span| span.name == "execute_tool Shell").expect("a tool");
    assert_eq!(tool.parent, spans.keys().nth(1).copied());
    assert!(spans.values().all(|span| span.end.as_deref() == Some("ok")));
}

#[test]
fn spans_of_open_calls_are_bounded() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    (0..1100).for_each(|call| traced.call(&format!("c{call}"), "Read"));
    traced.call(&"c".repeat(1025), "Read");
    traced.result("c0", false);
    // A call that has ended frees space for another, whose name is cut.
    traced.call("last", &"n".repeat(2000));
    traced.peer.finish();
    traced.drain();
    let spans = traced.memory.spans();
    let calls: Vec<_> = spans.values().filter(|span| span.name.starts_with("execute_tool")).collect();
    assert_eq!(calls.len(), 1025);
    assert_eq!(calls.iter().map(|span| span.name.len()).max(), Some("execute_tool ".len() + 1024));
}
