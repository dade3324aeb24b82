//! Kimi Code's server, played from what it said (`tests/recorded`), and from what it might say.

mod displayed;
mod forms;
mod malformed;
mod opening;
mod recorded;
mod resync;
mod unrecorded;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::answers::{Answers, Approval};
use crate::connection::{AnswerSource, AnswerSources, Connection, Output, Scope, Timing, ToolRules};
use crate::dialect::InitializeParams;
use crate::messages::catalog::OVER_KIMI_WEB;
use crate::messages::{ContentPart, Event};

const MINUTE: Duration = Duration::from_secs(60);
const SESSION: &str = "session_0001";

/// A connection to a server that a test plays.
struct Player {
    connection: Connection,
    now: Instant,
    written: Vec<u8>,
    /// The outputs, in short.
    trace: Vec<String>,
    /// The open requests.
    asked: Vec<(u64, Event)>,
    turn: u64,
    seq: u64,
}

impl Player {
    fn new(dialect: KimiWeb) -> Self {
        Self::with(dialect, None)
    }

    fn with(dialect: KimiWeb, rules: Option<Arc<Box<dyn ToolRules>>>) -> Self {
        let timing = Timing { handshake: MINUTE, cancel: MINUTE, answer: MINUTE, turn: None, idle: None, quiet: None };
        let policy = AnswerSources {
            approval: AnswerSource::Handler,
            question: AnswerSource::Handler,
            observed: true,
            rules,
            ..AnswerSources::default()
        };
        let mut player = Self {
            connection: Connection::new(Box::new(dialect), timing, policy),
            now: Instant::now(),
            written: Vec::new(),
            trace: Vec::new(),
            asked: Vec::new(),
            turn: 0,
            seq: 0,
        };
        player.connection.open(InitializeParams::default(), player.now);
        player.look();
        player
    }

    /// One whose session is open.
    fn open() -> Self {
        Self::open_with(None)
    }

    fn open_with(rules: Option<Arc<Box<dyn ToolRules>>>) -> Self {
        let dialect = KimiWeb { skills: vec!["greet".to_owned()], ..KimiWeb::open(SESSION) };
        let mut player = Self::with(dialect, rules);
        let sent = player.sent();
        player.answer(&sent[0], json!({}));
        assert_eq!(std::mem::take(&mut player.trace), [format!("opened {SESSION}")]);
        player
    }

    /// One that has sent a prompt, which the server runs.
    fn prompted() -> Self {
        Self::prompted_with(None)
    }

    fn prompted_with(rules: Option<Arc<Box<dyn ToolRules>>>) -> Self {
        let mut player = Self::open_with(rules);
        player.prompt("go");
        let sent = player.sent();
        player.answer(&sent[0], json!({"prompt_id": "p-1", "status": "running"}));
        player.frame("turn.started", json!({"turnId": 0, "promptId": "p-1"}));
        player.frame("turn.step.started", json!({"turnId": 0, "step": 1}));
        assert_eq!(player.trace(), ["TurnBegin", "StepBegin 1"]);
        player
    }

    fn prompt(&mut self, text: &str) {
        self.turn += 1;
        self.connection.prompt(self.turn, text.into(), self.now);
        self.look();
    }

    fn look(&mut self) {
        self.written.extend(self.connection.poll_transmit());
        while let Some(output) = self.connection.poll_output() {
            let told = match output {
                Output::Opened(Ok(handshake)) => format!("opened {}", handshake.session_id.unwrap_or_default()),
                Output::Opened(Err(error)) => format!("not opened: {}: {error}", error.code()),
                Output::Texts { .. } => unreachable!("texts have events here"),
                Output::Event { scope, event, .. } => {
                    let is_listed = matches!(&*event, Event::Unknown(_)) || OVER_KIMI_WEB.contains(&event.type_name());
                    assert!(is_listed, "the catalogue lacks {}", event.type_name());
                    let told = told(&event);
                    match scope {
                        Scope::Outside => format!("outside: {told}"),
                        Scope::Replay(_) => format!("replay: {told}"),
                        Scope::Turn(..) => told,
                    }
                }
                Output::Ask { key, request, .. } => {
                    self.asked.push((key, *request));
                    continue;
                }
                Output::Withdrawn(key) => {
                    self.asked.retain(|(asked, _)| *asked != key);
                    continue;
                }
                Output::StatusChanged(_) => continue,
                Output::CommandsChanged(_)
                | Output::ConfigChanged(_)
                | Output::ToolAnswered { .. }
                | Output::ReadRecords { .. } => {
                    unreachable!("the server has no such thing")
                }
                Output::CallEnded { outcome, .. } => match outcome {
                    Ok(_) => "call ok".to_owned(),
                    Err(error) => format!("call {}: {error}", error.code()),
                },
                Output::TurnEnded { outcome: Ok(result), .. } => {
                    format!("turn {} {} {:?}", result.status.as_str(), result.steps, result.text)
                }
                Output::TurnEnded { outcome: Err(error), .. } => format!("turn {}: {error}", error.code()),
                Output::CheckOutput { key, .. } => format!("check {key}"),
                Output::PromptSent { turn } => format!("prompt sent {turn}"),
                Output::FatalError(error) => format!("fatal error: {error}"),
            };
            self.trace.push(told);
        }
    }

