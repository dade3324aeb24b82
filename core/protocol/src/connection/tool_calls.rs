//! Tool calls, merged from the pieces that the agent sends. Requests, results and the outcome of the turn refer to
//! them. The memory is bounded, however much an agent sends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::parsed_object;
use crate::messages::{
    Content, ContentPart, Event, HandlerKind, PolicyDecision, ToolCall, ToolCallInfo, ToolCallRequest, ToolKind,
    ToolReturnValue,
};

/// The limit of open calls. Further calls are not added to requests and results.
const MAX_OPEN: usize = 1024;
/// The limit of the arguments of one call, and of all open calls together, in bytes. Larger arguments are left out.
const MAX_ARGUMENTS: usize = 1 << 20;
const MAX_OPEN_ARGUMENTS: usize = 16 << 20;
/// The limit of calls in an outcome, and of rejections and failures.
const MAX_CALLS: usize = 10_000;
const MAX_REPORTS: usize = 1000;
/// The limit of one output in an outcome, and of all arguments and outputs together, in bytes.
const MAX_OUTPUT: usize = 256 << 10;
const MAX_KEPT: usize = 4 << 20;
/// The limit of a description or of an error's text in an outcome, in bytes.
const MAX_TEXT: usize = 4 << 10;

/// One tool call of a turn, in [`PromptResult::tool_calls`](crate::PromptResult::tool_calls).
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(result: &kimi_agent::PromptResult) {
///     for call in &result.tool_calls {
///         println!("{} took {:?}", call.name, call.duration);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCallRecord {
    /// The id of the call, as the model made it.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments, parsed. Absent if they are not a JSON object or did not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// The tool's output; of a result without output, its message. Absent if the turn ended before the call did. An output
    /// above 256 KiB is cut, and ends with a line that says so: `[… 123 more bytes]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Content>,
    /// Whether the tool failed; absent if the turn ended before the call did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// The time from the last piece of the arguments to the result; it includes the wait for an approval. Absent if the turn
    /// ended before the call did.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "milliseconds")]
    pub duration: Option<Duration>,
}

/// A duration as a number of milliseconds.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        duration.map(|duration| duration.as_secs_f64() * 1e3).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let number = Option::<f64>::deserialize(deserializer)?;
        number.map(|number| Duration::try_from_secs_f64(number / 1e3).map_err(D::Error::custom)).transpose()
    }
}

/// The reason for a rejection.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(result: &kimi_agent::PromptResult) {
///     let unanswered = result.rejected.iter().filter(|rejected| rejected.by == kimi_agent::RejectedBy::NoHandler);
///     println!("{} requests had no handler", unanswered.count());
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RejectedBy {
    /// The session has no `on_approval`, or no reader of the turn answers manually.
    NoHandler,
    /// `on_approval`, or `respond()`.
    Handler,
    /// `on_approval` failed, or returned something that is not an answer.
    HandlerFailed,
    /// A rule of the session's policy.
    Policy,
    /// The turn was cancelled, or ended, before there was an answer.
    Cancelled,
}

impl RejectedBy {
    /// Returns the word for the reason: `no_handler`, `handler`, `handler_failed`, `policy`, `cancelled`.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// assert_eq!(kimi_agent::RejectedBy::NoHandler.as_str(), "no_handler");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoHandler => "no_handler",
            Self::Handler => "handler",
            Self::HandlerFailed => "handler_failed",
            Self::Policy => "policy",
            Self::Cancelled => "cancelled",
        }
    }
}

