//! The spans of one turn: its own, those of its steps and those of its tool calls, also of subagents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::content::{MAX_TEXT, call_part, cut, cut_at, output_messages, text_part};
use super::{
    Attributes, Identity, Op, Sink, SpanError, SpanKind, SpanStart, TurnSpan, Value, named, names, next_span, seconds,
};
use crate::connection::is_late;
use crate::connection::{PromptResult, TurnStatus};
use crate::error::{Error, Result};
use crate::messages::{
    ContentPart, Event, MESSAGE_BREAK, Messages, StepBegin, StepRetry, TokenUsage, ToolCall, ToolCallRequest,
    ToolResult,
};

/// The limit of open tool calls of an agent that have a span, of subagents of a turn, and of calls in the output of a step.
const MAX_OPEN: usize = 1024;
/// The limit of the id of a call or subagent with a span, and of the name of a tool in a span, in bytes.
const MAX_NAME: usize = 1024;

/// The spans of a turn.
#[derive(Debug)]
pub(super) struct TurnTrace {
    pub(super) span: TurnSpan,
    /// By subagent. The key of the main agent is the empty string.
    streams: BTreeMap<String, Stream>,
    /// The calls of external tools that have a span of their own, by the id of the request.
    requests: BTreeMap<String, ToolSpan>,
    /// The ids of the announced calls that requests execute, by the id of the request.
    claimed: BTreeMap<String, String>,
    pub(super) usage: TokenUsage,
}

/// The spans of the turn's own agent, or of a subagent.
#[derive(Debug, Default)]
struct Stream {
    /// The span that contains those of the stream.
    parent: u64,
    chat: Option<Chat>,
    tools: BTreeMap<String, ToolSpan>,
}

/// A call of the model.
#[derive(Debug)]
struct Chat {
    span: u64,
    began: u64,
    first_output: Option<u64>,
    last_output: u64,
    /// The time at which the agent interrupted the step. The outcome of the turn says why.
    interrupted: Option<u64>,
    calls_tools: bool,
    text: String,
    /// The messages of the text.
    messages: Messages,
    calls: Vec<serde_json::Value>,
}

#[derive(Debug)]
pub(super) struct ToolSpan {
    pub(super) span: u64,
    began: u64,
    name: String,
    /// The time at which the request for it was withdrawn. The outcome of the turn says why.
    withdrawn: Option<u64>,
}

/// The place where turns write their operations.
#[derive(Debug)]
pub(super) struct Scribe {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) identity: Identity,
    pub(super) captures_content: bool,
    /// The names of the tools that the program or the SDK executes.
    pub(super) tools: BTreeSet<String>,
    pub(super) ops: Vec<Op>,
}

/// The end of a call of the model.
#[derive(Debug, Default)]
enum ChatEnd {
    #[default]
    Finished,
    Cancelled,
    Failed(SpanError),
}

/// The end of the spans that are open when the turn ends.
#[derive(Debug, Default)]
struct OpenEnd {
    chat: ChatEnd,
    /// The error of tool calls.
    tool: Option<SpanError>,
}

/// The end of a tool call.
#[derive(Default)]
struct ToolEnd {
    error: Option<SpanError>,
    arguments: Option<String>,
    result: Option<String>,
}

impl SpanError {
    fn of_tool() -> Self {
        Self { kind: "tool_error".to_owned(), message: "the tool failed".to_owned() }
    }

    fn of_cancel() -> Self {
        Self { kind: "cancelled".to_owned(), message: "the turn was cancelled".to_owned() }
    }

    fn of_withdrawal() -> Self {
        Self { kind: "cancelled".to_owned(), message: "the agent cancelled the call".to_owned() }
    }

    fn of_interruption() -> Self {
        Self { kind: "step_interrupted".to_owned(), message: "the agent interrupted the step".to_owned() }
    }
}

impl OpenEnd {
    fn of(outcome: &Result<Box<PromptResult>>) -> Self {
        let tool = match outcome {
            Ok(result) if result.status == TurnStatus::Cancelled => Some(SpanError::of_cancel()),
            Ok(_) => None,
            Err(error) => Some(SpanError::of(error)),
        };
        let chat = match (outcome, result_of(outcome).map(|result| result.status)) {
            // A turn can also fail after the agent has finished it, for example with an invalid output.
            (_, Some(TurnStatus::Finished)) => ChatEnd::Finished,
            (Err(error), _) => ChatEnd::Failed(SpanError::of(error)),
            (_, Some(TurnStatus::MaxStepsReached | TurnStatus::Truncated | TurnStatus::Refused)) => ChatEnd::Finished,
            (Ok(_), _) => ChatEnd::Cancelled,
        };
        Self { chat, tool }
    }
}

