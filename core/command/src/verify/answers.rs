//! The recorded answers to the agent's requests, for the same requests of another run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kimi_agent_client::host::{parse_answers, parse_approval};
use kimi_agent_client::{Answers, Approval, ExternalTool, HandlerError, SessionOptions};
use kimi_agent_protocol::messages::{Event, QuestionRequest, ToolReturnValue};
use kimi_agent_protocol::recording::{Entry, Places, Recording};
use serde_json::{Value, json};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Approval,
    Question,
    Tool,
}

/// A request of the recording with its answer.
#[derive(Debug)]
struct Recorded {
    kind: Kind,
    /// The id of the request in the recording.
    id: String,
    /// The tool, or the questions.
    name: String,
    arguments: Value,
    answer: Option<Value>,
    is_used: bool,
}

/// The recorded requests that have not been made again.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedAnswers(Arc<Mutex<Vec<Recorded>>>);

impl RecordedAnswers {
    pub(super) fn of(recording: &Recording, places: &Places) -> Self {
        let mut requests: Vec<Recorded> = Vec::new();
        for recorded in recording.events() {
            requests.extend(request(&recorded.event, places));
        }
        for timed in &recording.entries {
            let (id, answer) = match &timed.entry {
                Entry::Decision(decision) => (&decision.request, decision.answer.as_ref()),
                Entry::ToolResult(result) => (&result.id, result.result.as_ref()),
                _ => continue,
            };
            // Ids of tool calls can repeat in later turns.
            let open = requests.iter_mut().find(|one| one.id == *id && one.answer.is_none());
            if let (Some(open), Some(answer)) = (open, answer) {
                open.answer = Some(places.filled(answer));
            }
        }
        Self(Arc::new(Mutex::new(requests)))
    }

    /// Adds the handlers and the tools that answer as recorded.
    pub(super) fn answering(&self, options: SessionOptions, recording: &Recording) -> SessionOptions {
        let mut options = options;
        let answers = self.clone();
        options = options.on_approval(move |request| {
            let call = request.tool_call.get();
            let name = call.map_or(&request.sender, |call| &call.name);
            let arguments = call.and_then(|call| call.arguments.clone()).map(Value::Object).unwrap_or_default();
            let answer = answers.take(Kind::Approval, name, &arguments).as_ref().map(approval);
            async { answer.unwrap_or_else(|| Ok(Approval::reject("The recording has no such request."))) }
        });
        if recording.header.options.contains_key("on_question") {
            let answers = self.clone();
            options = options.on_question(move |request| {
                let answer = answers.take(Kind::Question, &questions(&request), &Value::Null);
                async { answer.map_or(Ok(None), |answer| answers_of(&answer)) }
            });
        }
        let tools = recording.header.tools.iter().map(|tool| {
            let (answers, name) = (self.clone(), tool.name.clone());
            ExternalTool::new(&tool.name, &tool.description, tool.parameters.clone(), move |arguments: Value| {
                let answer = answers.take(Kind::Tool, &name, &arguments);
                async { returned(answer) }
            })
        });
        options.tools(tools)
    }

    fn requests(&self) -> MutexGuard<'_, Vec<Recorded>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the answer to the same request, or to the next one with this name.
    fn take(&self, kind: Kind, name: &str, arguments: &Value) -> Option<Value> {
        let mut requests = self.requests();
        let is_open = |one: &Recorded| !one.is_used && one.kind == kind && one.name == name;
        let same = requests.iter().position(|one| is_open(one) && one.arguments == *arguments);
        let found = same.or_else(|| requests.iter().position(is_open))?;
        let request = requests.get_mut(found)?;
        request.is_used = true;
        request.answer.clone()
    }
}

/// Returns the request of an event.
fn request(event: &Event, places: &Places) -> Option<Recorded> {
    let (kind, id, name, arguments) = match event {
        Event::ApprovalRequest(request) => {
            let call = request.tool_call.get();
            let name = call.map_or_else(|| request.sender.clone(), |call| call.name.clone());
            let arguments = call.and_then(|call| call.arguments.clone()).map(Value::Object);
            (Kind::Approval, request.id.clone(), name, arguments.unwrap_or_default())
        }
        Event::QuestionRequest(request) => (Kind::Question, request.id.clone(), questions(request), Value::Null),
        Event::ToolCallRequest(request) => {
            let arguments = request.arguments.as_deref().and_then(|text| serde_json::from_str(text).ok());
            (Kind::Tool, request.id.clone(), request.name.clone(), arguments.unwrap_or_else(|| json!({})))
        }
        _ => return None,
    };
    Some(Recorded { kind, id, name, arguments: places.filled(&arguments), answer: None, is_used: false })
}

/// Returns the texts of the questions, as the name of their request.
fn questions(request: &QuestionRequest) -> String {
    request.questions.iter().map(|question| question.question.as_str()).collect::<Vec<_>>().join("\n")
}

fn approval(answer: &Value) -> Result<Approval, HandlerError> {
    match (answer["response"].as_str(), &answer["feedback"]) {
        (Some("reject"), feedback @ Value::String(_)) => parse_approval(&json!({"reject": feedback})),
        (Some(word), _) => parse_approval(&word.into()),
        _ => Ok(Approval::Reject { feedback: None }),
    }
}

fn answers_of(answer: &Value) -> Result<Option<Answers>, HandlerError> {
    parse_answers(answer.get("answers").unwrap_or(&Value::Null))
}

fn returned(answer: Option<Value>) -> Result<ToolReturnValue, HandlerError> {
    match answer {
        Some(answer) => {
            let mut whole = json!({"is_error": false, "output": "", "message": "", "display": []});
            if let (Value::Object(whole), Value::Object(answer)) = (&mut whole, answer) {
                whole.extend(answer);
            }
            Ok(serde_json::from_value(whole)?)
        }
        None => Ok(ToolReturnValue::error("the recording has no such call")),
    }
}
