//! The parts of a turn that are compared. Both sides come from recordings, so that both went through the same code.

use std::collections::BTreeMap;

use kimi_agent_protocol::messages::{ContentPart, Event, ToolCallInfo, ToolKind};
use kimi_agent_protocol::recording::{Entry, Recording, Redactor, difference};
use serde::Serialize;
use serde_json::{Map, Value};

/// A turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// How the turn ended: a status, or the code of an error. `None` if it did not end.
    pub(super) status: Option<String>,
    /// The tool calls: name, kind and arguments.
    pub(super) tool_calls: Vec<Value>,
    /// The tool calls that approval was asked for.
    pub(super) approvals: Vec<Value>,
    pub(super) questions: Vec<Value>,
    /// The kinds of events in order. Repeated ones are there once.
    pub(super) shape: Vec<&'static str>,
    pub(super) text: String,
}

/// A difference between the recording and the agent.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Difference {
    pub(super) turn: u64,
    /// What differs, for example `tool_calls`.
    pub(super) subject: &'static str,
    pub(super) expected: Value,
    pub(super) got: Value,
}

/// Returns the turns of a recording by their numbers.
pub(super) fn turns(recording: &Recording) -> BTreeMap<u64, Observed> {
    let mut turns: BTreeMap<u64, Observed> = BTreeMap::new();
    let mut kinds: BTreeMap<(u64, String), ToolKind> = BTreeMap::new();
    for recorded in recording.events() {
        let Some(number) = recorded.turn else { continue };
        if let Some(ToolCallInfo { id, kind: Some(kind), .. }) = tool_call(&recorded.event) {
            kinds.insert((number, id.clone()), kind.clone());
        }
        turns.entry(number).or_default().see(&recorded.event);
    }
    for timed in &recording.entries {
        let Entry::Turn(ended) = &timed.entry else { continue };
        let turn = turns.entry(ended.turn).or_default();
        let result = ended.result_value();
        let of = |name: &str| result.get(name);
        let code = ended.error.as_ref().map(|error| error.code.as_str());
        turn.status = code.or_else(|| of("status")?.as_str()).map(str::to_owned);
        turn.text = of("text").and_then(Value::as_str).unwrap_or_default().to_owned();
        let calls = of("tool_calls").and_then(Value::as_array).into_iter().flatten();
        turn.tool_calls = calls
            .map(|call| {
                let id = call["id"].as_str().unwrap_or_default().to_owned();
                let kind = kinds.get(&(ended.turn, id)).map(ToolKind::as_str);
                described(call["name"].as_str().unwrap_or_default(), kind, call["arguments"].as_object())
            })
            .collect();
    }
    turns
}

impl Observed {
    fn see(&mut self, event: &Event) {
        if let Some(kind) = kind_of(event)
            && self.shape.last() != Some(&kind)
        {
            self.shape.push(kind);
        }
        match event {
            Event::ApprovalRequest(request) => {
                let call = request.tool_call.get();
                self.approvals.push(match call {
                    Some(call) => {
                        described(&call.name, call.kind.as_ref().map(ToolKind::as_str), call.arguments.as_ref())
                    }
                    None => described(&request.sender, None, None),
                });
            }
            Event::QuestionRequest(request) => {
                self.questions.extend(request.questions.iter().map(|question| question.question.clone().into()));
            }
            _ => {}
        }
    }

    /// Returns the differences of a turn that should be like this one. `redactor` has the secrets of its session, which the
    /// recording of this turn may not know.
    pub(super) fn differences(&self, turn: u64, got: &Self, with_text: bool, redactor: &Redactor) -> Vec<Difference> {
        let list = |values: &[Value]| Value::from(values.to_vec());
        let shape = |turn: &Self| Value::from(turn.shape.clone());
        let mut pairs = vec![
            ("status", Value::from(self.status.clone()), Value::from(got.status.clone())),
            ("tool_calls", list(&self.tool_calls), list(&got.tool_calls)),
            ("approvals", list(&self.approvals), list(&got.approvals)),
            ("questions", list(&self.questions), list(&got.questions)),
            ("events", shape(self), shape(got)),
        ];
        if with_text {
            pairs.push(("text", self.text.clone().into(), got.text.clone().into()));
        }
        let pairs =
            pairs.into_iter().map(|(subject, expected, got)| (subject, redactor.redacted_value(&expected), got));
        let different = pairs.filter(|(_, expected, got)| difference(expected, got).is_some());
        different.map(|(subject, expected, got)| Difference { turn, subject, expected, got }).collect()
    }
}