impl TurnTrace {
    /// Makes the spans of a turn that begins.
    pub(super) fn new(span: TurnSpan) -> Self {
        let own = Stream { parent: span.span, ..Stream::default() };
        Self {
            span,
            streams: [(String::new(), own)].into(),
            requests: BTreeMap::new(),
            claimed: BTreeMap::new(),
            usage: TokenUsage::default(),
        }
    }

    /// Takes an event. `agent` is the subagent that sent it; empty for the turn's own agent.
    pub(super) fn observe(&mut self, agent: &str, event: &Event, scribe: &mut Scribe) {
        match event {
            Event::StepBegin(step) => self.begin_step(agent, step, scribe),
            Event::StepInterrupted(_) => {
                if let Some(chat) = self.chat(agent) {
                    chat.interrupted.get_or_insert_with(|| scribe.sink.now());
                }
            }
            Event::StepRetry(retry) => self.retry(agent, retry, scribe),
            Event::ContentPart(part) => {
                if let Some(chat) = self.chat(agent) {
                    chat.take_output(part, scribe);
                }
            }
            Event::ToolCallPart(_) => {
                if let Some(chat) = self.chat(agent) {
                    chat.last_output = scribe.sink.now();
                }
            }
            Event::StatusUpdate(update) => {
                if let Some(usage) = &update.token_usage {
                    self.finish_chat(agent, usage, update.message_id.as_deref(), scribe);
                }
            }
            Event::ToolCall(call) if is_late(call) => {}
            Event::ToolCall(call) => self.begin_call(agent, call, scribe),
            Event::ToolResult(result) => self.end_call(agent, result, scribe),
            Event::ToolCallRequest(call) => self.begin_request(call, scribe),
            Event::PolicyDecision(decision) => {
                let attributes = Attributes::default()
                    .with(names::POLICY_DECISION, decision.decision.to_string())
                    .with(names::TOOL_NAME, decision.tool_call.name.as_str())
                    .with(names::TOOL_CALL_ID, decision.tool_call.id.as_str())
                    .maybe(names::POLICY_RULE, decision.rule.as_deref())
                    .maybe(names::POLICY_SOURCE, decision.source.as_deref());
                let span = self.span_of_call(Some(&decision.tool_call.id));
                scribe.event(span, names::POLICY_EVENT, attributes);
            }
            Event::HandlerFailed(failure) => {
                let attributes = Attributes::default().with(names::HANDLER, failure.handler.to_string());
                scribe.event(self.span.span, names::HANDLER_FAILED_EVENT, attributes);
            }
            Event::SubagentEvent(subagent) => {
                let ids = [&subagent.agent_id, &subagent.parent_tool_call_id];
                let id = ids.into_iter().flatten().find(|id| !id.is_empty());
                let id = id.map_or("subagent", String::as_str).to_owned();
                let parent = self.span_of_call(subagent.parent_tool_call_id.as_deref());
                if id.len() > MAX_NAME || self.streams.len() >= MAX_OPEN && !self.streams.contains_key(&id) {
                    return;
                }
                self.streams.entry(id.clone()).or_insert_with(|| Stream { parent, ..Stream::default() });
                self.observe(&id, &subagent.event, scribe);
            }
            _ => {}
        }
    }

    fn chat(&mut self, agent: &str) -> Option<&mut Chat> {
        self.streams.get_mut(agent)?.chat.as_mut()
    }

    /// Returns the span of an open tool call. If it is not known, the span of the turn.
    pub(super) fn span_of_call(&self, id: Option<&str>) -> u64 {
        let Some(id) = id else { return self.span.span };
        let open = self.streams.values().find_map(|stream| stream.tools.get(id));
        open.or_else(|| self.requests.get(id)).map_or(self.span.span, |tool| tool.span)
    }