    fn hear(&mut self, message: &Value) {
        self.connection.handle_line(message.to_string().as_bytes(), self.now);
        self.look();
    }

    /// The lines written since the last call.
    fn sent(&mut self) -> Vec<Value> {
        let lines = std::mem::take(&mut self.written);
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
    }

    /// The methods of the lines written since the last call.
    fn methods(&mut self) -> Vec<String> {
        self.sent().iter().map(|line| line["method"].as_str().expect("a method").to_owned()).collect()
    }

    fn trace(&mut self) -> Vec<String> {
        std::mem::take(&mut self.trace)
    }

    fn answer(&mut self, call: &Value, result: Value) {
        self.hear(&json!({"jsonrpc": "2.0", "id": call["id"], "result": result}));
    }

    fn refuse(&mut self, call: &Value, code: i64, message: &str) {
        self.hear(&json!({"jsonrpc": "2.0", "id": call["id"], "error": {"code": code, "message": message}}));
    }

    /// A frame that the server keeps.
    fn frame(&mut self, kind: &str, payload: Value) {
        self.seq += 1;
        let frame = json!({"seq": self.seq, "session_id": SESSION, "epoch": "e", "payload": payload});
        self.hear(&json!({"jsonrpc": "2.0", "method": kind, "params": frame}));
    }

    /// A frame that it does not keep.
    fn delta(&mut self, kind: &str, offset: u64, text: &str) {
        let payload = json!({"turnId": 0, "delta": text});
        let frame = json!({"seq": self.seq, "session_id": SESSION, "epoch": "e", "volatile": true, "offset": offset,
            "payload": payload});
        self.hear(&json!({"jsonrpc": "2.0", "method": kind, "params": frame}));
    }

    fn end(&mut self) {
        self.frame("turn.ended", json!({"turnId": 0, "reason": "completed"}));
        self.frame("prompt.completed", json!({"promptId": "p-1", "reason": "completed"}));
    }
}

fn told(event: &Event) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    match event {
        Event::TurnBegin(begin) => match begin.user_input.text() {
            said if said == "go" => "TurnBegin".to_owned(),
            said => format!("TurnBegin {said:?}"),
        },
        Event::StepBegin(step) => format!("StepBegin {}", step.n),
        Event::ContentPart(ContentPart::Text(part)) => format!("text {:?}", part.text),
        Event::ContentPart(ContentPart::Think(part)) => format!("think {:?}", part.think),
        Event::ToolCall(call) => {
            format!("call {} {} {:?}", call.id, call.function.name, text(&call.function.arguments))
        }
        Event::ToolCallPart(part) => format!("part {:?}", text(&part.arguments_part)),
        Event::ToolResult(result) => {
            let value = &result.return_value;
            let failed = if value.is_error { "failed" } else { "ok" };
            let known = result.tool_call.get().map_or("?", |call| &call.name);
            format!("result {} {known} {failed} {:?}", result.tool_call_id, value.output.text())
        }
        Event::ApprovalRequest(request) => {
            let agent = request.agent_id.as_ref().map_or(String::new(), |agent| format!(" of {agent}"));
            let known = request.tool_call.get().map_or("?".to_owned(), |call| json!(call.arguments).to_string());
            format!(
                "may {}{agent} {}: {} ({}) {known}",
                request.sender, request.id, request.description, request.action
            )
        }
        Event::ApprovalResponse(response) => format!("resolved {} {}", response.request_id, response.response),
        Event::QuestionRequest(request) => {
            let questions = request.questions.iter().map(|question| {
                let labels: Vec<_> = question.options.iter().map(|option| &*option.label).collect();
                format!("{} [{}]", question.question, labels.join(", "))
            });
            format!("which {}: {}", request.id, questions.collect::<Vec<_>>().join("; "))
        }
        Event::PlanDisplay(plan) => format!("plan {:?}", plan.content),
        Event::StatusUpdate(update) => {
            let mut told = json!(update);
            if let Some(usage) = told.get("token_usage") {
                told = json!(format!("{} + {}", usage["input_other"], usage["output"]));
            }
            format!("status {told}")
        }
        Event::StepRetry(retry) => {
            format!("StepRetry {} {}/{} {}", retry.n, retry.next_attempt, retry.max_attempts, retry.error_type)
        }
        Event::SteerInput(steer) => format!("SteerInput {:?}", steer.user_input.text()),
        Event::Notification(note) => format!("note {} {:?} {:?}", note.kind, note.title, note.body),
        Event::SubagentEvent(inner) => {
            let of = (text(&inner.agent_id), text(&inner.parent_tool_call_id), text(&inner.subagent_type));
            format!("[{} {} {}] {}", of.0, of.1, of.2, told(&inner.event))
        }
        Event::Unknown(unknown) => match &unknown.error {
            Some(error) => format!("unreadable {}: {error}", unknown.kind),
            None => format!("unknown {}", unknown.kind),
        },
        other => other.type_name().to_owned(),
    }
}