/// An approval that was rejected, in [`PromptResult::rejected`](crate::PromptResult::rejected).
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(result: &kimi_agent::PromptResult) {
///     for rejected in &result.rejected {
///         println!("{}: {}", rejected.description, rejected.by.as_str());
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RejectedApproval {
    /// The tool call that needed the approval; absent if the agent never named the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<ToolCallInfo>,
    /// The action, as the request described it. Above 4 KiB it is cut.
    pub description: String,
    /// The reason.
    pub by: RejectedBy,
    /// Of a rejection by the policy: the reason, as a sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of a rejection by the policy: the part of the call that decided, for example a simple command or a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

/// A handler that failed, in [`PromptResult::handler_failures`](crate::PromptResult::handler_failures).
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(result: &kimi_agent::PromptResult) {
///     for failure in &result.handler_failures {
///         eprintln!("{:?}: {}", failure.handler, failure.message);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HandlerFailure {
    /// The kind of handler, for example `approval` or `tool`.
    pub handler: HandlerKind,
    /// The tool call that the handler was called for. Absent without a tool call, or if the agent never named the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<ToolCallInfo>,
    /// The error. Above 4 KiB it is cut.
    pub message: String,
}

/// A complete tool call, and the length of its arguments as text.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) call: Arc<ToolCallInfo>,
    pub(super) size: usize,
}

impl Known {
    pub(super) fn id(&self) -> &str {
        &self.call.id
    }

    /// A call as a message names it.
    pub(super) fn of_call(call: ToolCallInfo) -> Self {
        let size = call.arguments.as_ref().and_then(|arguments| serde_json::to_string(arguments).ok());
        Self { call: Arc::new(call), size: size.map_or(0, |text| text.len()) }
    }

    /// Makes the call of a program's tool that the agent has not announced.
    pub(super) fn of(request: &ToolCallRequest) -> Self {
        let arguments = request.arguments.as_deref().map_or_else(|| Some(Map::new()), parsed_object);
        let (id, name) = (request.id.clone(), request.name.clone());
        let call = ToolCallInfo { id, name, arguments, ..ToolCallInfo::default() };
        Self { call: Arc::new(call), size: request.arguments.as_ref().map_or(0, String::len) }
    }
}

#[derive(Debug)]
struct OpenCall {
    name: String,
    /// `None` if the agent has sent no arguments.
    arguments: Option<String>,
    too_large: bool,
    /// Made when it is first needed.
    known: Option<Known>,
    /// When the last piece of the arguments came.
    complete: Instant,
    /// Its place in the turn's record.
    record: Option<usize>,
    /// Another call of this id was open when it began: a request that names the id can be about either.
    is_ambiguous: bool,
}

/// The calls of the turn's own agent, or of one subagent.
#[derive(Debug, Default)]
struct Stream {
    open: HashMap<String, OpenCall>,
    /// The call that further pieces of arguments belong to.
    last: Option<String>,
}

/// The tool calls that have no result yet.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    /// By agent. The turn's own agent is the empty string.
    streams: HashMap<String, Stream>,
    open: usize,
    size: usize,
}

/// The tool calls, rejections and failures of a turn, for its outcome.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) tool_calls: Vec<ToolCallRecord>,
    pub(super) rejected: Vec<RejectedApproval>,
    pub(super) handler_failures: Vec<HandlerFailure>,
    kept: usize,
}

/// The context of an event.
pub(super) struct Present<'a> {
    pub(super) kind: &'a dyn Fn(&str) -> Option<ToolKind>,
    pub(super) record: Option<&'a mut Record>,
    /// The number of the turn's tool calls, for budgets.
    pub(super) begun: Option<&'a mut u64>,
    pub(super) now: Instant,
}

impl ToolCalls {
    /// Updates the calls from an event, and adds to the event the call that it is about. Returns by how many bytes the
    /// event has grown.
    pub(super) fn take_in(&mut self, event: &mut Event, present: &mut Present<'_>) -> usize {
        if concerns_tool_calls(event) { self.take_in_of("", event, present) } else { 0 }
    }

