//! Options of a scenario: plain ones as they are, functions made of what describes them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kimi_agent::testing::{ReplayMode, replayed_agent};
use kimi_agent::wire::{Event, QuestionRequest, ToolReturnValue};
use kimi_agent::{
    AgentOptions, Executable, ExternalTool, HandlerError, Hook, IntoToolReturn, OutputError, PromptOptions, Result,
    SessionOptions,
};
use kimi_agent_client::host::{
    self, Naming, parse_answers, parse_approval, parse_file, parse_hook, parse_hook_decision, parse_terminal_result,
    parse_tool, parse_violations,
};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::trace::{canonical, print};

/// The recipient of the arguments of handlers.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    pub(crate) events: UnboundedSender<Event>,
    pub(crate) stderr: UnboundedSender<String>,
    pub(crate) trace_handlers: bool,
}

impl Records {
    fn called(&self, line: impl FnOnce() -> Value) {
        if self.trace_handlers {
            print(&line());
        }
    }
}

/// Options of an agent, as an operation has them.
///
/// # Errors
/// As with those of a session.
pub(crate) fn agent_options(
    mut plain: Map<String, Value>,
    agent: Executable,
    records: &Records,
) -> Result<AgentOptions> {
    let on_stderr = take_record(&mut plain, "on_stderr");
    let agent = agent_of(&mut plain, Some(agent));
    let mut options = host::agent_options(plain, Naming::Snake)?;
    if let Some(agent) = agent {
        options = options.executable(agent);
    }
    if on_stderr {
        let stderr = records.stderr.clone();
        options = options.on_stderr(move |line| drop(stderr.send(line.to_owned())));
    }
    Ok(options)
}

/// The agent of a session, unless the options name a program: that of a recording, `{"recording": path, "mode": name}`,
/// or the default.
fn agent_of(plain: &mut Map<String, Value>, default: Option<Executable>) -> Option<Executable> {
    match plain.get("executable") {
        None | Some(Value::Null) => default,
        Some(executable) => {
            let agent = replayed_agent(executable["recording"].as_str()?);
            let mode = if executable["mode"] == "verify" { ReplayMode::Verify } else { ReplayMode::Replay };
            let agent = Executable::from(agent.mode(mode));
            plain.remove("executable");
            Some(agent)
        }
    }
}

/// Session options from a scenario's; without an agent's program for sessions of an agent, which has its own.
///
/// # Errors
/// Wrong options are the SDK's to refuse.
pub(crate) fn options(
    described: &Map<String, Value>,
    agent: Option<Executable>,
    records: &Records,
) -> Result<SessionOptions> {
    let mut plain = described.clone();
    let on_approval = take_answers(&mut plain, "on_approval");
    let on_question = take_answers(&mut plain, "on_question");
    let on_read_file = take_answers(&mut plain, "on_read_file");
    let on_write_file = take_answers(&mut plain, "on_write_file");
    let on_terminal = take_answers(&mut plain, "on_terminal");
    let on_event = take_record(&mut plain, "on_event");
    let on_stderr = take_record(&mut plain, "on_stderr");
    let tools = take_list(&mut plain, "tools");
    let hooks = take_list(&mut plain, "hooks");
    let agent = agent_of(&mut plain, agent);
    let check = take_check(&mut plain);
    let mut options = host::session_options(plain, Naming::Snake)?;
    if let Some(answers) = check {
        host::check_session_output(&mut options, checked(answers, records.clone()));
    }
    if let Some(agent) = agent {
        options = options.executable(agent);
    }
    for described in tools {
        options = options.tool(tool(described, records.clone())?);
    }
    for described in hooks {
        options = options.hook(hook(described, records.clone())?);
    }
    if let Some(answers) = on_approval {
        let records = records.clone();
        options = options.on_approval(move |request| {
            records.called(|| json!({"handler": "approval", "request": payload(request)}));
            let answer = answers.next();
            async move { parse_approval(&given(answer).await?) }
        });
    }
    if let Some(answers) = on_question {
        let records = records.clone();
        options = options.on_question(move |request| {
            records.called(|| json!({"handler": "question", "request": payload(request.clone())}));
            let answer = to_question(&request, answers.next());
            async move { parse_answers(&given(answer).await?) }
        });
    }
    if let Some(answers) = on_read_file {
        let records = records.clone();
        options = options.on_read_file(move |request| {
            records.called(|| json!({"handler": "read_file", "request": payload(request)}));
            let answer = answers.next();
            async move { parse_file(given(answer).await?) }
        });
    }
    if let Some(answers) = on_write_file {
        let records = records.clone();
        options = options.on_write_file(move |request| {
            records.called(|| json!({"handler": "write_file", "request": payload(request)}));
            let answer = answers.next();
            async move { given(answer).await.map(drop) }
        });
    }
    if let Some(answers) = on_terminal {
        let records = records.clone();
        options = options.on_terminal(move |request| {
            records.called(|| json!({"handler": "terminal", "request": payload(request)}));
            let answer = answers.next();
            async move { parse_terminal_result(given(answer).await?) }
        });
    }
    if on_event {
        let events = records.events.clone();
        options = options.on_event(move |event| drop(events.send(event)));
    }
    if on_stderr {
        let stderr = records.stderr.clone();
        options = options.on_stderr(move |line| drop(stderr.send(line.to_owned())));
    }
    Ok(options)
}

