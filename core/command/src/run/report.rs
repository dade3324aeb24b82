//! The events of a turn, as they are shown.

use std::collections::HashMap;
use std::sync::Arc;

use kimi_agent_client::TurnStatus;
use kimi_agent_protocol::PromptResult;
use kimi_agent_protocol::messages::{
    ContentPart, Event, MESSAGE_BREAK, Messages, Plan, PlanStatus, PolicyDecision, ToolCall, ToolResult,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::tools::{described, named, short, whole};
use crate::console::Console;

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text as it comes, and notes.
    Text,
    /// Only the answer, at the end.
    Answer,
    /// Events as lines of JSON.
    Json,
}

/// The last line of JSON.
#[derive(Serialize)]
struct ResultLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    result: &'a PromptResult,
    session_id: &'a str,
    exit_code: i32,
}

/// Shows the events of a turn.
#[derive(Debug)]
pub(crate) struct Report {
    console: Arc<Console>,
    format: Format,
    is_verbose: bool,
    /// The tool call whose arguments are still arriving, if there is one.
    open: Option<ToolCall>,
    /// The last line about each tool call.
    shown: HashMap<String, String>,
    thought: String,
    /// The messages of the answer.
    messages: Messages,
}

impl Report {
    pub(crate) fn new(console: &Arc<Console>, format: Format, is_verbose: bool) -> Self {
        let console = Arc::clone(console);
        Self {
            console,
            format,
            is_verbose,
            open: None,
            shown: HashMap::new(),
            thought: String::new(),
            messages: Messages::default(),
        }
    }

    /// Shows an event.
    pub(crate) fn event(&mut self, event: &Event) {
        if self.format == Format::Json {
            return self.console.json(event);
        }
        match event {
            Event::ContentPart(ContentPart::Think(part)) if self.is_verbose => self.thought.push_str(&part.think),
            Event::ToolCallPart(part) => {
                if let (Some(call), Some(more)) = (&mut self.open, &part.arguments_part) {
                    call.function.arguments.get_or_insert_default().push_str(more);
                }
                self.flush_complete();
            }
            event => {
                self.flush();
                self.show(event, "");
                self.flush_complete();
            }
        }
    }

    /// Shows what an event was still expected for.
    pub(crate) fn flush(&mut self) {
        let thought = std::mem::take(&mut self.thought);
        for line in thought.trim().lines().filter(|line| !line.trim().is_empty()) {
            self.console.note(&format!("thought: {line}"));
        }
        if let Some(call) = self.open.take() {
            self.tool_call(&call, "");
        }
    }

    /// Shows the tool call if all of its arguments are there. A question about it can follow before the next event.
    fn flush_complete(&mut self) {
        let arguments = self.open.as_ref().and_then(|call| call.function.arguments.as_deref());
        let arguments = arguments.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
        if arguments.is_some_and(|arguments| !arguments.is_empty()) {
            self.flush();
        }
    }

    /// Shows an event of the agent or of a subagent, whose lines have a prefix.
    fn show(&mut self, event: &Event, prefix: &str) {
        match event {
            Event::ContentPart(ContentPart::Text(part)) if prefix.is_empty() && self.format == Format::Text => {
                if self.messages.is_next(part) {
                    self.console.text(MESSAGE_BREAK);
                }
                self.console.text(&part.text);
            }
            Event::ToolCall(call) if prefix.is_empty() => self.open = Some(call.clone()),
            Event::ToolCall(call) => self.tool_call(call, prefix),
            Event::ToolResult(result) => self.tool_result(result, prefix),
            Event::PolicyDecision(decision) => self.console.note(&format!("{prefix}{}", policy(decision))),
            Event::SubagentEvent(subagent) if prefix.is_empty() => self.show(&subagent.event, "subagent: "),
            Event::StepBegin(_) if prefix.is_empty() => {
                self.messages = Messages::default();
                self.console.break_text();
            }
            event => {
                if let Some(note) = note(event).or_else(|| self.detail(event)) {
                    self.console.note(&format!("{prefix}{note}"));
                }
            }
        }
    }

    fn tool_call(&mut self, call: &ToolCall, prefix: &str) {
        let arguments = call.function.arguments.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let line = named(&call.function.name, arguments.as_ref());
        self.console.break_text();
        // Over ACP a call arrives again when more of it is known.
        let former = self.shown.insert(call.id.clone(), line.clone());
        if former.is_none_or(|former| former != line) {
            self.console.note(&format!("{prefix}tool: {line}"));
        }
    }