    fn take_in_of(&mut self, agent: &str, event: &mut Event, present: &mut Present<'_>) -> usize {
        match event {
            Event::ToolCall(call) => self.begin(agent, call, present),
            Event::ToolCallPart(part) => {
                if let Some(piece) = &part.arguments_part {
                    self.add_piece(agent, piece, present.now);
                }
            }
            Event::ToolResult(result) => {
                let Some((known, complete, place)) = self.end(agent, &result.tool_call_id, present.kind) else {
                    return 0;
                };
                if let (Some(record), Some(place)) = (&mut present.record, place) {
                    let duration = present.now.saturating_duration_since(complete);
                    record.ended(place, &known, &result.return_value, duration);
                }
                result.tool_call = Some(known.call).into();
                return known.size;
            }
            Event::ApprovalRequest(request) => {
                let known = self.find(request.agent_id.as_deref(), &request.tool_call_id, present.kind);
                if let Some(known) = known {
                    request.tool_call = Some(known.call).into();
                    return known.size;
                }
            }
            Event::SubagentEvent(subagent) => {
                let ids = [&subagent.agent_id, &subagent.parent_tool_call_id];
                let id = ids.into_iter().flatten().find(|id| !id.is_empty());
                let id = id.map_or("subagent", String::as_str).to_owned();
                return self.take_in_of(&id, &mut subagent.event, present);
            }
            _ => {}
        }
        0
    }

    fn begin(&mut self, agent: &str, call: &ToolCall, present: &mut Present<'_>) {
        let name = &call.function.name;
        let place = match self.streams.get(agent).and_then(|stream| stream.open.get(&call.id)) {
            // The agent announces the call again.
            Some(open) => open.record,
            None => {
                if let Some(begun) = &mut present.begun {
                    **begun += 1;
                }
                present.record.as_mut().and_then(|record| record.begun(&call.id, name))
            }
        };
        if let (Some(record), Some(place)) = (&mut present.record, place) {
            record.tool_calls[place].name.clone_from(name);
        }
        // A call that is told anew is the same call.
        let before = self.remove(agent, &call.id);
        let is_ambiguous = before.is_some_and(|before| before.is_ambiguous || !call.is_synthesized());
        if self.open >= MAX_OPEN {
            if let Some(stream) = self.streams.get_mut(agent) {
                stream.last = None;
            }
            return;
        }
        let stream = self.streams.entry(agent.to_owned()).or_default();
        stream.last = Some(call.id.clone());
        let open = OpenCall {
            name: name.clone(),
            arguments: None,
            too_large: false,
            known: None,
            complete: present.now,
            record: place,
            is_ambiguous,
        };
        stream.open.insert(call.id.clone(), open);
        self.open += 1;
        if let Some(piece) = &call.function.arguments {
            self.add_piece(agent, piece, present.now);
        }
    }

    fn add_piece(&mut self, agent: &str, piece: &str, now: Instant) {
        let Some(stream) = self.streams.get_mut(agent) else { return };
        let Some(open) = stream.last.as_ref().and_then(|id| stream.open.get_mut(id)) else { return };
        open.complete = now;
        open.known = None;
        if open.too_large {
            return;
        }
        let arguments = open.arguments.get_or_insert_default();
        if arguments.len() + piece.len() > MAX_ARGUMENTS || self.size + piece.len() > MAX_OPEN_ARGUMENTS {
            self.size -= arguments.len();
            open.arguments = None;
            open.too_large = true;
            return;
        }
        self.size += piece.len();
        arguments.push_str(piece);
    }

    fn remove(&mut self, agent: &str, id: &str) -> Option<OpenCall> {
        let stream = self.streams.get_mut(agent)?;
        let open = stream.open.remove(id)?;
        if stream.open.is_empty() {
            self.streams.remove(agent);
        }
        self.open -= 1;
        self.size -= open.arguments.as_ref().map_or(0, String::len);
        Some(open)
    }

    fn end(
        &mut self,
        agent: &str,
        id: &str,
        kind: &dyn Fn(&str) -> Option<ToolKind>,
    ) -> Option<(Known, Instant, Option<usize>)> {
        let mut open = self.remove(agent, id)?;
        let known = open.known(id, kind);
        Some((known, open.complete, open.record))
    }