    /// Returns the span of the call that a request executes.
    pub(super) fn program_tool(&self, request: &ToolCallRequest) -> Option<&ToolSpan> {
        self.requests.get(&request.id).or_else(|| self.announced(request).map(|(_, tool)| tool))
    }

    /// Returns the open call that a request executes: the call with the id of the request, or the oldest call of this tool
    /// without a request, because agents over ACP request it with another id.
    fn announced(&self, request: &ToolCallRequest) -> Option<(&String, &ToolSpan)> {
        let open = || self.streams.values().flat_map(|stream| &stream.tools);
        let id = self.claimed.get(&request.id).unwrap_or(&request.id);
        open().find(|(open, _)| *open == id).or_else(|| {
            let is_free = |id: &String| !self.claimed.values().any(|claimed| claimed == id);
            let fits = |(id, tool): &(&String, &ToolSpan)| is_free(id) && is_name_of(&tool.name, &request.name);
            open().filter(fits).min_by_key(|(_, tool)| tool.span)
        })
    }

    fn begin_step(&mut self, agent: &str, step: &StepBegin, scribe: &mut Scribe) {
        let Some(stream) = self.streams.get_mut(agent) else { return };
        if let Some(former) = stream.chat.take() {
            former.end_without_report(&ChatEnd::Finished, scribe.sink.now(), scribe);
        }
        if step.is_synthesized() {
            return;
        }
        let (began, identity) = (scribe.sink.now(), &scribe.identity);
        let attributes =
            identity.of_operation(names::CHAT).maybe(names::CONVERSATION, identity.conversation.as_deref());
        let name = named(names::CHAT, identity.model.as_deref());
        let span = scribe.start(stream.parent, name, SpanKind::Client, began, attributes);
        stream.chat = Some(Chat {
            span,
            began,
            first_output: None,
            last_output: began,
            interrupted: None,
            calls_tools: false,
            text: String::new(),
            messages: Messages::default(),
            calls: Vec::new(),
        });
    }

    fn retry(&mut self, agent: &str, retry: &StepRetry, scribe: &mut Scribe) {
        let Some(chat) = self.chat(agent) else { return };
        let attributes = Attributes::default()
            .with(names::ERROR_TYPE, retry.error_type.as_str())
            .with(names::RETRY_ATTEMPT, retry.next_attempt)
            .maybe(names::HTTP_STATUS, retry.status_code);
        let span = chat.span;
        scribe.event(span, names::RETRY_EVENT, attributes);
    }

    /// Ends the call of the model whose tokens the agent reports, unless it was interrupted.
    fn finish_chat(&mut self, agent: &str, usage: &TokenUsage, message: Option<&str>, scribe: &mut Scribe) {
        let Some(stream) = self.streams.get_mut(agent) else { return };
        if let Some(chat) = stream.chat.take_if(|chat| chat.interrupted.is_none()) {
            let time = scribe.sink.now();
            chat.end(&ChatEnd::Finished, Some((usage, message)), time, scribe);
        }
    }

    fn begin_call(&mut self, agent: &str, call: &ToolCall, scribe: &mut Scribe) {
        let (time, name) = (scribe.sink.now(), cut_at(&call.function.name, MAX_NAME));
        let Some(stream) = self.streams.get_mut(agent) else { return };
        let is_full = stream.tools.len() >= MAX_OPEN && !stream.tools.contains_key(&call.id);
        if is_full || call.id.len() > MAX_NAME {
            return;
        }
        if let Some(chat) = &mut stream.chat {
            chat.last_output = time;
            if !stream.tools.contains_key(&call.id) {
                chat.calls_tools = true;
                if scribe.captures_content && chat.calls.len() < MAX_OPEN {
                    chat.calls.push(call_part(&call.id, name));
                }
            }
        }
        if let Some(open) = stream.tools.get_mut(&call.id) {
            // The agent announces the call again, perhaps with a better name.
            if open.name != name {
                open.name = name.to_owned();
                let (name, attributes) = (Some(named(names::EXECUTE_TOOL, Some(name))), Attributes::default());
                scribe.ops.push(Op::Set { span: open.span, name, attributes });
            }
            return;
        }
        let kind = if scribe.tools.iter().any(|tool| is_name_of(name, tool)) { "function" } else { "extension" };
        let tool = scribe.start_tool(stream.parent, &call.id, name, kind, time);
        stream.tools.insert(call.id.clone(), tool);
    }