/// Returns the word for an event in the shape of a turn. `None` for events whose number and place vary: reports about
/// the state, pieces of arguments, and what the program does.
pub(super) fn kind_of(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::ContentPart(ContentPart::Text(_)) => "text",
        Event::ContentPart(ContentPart::Think(_)) => "thought",
        Event::ContentPart(_) => "media",
        Event::StepBegin(_) => "step",
        Event::StepRetry(_) => "retry",
        Event::StepInterrupted(_) => "interrupted",
        Event::SteerInput(_) => "steer",
        Event::ToolCall(_) => "tool call",
        Event::ToolCallRequest(_) => "tool request",
        Event::ToolResult(_) => "tool result",
        Event::ApprovalRequest(_) => "approval",
        Event::QuestionRequest(_) => "question",
        Event::SubagentEvent(_) => "subagent",
        Event::CompactionBegin(_) => "compaction",
        Event::Plan(_) | Event::PlanDisplay(_) => "plan",
        Event::Unknown(_) => "unknown event",
        _ => return None,
    })
}

fn tool_call(event: &Event) -> Option<&ToolCallInfo> {
    match event {
        Event::ToolResult(result) => result.tool_call.get(),
        Event::ApprovalRequest(request) => request.tool_call.get(),
        _ => None,
    }
}

fn described(name: &str, kind: Option<&str>, arguments: Option<&Map<String, Value>>) -> Value {
    let mut call = Map::new();
    call.insert("name".to_owned(), name.into());
    if let Some(kind) = kind {
        call.insert("kind".to_owned(), kind.into());
    }
    if let Some(arguments) = arguments {
        call.insert("arguments".to_owned(), arguments.clone().into());
    }
    call.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RECORDING: &str = include_str!("../../../../tests/recordings/wire.jsonl");

    fn no_secrets() -> Redactor {
        Redactor::of_places(&[])
    }

    #[test]
    fn turn_has_calls_with_approvals() {
        let turns = turns(&Recording::read(RECORDING).unwrap());
        let call = json!({"name": "Shell", "arguments": {"command": "ls {{work_dir}}"}});
        let turn = &turns[&1];
        assert_eq!((&turn.tool_calls, &turn.approvals), (&vec![call.clone()], &vec![call]));
        assert_eq!((turn.status.as_deref(), &*turn.text), (Some("finished"), "There is a.txt."));
        assert_eq!(turn.shape, ["step", "text", "tool call", "approval", "tool result", "step", "text"]);
    }

    #[test]
    fn text_counts_only_if_asked() {
        let one = Observed { text: "a".to_owned(), ..Observed::default() };
        let other = Observed { text: "b".to_owned(), status: Some("cancelled".to_owned()), ..Observed::default() };
        let subjects = |with_text| -> Vec<_> {
            one.differences(1, &other, with_text, &no_secrets()).iter().map(|difference| difference.subject).collect()
        };
        assert_eq!((subjects(false), subjects(true)), (vec!["status"], vec!["status", "text"]));
        assert!(one.differences(1, &one, true, &no_secrets()).is_empty());
    }

    #[test]
    fn masked_secret_is_no_difference() {
        let turn = |secret: &str| Observed {
            tool_calls: vec![described("Shell", None, json!({"command": format!("login {secret}")}).as_object())],
            text: format!("It is {secret}."),
            ..Observed::default()
        };
        let (masked, clear) = (turn("***"), turn("canary-1"));
        let secrets = Redactor::new(&[], ["canary-1".into()], &[]).unwrap();
        assert!(masked.differences(1, &clear, true, &no_secrets()).is_empty());
        assert!(clear.differences(1, &masked, true, &secrets).is_empty());
        assert_eq!(turn("canary-2").differences(1, &clear, true, &no_secrets()).len(), 2);
        // Markdown has `***`, too.
        assert_eq!(clear.differences(1, &masked, true, &no_secrets()).len(), 2);
    }
}