    /// Returns the open call with this id. `agent` is the subagent that made it, if known. Otherwise the turn's own
    /// agent is preferred; a subagent's call is found if only one has this id.
    pub(super) fn find(
        &mut self,
        agent: Option<&str>,
        id: &str,
        kind: &dyn Fn(&str) -> Option<ToolKind>,
    ) -> Option<Known> {
        let has = |stream: &str| self.streams.get(stream).is_some_and(|stream| stream.open.contains_key(id));
        let stream = match agent.filter(|agent| has(agent)) {
            Some(agent) => agent.to_owned(),
            None if has("") => String::new(),
            None => {
                let mut all = self.streams.iter().filter(|(_, stream)| stream.open.contains_key(id));
                let only = all.next()?.0.clone();
                if all.next().is_some() {
                    return None;
                }
                only
            }
        };
        Some(self.streams.get_mut(&stream)?.open.get_mut(id)?.known(id, kind))
    }

    /// Whether several open calls had this id, so that a request may be about another one than [`ToolCalls::find`] returns.
    pub(super) fn is_ambiguous(&self, id: &str) -> bool {
        let open = self.streams.values().filter_map(|stream| stream.open.get(id));
        open.clone().count() > 1 || open.into_iter().any(|call| call.is_ambiguous)
    }

    /// Removes the calls, because the turn or the replay has ended. Calls without a result stay unfinished in the
    /// record.
    pub(super) fn clear(&mut self, mut record: Option<&mut Record>) {
        for stream in std::mem::take(&mut self.streams).into_values() {
            for (id, mut open) in stream.open {
                if let (Some(record), Some(place)) = (&mut record, open.record) {
                    let known = open.known(&id, &|_| None);
                    record.keep_arguments(place, &known);
                }
            }
        }
        *self = Self::default();
    }
}

impl OpenCall {
    fn known(&mut self, id: &str, kind: &dyn Fn(&str) -> Option<ToolKind>) -> Known {
        if let Some(known) = &self.known {
            return known.clone();
        }
        let arguments = match self.arguments.as_deref() {
            _ if self.too_large => None,
            None => Some(Map::new()),
            Some(text) => parsed_object(text),
        };
        let call = Arc::new(ToolCallInfo {
            id: id.to_owned(),
            name: self.name.clone(),
            arguments,
            kind: kind(id),
            ..ToolCallInfo::default()
        });
        let size = self.arguments.as_ref().map_or(0, String::len);
        self.known.insert(Known { call, size }).clone()
    }
}

impl Record {
    /// Adds a call that began. Returns its place.
    fn begun(&mut self, id: &str, name: &str) -> Option<usize> {
        if self.tool_calls.len() >= MAX_CALLS {
            return None;
        }
        self.tool_calls.push(ToolCallRecord {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: None,
            output: None,
            is_error: None,
            duration: None,
        });
        Some(self.tool_calls.len() - 1)
    }

    fn ended(&mut self, place: usize, known: &Known, value: &ToolReturnValue, duration: Duration) {
        self.keep_arguments(place, known);
        let output = self.keep_output(value);
        let call = &mut self.tool_calls[place];
        call.output = Some(output);
        call.is_error = Some(value.is_error);
        call.duration = Some(duration);
    }

    fn keep_arguments(&mut self, place: usize, known: &Known) {
        if self.take_room(known.size) {
            self.tool_calls[place].arguments.clone_from(&known.call.arguments);
        }
    }

    fn take_room(&mut self, size: usize) -> bool {
        let fits = size <= MAX_KEPT - self.kept;
        if fits {
            self.kept += size;
        }
        fits
    }