    fn end_call(&mut self, agent: &str, result: &ToolResult, scribe: &mut Scribe) {
        let Some(stream) = self.streams.get_mut(agent) else { return };
        let Some(tool) = stream.tools.remove(&result.tool_call_id) else { return };
        self.claimed.retain(|_, claimed| *claimed != result.tool_call_id);
        let time = scribe.sink.now();
        self.end_streams_of(tool.span, &OpenEnd::default(), time, scribe);
        let value = &result.return_value;
        let call = result.tool_call.get().filter(|_| scribe.captures_content);
        let arguments = call.and_then(|call| serde_json::to_string(call.arguments.as_ref()?).ok());
        let text =
            || Some(value.output.text()).filter(|text| !text.is_empty()).unwrap_or_else(|| value.message.clone());
        let end = ToolEnd {
            error: value.is_error.then(SpanError::of_tool),
            arguments,
            result: scribe.captures_content.then(text),
        };
        tool.end(end, time, &scribe.identity, &mut scribe.ops);
    }

    /// Begins the span of a call of the program's tool, unless the agent has announced the call.
    fn begin_request(&mut self, request: &ToolCallRequest, scribe: &mut Scribe) {
        if let Some((call, _)) = self.announced(request) {
            self.claimed.insert(request.id.clone(), call.clone());
            return;
        }
        if self.requests.len() >= MAX_OPEN || request.id.len() > MAX_NAME {
            return;
        }
        let (time, name) = (scribe.sink.now(), cut_at(&request.name, MAX_NAME));
        let tool = scribe.start_tool(self.span.span, &request.id, name, "function", time);
        self.requests.insert(request.id.clone(), tool);
    }

    /// Ends the span of a call of the program's tool, if the call has a span of its own.
    pub(super) fn end_request(&mut self, request: &str, has_failed: bool, time: u64, scribe: &mut Scribe) {
        if let Some(tool) = self.requests.remove(request) {
            let error = has_failed.then(SpanError::of_tool);
            tool.end(ToolEnd { error, ..ToolEnd::default() }, time, &scribe.identity, &mut scribe.ops);
        }
    }

    /// Notes that a request for a call was withdrawn, if the call has a span of its own.
    pub(super) fn withdraw_request(&mut self, request: &str, time: u64) {
        if let Some(tool) = self.requests.get_mut(request) {
            tool.withdrawn = Some(time);
        }
    }

    /// Ends what subagents have open below a tool call that ends.
    fn end_streams_of(&mut self, parent: u64, end: &OpenEnd, time: u64, scribe: &mut Scribe) {
        let is_below = |(id, stream): &(&String, &Stream)| !id.is_empty() && stream.parent == parent;
        let below: Vec<_> = self.streams.iter().filter(is_below).map(|(id, _)| id.clone()).collect();
        for id in below {
            if let Some(stream) = self.streams.remove(&id) {
                self.end_stream(stream, end, time, scribe);
            }
        }
    }

    fn end_stream(&mut self, stream: Stream, end: &OpenEnd, time: u64, scribe: &mut Scribe) {
        if let Some(chat) = stream.chat {
            chat.end_without_report(&end.chat, time, scribe);
        }
        for tool in stream.tools.into_values() {
            self.end_streams_of(tool.span, end, time, scribe);
            let end = ToolEnd { error: end.tool.clone(), ..ToolEnd::default() };
            tool.end(end, time, &scribe.identity, &mut scribe.ops);
        }
    }

    /// Ends all spans of the turn.
    pub(super) fn end(&mut self, outcome: &Result<Box<PromptResult>>, time: u64, scribe: &mut Scribe) {
        let error = outcome.as_ref().err().map(SpanError::of);
        let open = OpenEnd::of(outcome);
        let own = self.streams.remove("").unwrap_or_default();
        self.end_stream(own, &open, time, scribe);
        while let Some((_, stream)) = self.streams.pop_first() {
            self.end_stream(stream, &open, time, scribe);
        }
        for tool in std::mem::take(&mut self.requests).into_values() {
            let error = open.tool.clone().or_else(|| tool.withdrawn.map(|_| SpanError::of_withdrawal()));
            let time = tool.withdrawn.unwrap_or(time);
            tool.end(ToolEnd { error, ..ToolEnd::default() }, time, &scribe.identity, &mut scribe.ops);
        }
        let result = result_of(outcome);
        let usage = result.map_or(&self.usage, |result| &result.usage);
        let attributes = of_result(result, usage, outcome.is_ok(), scribe.captures_content);
        scribe.ops.push(Op::Set { span: self.span.span, name: None, attributes });
        self.record_metrics(usage, error.as_ref(), time, scribe);
        scribe.ops.push(Op::End { span: self.span.span, time, error });
        self.span.note_ended();
    }