    fn tool_result(&mut self, result: &ToolResult, prefix: &str) {
        self.console.break_text();
        let call = result.tool_call.get().map(described).unwrap_or_else(|| result.tool_call_id.clone());
        // A call of the same id can follow.
        self.shown.remove(&result.tool_call_id);
        let value = &result.return_value;
        let output = value.output.text();
        let said = if value.message.is_empty() { &output } else { &value.message };
        if value.is_error {
            self.console.note(&format!("{prefix}tool failed: {call}: {}", short(said)));
        } else if self.is_verbose {
            self.console.note(&format!("{prefix}tool finished: {call}: {}", short(&output)));
        }
    }

    /// Returns the line of an event that is shown with `--verbose`.
    fn detail(&self, event: &Event) -> Option<String> {
        if !self.is_verbose {
            return None;
        }
        match event {
            Event::HookResolved(hook) => {
                Some(format!("hook: {} {}", hook.event, hook.target.as_deref().unwrap_or_default()))
            }
            Event::ApprovalResponse(response) => Some(format!("approval: {}", response.response.as_str())),
            Event::Unknown(event) => Some(format!("unknown event: {}", event.kind)),
            _ => None,
        }
    }

    /// Shows how the turn ended. Returns after the answer is written.
    pub(crate) fn finished(&mut self, result: &PromptResult, session: &str, exit_code: i32) {
        self.flush();
        match self.format {
            Format::Json => {
                self.console.json(&ResultLine { kind: "result", result, session_id: session, exit_code });
            }
            Format::Answer => match &result.output {
                Some(value) => self.console.json(value),
                None => self.console.text(&result.text),
            },
            Format::Text => {}
        }
        if self.format == Format::Json || self.console.is_closed() {
            return;
        }
        self.console.end_text();
        let (steps, tokens) = (result.steps, result.usage.total());
        let status = match result.status {
            TurnStatus::Finished => "finished",
            TurnStatus::Cancelled => "cancelled",
            TurnStatus::MaxStepsReached => "stopped at the limit of steps",
            TurnStatus::Truncated => "cut at the model's limit of tokens",
            TurnStatus::Refused => "refused by the model",
            _ => "ended",
        };
        let count = |number: i64, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
        let (steps, tokens) = (count(steps, "step"), count(tokens, "token"));
        self.console.note(&format!("{status}: {steps}, {tokens}; session {session}"));
    }
}

/// Returns the line of a decision of the policy.
fn policy(decision: &PolicyDecision) -> String {
    let call = whole(&decision.tool_call);
    let by = match (&decision.rule, &decision.source) {
        (Some(rule), Some(source)) => format!("rule {rule:?}, {source}"),
        (Some(rule), None) => format!("rule {rule:?}"),
        _ => "no rule matches".to_owned(),
    };
    let reason = decision.reason.as_ref().map(|reason| format!(": {}", short(reason))).unwrap_or_default();
    format!("policy: {} {call} ({by}){reason}", decision.decision.as_str())
}

/// Returns the line of an event that is always shown.
fn note(event: &Event) -> Option<String> {
    Some(match event {
        Event::Notification(notice) => short(&format!("notice: {} {}", notice.title, notice.body)),
        Event::StepRetry(retry) => {
            format!("retry {} of {}: {}", retry.next_attempt, retry.max_attempts, short(&retry.error_type))
        }
        Event::CompactionBegin(_) => "the context is being compacted".to_owned(),
        Event::Plan(plan) => planned(plan),
        Event::PlanDisplay(plan) => format!("plan: {}", short(&plan.content)),
        Event::HandlerFailed(failed) => format!("failed: {}", short(&failed.message)),
        _ => return None,
    })
}

/// Returns the line of a plan: how much of it is done, and the entries that the agent works on.
fn planned(plan: &Plan) -> String {
    if plan.removed == Some(true) {
        return "plan: removed".to_owned();
    }
    let done = plan.entries.iter().filter(|entry| entry.status == PlanStatus::Completed).count();
    let running = plan.entries.iter().filter(|entry| entry.status == PlanStatus::InProgress);
    let running: Vec<_> = running.take(3).map(|entry| short(&entry.content)).collect();
    let now = if running.is_empty() { String::new() } else { format!("; now {}", running.join(", ")) };
    format!("plan: {done} of {} done{now}", plan.entries.len())
}