/// An only label for an only question, whatever the scenario calls it: a real agent's text may have a path in it.
fn to_question(request: &QuestionRequest, answer: Value) -> Value {
    match (&*request.questions, answer.as_object()) {
        ([question], Some(map))
            if map.len() == 1 && !["return", "raise", "hang"].iter().any(|key| map.contains_key(*key)) =>
        {
            map.values().map(|label| (question.question.clone(), label.clone())).collect::<Map<_, _>>().into()
        }
        _ => answer,
    }
}

fn payload(request: impl Into<Event>) -> Value {
    canonical(&request.into())["payload"].take()
}

/// Answers used in their order, the last one again and again.
#[derive(Clone, Debug)]
struct AnswerList(Arc<(Vec<Value>, AtomicUsize)>);

impl AnswerList {
    fn next(&self) -> Value {
        let (answers, used) = &*self.0;
        let place = used.fetch_add(1, Ordering::Relaxed).min(answers.len().saturating_sub(1));
        answers.get(place).cloned().unwrap_or_default()
    }
}

fn take_answers(options: &mut Map<String, Value>, name: &str) -> Option<AnswerList> {
    let answers = options.get(name)?.get("answers")?.as_array()?.clone();
    options.remove(name);
    Some(AnswerList(Arc::new((answers, AtomicUsize::new(0)))))
}

/// Takes the answers of the check out of the option `output`.
fn take_check(options: &mut Map<String, Value>) -> Option<AnswerList> {
    take_answers(options.get_mut("output")?.as_object_mut()?, "check")
}

type Violations = Result<Vec<OutputError>, HandlerError>;

/// A check of `output` that returns these answers.
fn checked(answers: AnswerList, records: Records) -> impl Fn(Value) -> Checking + Send + Sync + 'static {
    move |value| {
        records.called(|| json!({"handler": "output", "value": value}));
        let answer = answers.next();
        Box::pin(async move { Ok(parse_violations(given(answer).await?)?) })
    }
}

type Checking = Pin<Box<dyn Future<Output = Violations> + Send>>;

/// Reads the output of a prompt.
pub(crate) fn prompt_output(prompt: PromptOptions, described: &Value, records: &Records) -> Result<PromptOptions> {
    let mut plain = Map::from_iter([("output".to_owned(), described.clone())]);
    let check = take_check(&mut plain);
    let mut prompt = host::with_output(prompt, plain.remove("output").unwrap_or_default(), Naming::Snake)?;
    if let Some(answers) = check {
        host::check_prompt_output(&mut prompt, checked(answers, records.clone()));
    }
    Ok(prompt)
}

fn take_record(options: &mut Map<String, Value>, name: &str) -> bool {
    let record = options.get(name).is_some_and(|value| value == "record");
    if record {
        options.remove(name);
    }
    record
}

/// A list is ours to read; anything else stays, for the SDK to refuse.
fn take_list(options: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    match options.get_mut(name).map(Value::take) {
        Some(Value::Array(list)) => list,
        Some(other) => {
            options.insert(name.to_owned(), other);
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// What a handler gives by a behaviour that all kinds of them have.
async fn given(behaviour: Value) -> Result<Value, HandlerError> {
    if let Some(message) = behaviour.get("raise").and_then(Value::as_str) {
        return Err(message.into());
    }
    if let Some(message) = behaviour.get("not_found").and_then(Value::as_str) {
        return Err(std::io::Error::new(std::io::ErrorKind::NotFound, message).into());
    }
    if behaviour.get("hang").is_some() {
        return std::future::pending().await;
    }
    Ok(behaviour.get("return").cloned().unwrap_or(behaviour))
}

fn tool(mut described: Value, records: Records) -> Result<ExternalTool> {
    let behaviour = take_behaviour(&mut described);
    let spec = parse_tool(described, Naming::Snake)?;
    let name = spec.name.clone();
    let mut tool =
        ExternalTool::with_context(spec.name, spec.description, spec.parameters, move |arguments, context| {
            records.called(|| json!({"handler": "tool", "name": name, "arguments": arguments}));
            let behaviour = behaviour.clone();
            async move {
                if let Some(report) = behaviour.get("progress") {
                    context.progress(report["fraction"].as_f64(), report["message"].as_str());
                }
                if behaviour.get("call_id").is_some() {
                    return context.call_id().into_tool_return();
                }
                if behaviour.get("echo").is_some() {
                    return arguments.into_tool_return();
                }
                if let Some(value) = behaviour.get("return_value") {
                    return Ok(serde_json::from_value::<ToolReturnValue>(value.clone())?);
                }
                given(behaviour).await?.into_tool_return()
            }
        });
    if let Some(timeout) = spec.timeout {
        tool = tool.timeout(timeout);
    }
    Ok(tool)
}

fn hook(mut described: Value, records: Records) -> Result<Hook> {
    let behaviour = take_behaviour(&mut described);
    let spec = parse_hook(described, Naming::Snake)?;
    let mut hook = Hook::new(spec.event, move |request| {
        records.called(|| json!({"handler": "hook", "request": payload(request)}));
        let behaviour = behaviour.clone();
        async move { parse_hook_decision(&given(behaviour).await?) }
    })
    .on_error(spec.on_error);
    if let Some(matcher) = spec.matcher {
        hook = hook.matcher(matcher);
    }
    if let Some(timeout) = spec.timeout {
        hook = hook.timeout(timeout);
    }
    Ok(hook)
}

fn take_behaviour(described: &mut Value) -> Value {
    described.as_object_mut().and_then(|map| map.remove("behaviour")).unwrap_or_default()
}