    fn record_metrics(&self, usage: &TokenUsage, error: Option<&SpanError>, time: u64, scribe: &mut Scribe) {
        let attributes = || scribe.identity.of_operation(names::INVOKE_AGENT);
        for (kind, tokens) in [("input", usage.input()), ("output", usage.output)] {
            if usage.total() > 0 {
                let attributes = attributes().with(names::TOKEN_TYPE, kind);
                scribe.ops.push(Op::Record { metric: names::TOKEN_USAGE, value: tokens.into(), attributes });
            }
        }
        let attributes = attributes().maybe(names::ERROR_TYPE, error.map(|error| error.kind.as_str()));
        let value = seconds(self.span.began, time).into();
        scribe.ops.push(Op::Record { metric: names::DURATION, value, attributes });
    }
}

impl Chat {
    fn take_output(&mut self, part: &ContentPart, scribe: &mut Scribe) {
        self.last_output = scribe.sink.now();
        self.first_output.get_or_insert(self.last_output);
        if scribe.captures_content
            && self.text.len() < MAX_TEXT
            && let ContentPart::Text(part) = part
        {
            if self.messages.is_next(part) {
                self.text.push_str(MESSAGE_BREAK);
            }
            self.text.push_str(cut(&part.text));
        }
    }

    /// Ends the call of the model without a report of its tokens. `now` is its end if it was open until now.
    fn end_without_report(self, end: &ChatEnd, now: u64, scribe: &mut Scribe) {
        match (self.interrupted, end) {
            (Some(at), ChatEnd::Finished) => {
                self.end(&ChatEnd::Failed(SpanError::of_interruption()), None, at, scribe);
            }
            (Some(at), end) => self.end(end, None, at, scribe),
            (None, ChatEnd::Finished) => {
                let last = self.last_output;
                self.end(end, None, last, scribe);
            }
            (None, end) => self.end(end, None, now, scribe),
        }
    }

    fn end(mut self, end: &ChatEnd, details: Option<(&TokenUsage, Option<&str>)>, time: u64, scribe: &mut Scribe) {
        let (reason, error) = match end {
            ChatEnd::Finished if self.calls_tools => ("tool_calls", None),
            ChatEnd::Finished => ("stop", None),
            ChatEnd::Cancelled => (TurnStatus::Cancelled.as_str(), None),
            ChatEnd::Failed(error) => ("error", Some(error)),
        };
        let first = self.first_output.map(|first| seconds(self.began, first));
        let mut attributes = Attributes::default()
            .maybe(names::FINISH_REASONS, error.is_none().then(|| Value::Texts(vec![reason.to_owned()])))
            .maybe(names::TIME_TO_FIRST_CHUNK, first);
        if let Some((usage, message)) = details {
            attributes = with_usage(attributes, usage).maybe(names::RESPONSE_ID, message);
        }
        if scribe.captures_content {
            let text = (!self.text.is_empty()).then(|| text_part(&self.text));
            let parts: Vec<_> = text.into_iter().chain(self.calls.drain(..)).collect();
            attributes = attributes.with(names::OUTPUT_MESSAGES, output_messages(&parts, reason));
        }
        scribe.ops.push(Op::Set { span: self.span, name: None, attributes });
        let of_metric = || scribe.identity.of_operation(names::CHAT);
        if let Some(first) = first {
            let (metric, value) = (names::FIRST_CHUNK, first.into());
            scribe.ops.push(Op::Record { metric, value, attributes: of_metric() });
        }
        let value = seconds(self.began, time).into();
        let attributes = of_metric().maybe(names::ERROR_TYPE, error.map(|error| error.kind.as_str()));
        scribe.ops.push(Op::Record { metric: names::DURATION, value, attributes });
        scribe.ops.push(Op::End { span: self.span, time, error: error.cloned() });
    }
}