    fn keep_output(&mut self, value: &ToolReturnValue) -> Content {
        let room = MAX_OUTPUT.min(MAX_KEPT - self.kept);
        let output = match &value.output {
            Content::Text(text) if text.is_empty() => cut([&*value.message], room, 0).into(),
            Content::Text(text) => cut([&**text], room, 0).into(),
            Content::Parts(parts) => {
                let texts = || {
                    parts
                        .iter()
                        .filter_map(|part| if let ContentPart::Text(part) = part { Some(&*part.text) } else { None })
                };
                let size: usize = parts.iter().map(part_size).sum();
                if size <= room {
                    self.kept += size;
                    return value.output.clone();
                }
                let others = size - texts().map(str::len).sum::<usize>();
                cut(texts(), room, others).into()
            }
        };
        if let Content::Text(text) = &output {
            self.kept += text.len().min(room);
        }
        output
    }

    fn keep_call(&mut self, known: Option<Known>) -> Option<ToolCallInfo> {
        let Known { call, size } = known?;
        let fits = self.take_room(size);
        Some(ToolCallInfo { arguments: call.arguments.clone().filter(|_| fits), ..ToolCallInfo::clone(&call) })
    }

    /// Adds an approval that was rejected.
    pub(super) fn rejected(&mut self, known: Option<Known>, description: String, by: RejectedBy) {
        if self.rejected.len() < MAX_REPORTS {
            let tool_call = self.keep_call(known);
            self.rejected.push(RejectedApproval { tool_call, description, by, reason: None, part: None });
        }
    }

    /// Adds a call that the policy denied.
    pub(super) fn denied(&mut self, known: Known, description: &str, decision: &PolicyDecision) {
        if self.rejected.len() < MAX_REPORTS {
            self.rejected(Some(known), short(description), RejectedBy::Policy);
            if let Some(rejected) = self.rejected.last_mut() {
                rejected.reason = decision.reason.as_deref().map(short);
                rejected.part = decision.part.as_deref().map(short);
            }
        }
    }

    /// Adds a handler that failed.
    pub(super) fn failed(&mut self, handler: HandlerKind, known: Option<Known>, message: &str) {
        if self.handler_failures.len() < MAX_REPORTS {
            let tool_call = self.keep_call(known);
            self.handler_failures.push(HandlerFailure { handler, tool_call, message: short(message) });
        }
    }
}

fn concerns_tool_calls(event: &Event) -> bool {
    match event {
        Event::ToolCall(_) | Event::ToolCallPart(_) | Event::ToolResult(_) | Event::ApprovalRequest(_) => true,
        Event::SubagentEvent(subagent) => concerns_tool_calls(&subagent.event),
        _ => false,
    }
}

/// Cuts a description or an error's text to the limit of an outcome.
pub(super) fn short(text: &str) -> String {
    cut([text], MAX_TEXT, 0)
}

/// Returns the beginning of a text that comes in pieces. `more` is the number of further bytes that are left out.
fn cut<'a>(pieces: impl IntoIterator<Item = &'a str>, room: usize, more: usize) -> String {
    let (mut text, mut left_out) = (String::new(), more);
    for piece in pieces {
        let fits = if left_out == more { room - text.len() } else { 0 };
        let end = (0..=fits.min(piece.len())).rev().find(|&at| piece.is_char_boundary(at)).unwrap_or(0);
        text.push_str(&piece[..end]);
        left_out += piece.len() - end;
    }
    if left_out > 0 {
        text.push_str(&format!("\n[… {left_out} more bytes]"));
    }
    text
}

/// Returns the approximate size of a part in memory.
fn part_size(part: &ContentPart) -> usize {
    match part {
        ContentPart::Text(part) => part.text.len(),
        ContentPart::Think(part) => part.think.len() + part.encrypted.as_ref().map_or(0, String::len),
        ContentPart::ImageUrl(part) => part.image_url.url.len(),
        ContentPart::AudioUrl(part) => part.audio_url.url.len(),
        ContentPart::VideoUrl(part) => part.video_url.url.len(),
        other => serde_json::to_string(other).map_or(0, |json| json.len()),
    }
}