impl ToolSpan {
    fn end(self, end: ToolEnd, time: u64, identity: &Identity, ops: &mut Vec<Op>) {
        let kind = end.error.as_ref().map(|error| error.kind.as_str());
        // The name can change up to here, and some SDKs keep both values of an attribute that is set twice.
        let attributes = Attributes::default()
            .with(names::TOOL_NAME, self.name.as_str())
            .maybe(names::TOOL_ARGUMENTS, end.arguments.as_deref().map(cut))
            .maybe(names::TOOL_RESULT, end.result.as_deref().map(cut));
        ops.push(Op::Set { span: self.span, name: None, attributes });
        let attributes = Attributes::default().with(names::TOOL_NAME, self.name).maybe(names::ERROR_TYPE, kind);
        ops.push(Op::Record { metric: names::TOOL_CALLS, value: Value::Int(1), attributes });
        let attributes = identity.of_operation(names::EXECUTE_TOOL).maybe(names::ERROR_TYPE, kind);
        let value = seconds(self.began, time).into();
        ops.push(Op::Record { metric: names::DURATION, value, attributes });
        ops.push(Op::End { span: self.span, time, error: end.error });
    }
}

impl Scribe {
    fn start(&mut self, parent: u64, name: String, kind: SpanKind, time: u64, attributes: Attributes) -> u64 {
        let span = next_span();
        self.ops.push(Op::Start(SpanStart { span, parent: Some(parent), name, kind, time, attributes }));
        span
    }

    fn start_tool(&mut self, parent: u64, id: &str, name: &str, kind: &str, began: u64) -> ToolSpan {
        let attributes = Attributes::default()
            .with(names::OPERATION, names::EXECUTE_TOOL)
            .with(names::TOOL_CALL_ID, id)
            .with(names::TOOL_TYPE, kind)
            .maybe(names::CONVERSATION, self.identity.conversation.as_deref());
        let title = named(names::EXECUTE_TOOL, Some(name));
        let span = self.start(parent, title, SpanKind::Internal, began, attributes);
        ToolSpan { span, began, name: name.to_owned(), withdrawn: None }
    }

    fn event(&mut self, span: u64, name: &'static str, attributes: Attributes) {
        let time = self.sink.now();
        self.ops.push(Op::Event { span, name, time, attributes });
    }
}

/// Returns whether an agent may name a tool of the program like this: agents add the name of the MCP server.
fn is_name_of(announced: &str, tool: &str) -> bool {
    let rest = announced.strip_suffix(tool);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(['_', '/', ':', '.', ' ']))
}

/// Returns the result of a turn, also if the turn failed after it had one.
fn result_of(outcome: &Result<Box<PromptResult>>) -> Option<&PromptResult> {
    match outcome {
        Ok(result) => Some(result),
        Err(error @ (Error::BudgetExceeded(_) | Error::OutputInvalid(_))) => error.result(),
        Err(_) => None,
    }
}

fn of_result(result: Option<&PromptResult>, usage: &TokenUsage, is_ok: bool, captures_content: bool) -> Attributes {
    let attributes = match usage.total() {
        0 => Attributes::default(),
        _ => with_usage(Attributes::default(), usage),
    };
    let Some(result) = result else { return attributes };
    let attributes = attributes.with(names::STEPS, result.steps);
    let reason = match result.status {
        TurnStatus::Finished => "stop",
        TurnStatus::Truncated => "length",
        TurnStatus::Refused => "content_filter",
        other => other.as_str(),
    };
    let attributes = match is_ok {
        true => attributes
            .with(names::STATUS, result.status.as_str())
            .with(names::FINISH_REASONS, Value::Texts(vec![reason.to_owned()])),
        false => attributes,
    };
    let answer = captures_content.then(|| output_messages(&[text_part(&result.text)], reason));
    attributes.maybe(names::OUTPUT_MESSAGES, answer)
}

fn with_usage(attributes: Attributes, usage: &TokenUsage) -> Attributes {
    attributes
        .with(names::INPUT_TOKENS, usage.input())
        .with(names::OUTPUT_TOKENS, usage.output)
        .with(names::CACHE_READ_TOKENS, usage.input_cache_read)
        .with(names::CACHE_CREATION_TOKENS, usage.input_cache_creation)
}
