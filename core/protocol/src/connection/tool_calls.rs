//! Tool calls, merged from the pieces that the agent sends. Requests, results and the outcome of the turn refer to
//! them. The memory is bounded, however much an agent sends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::dialect::CallDetails;
use crate::json::parsed_object;
use crate::jsonrpc::framing::{decoded_size, has_more_values};
use crate::jsonrpc::relayed::has_repeated_names;
use crate::messages::{
    Content, ContentPart, Event, HandlerKind, PolicyDecision, ToolCall, ToolCallInfo, ToolCallRequest, ToolResult,
    ToolReturnValue,
};
use crate::telemetry::cut_at;

/// The limit of descriptions of a call that differ from its newest one.
const MAX_EARLIER: usize = 8;
/// The limit of an id that is remembered, in bytes. A call with a longer one is not added to requests and results.
pub(super) const MAX_ID: usize = 4 << 10;
/// The limit of a name that is remembered of an open call, in bytes. A longer one is cut, and rules ask about the call.
const MAX_NAME: usize = 64 << 10;
/// The limit of open calls. Further calls are not added to requests and results.
const MAX_OPEN: usize = 1024;
/// The limit of the arguments of one call, and of all open calls together with their names and ids, in bytes. Larger arguments
/// are left out.
const MAX_ARGUMENTS: usize = 1 << 20;
const MAX_OPEN_ARGUMENTS: usize = 16 << 20;
/// The limit of values in the arguments of one call. They are left out if they have more: each request about the call would take
/// their memory and the time to convert them. Rules decide about fewer.
const MAX_ARGUMENT_VALUES: usize = 1 << 16;
/// The limit of calls in an outcome, and of rejections and failures.
const MAX_CALLS: usize = 10_000;
const MAX_REPORTS: usize = 1000;
/// The limit of one output in an outcome, and of all arguments and outputs together, in bytes.
const MAX_OUTPUT: usize = 256 << 10;
const MAX_KEPT: usize = 4 << 20;
/// The limit of all ids, names, paths, descriptions and errors' texts in an outcome, in bytes.
const MAX_DESCRIBED: usize = 8 << 20;
/// The limit of a name, a description or an error's text in an outcome, in bytes.
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
    /// The tool's output; of a result without output, its message. If the turn ended before the call did, it is what the call had
    /// shown, or absent. An output above 256 KiB is cut, and ends with a line that says so: `[… 123 more bytes]`.
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
    /// The action, as the request described it. For a call that was denied before the agent asked: the model's description of
    /// the command, the command, or the name of the tool. Above 4 KiB it is cut.
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

/// Returns the arguments of a call. `None` if they are not an object, or have too many values.
fn object(arguments: &str) -> Option<Map<String, Value>> {
    Some(arguments).filter(|text| !has_more_values(text.as_bytes(), MAX_ARGUMENT_VALUES)).and_then(parsed_object)
}

/// A complete tool call, and the size of its arguments.
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
        let text = call.arguments.as_ref().and_then(|arguments| serde_json::to_string(arguments).ok());
        Self { call: Arc::new(call), size: text.map_or(0, |text| decoded_size(text.as_bytes())) }
    }

    /// Makes the call of a program's tool that the agent has not announced.
    pub(super) fn of(request: &ToolCallRequest) -> Self {
        let arguments = request.arguments.as_deref().map_or_else(|| Some(Map::new()), object);
        let (id, name) = (request.id.clone(), request.name.clone());
        let call = ToolCallInfo { id, name, arguments, ..ToolCallInfo::default() };
        Self {
            call: Arc::new(call),
            size: request.arguments.as_deref().map_or(0, |text| decoded_size(text.as_bytes())),
        }
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
    /// What the agent said about this id before, oldest first: another call that was open, or other arguments.
    earlier: Vec<Earlier>,
    /// There is more than `earlier` holds.
    is_incomplete: bool,
}

/// A call as the agent described it before.
#[derive(Debug, PartialEq, Eq)]
struct Earlier {
    name: String,
    /// `None` if they are not known.
    arguments: Option<String>,
}

impl Earlier {
    /// Whether a later description only adds to this one.
    fn is_completed_by(&self, newest: &OpenCall) -> bool {
        if self.name != newest.name && !self.name.is_empty() {
            return false;
        }
        let Some(arguments) = self.arguments.as_deref().filter(|_| !newest.too_large) else { return false };
        let later = newest.arguments.as_deref().unwrap_or_default();
        if compact(later).starts_with(&compact(arguments)) {
            return true;
        }
        object(arguments)
            .zip(object(later))
            .is_some_and(|(before, later)| before.iter().all(|(name, value)| later.get(name) == Some(value)))
    }

    fn size(&self) -> usize {
        self.name.len() + self.arguments.as_ref().map_or(0, String::len)
    }

    fn call(&self, id: &str) -> ToolCallInfo {
        let arguments = match self.arguments.as_deref() {
            Some("") => Some(Map::new()),
            text => text.and_then(object),
        };
        ToolCallInfo { id: id.to_owned(), name: self.name.clone(), arguments, ..ToolCallInfo::default() }
    }
}

/// Returns JSON text without the spaces between its tokens. The text may be incomplete.
fn compact(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let mut kept = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            ' ' | '\t' | '\n' | '\r' if !in_string => continue,
            _ => {}
        }
        kept.push(c);
    }
    kept
}

/// What the agent has said about a call: the newest, and what differs from it. All of it must be allowed.
#[derive(Debug)]
pub(super) struct Statements {
    /// The newest. `None` if the agent never named the call.
    pub(super) newest: Option<Known>,
    pub(super) earlier: Vec<ToolCallInfo>,
    /// There is more than `earlier` holds.
    pub(super) is_incomplete: bool,
    /// The request is one of a subagent that has no such call, so they are about the call of another.
    pub(super) is_of_other: bool,
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
    described: usize,
    /// Whether the log says that the outcome is incomplete.
    is_full: bool,
}

/// The context of an event.
pub(super) struct Present<'a> {
    pub(super) details: &'a dyn Fn(&str) -> CallDetails,
    pub(super) record: Option<&'a mut Record>,
    /// The number of the turn's tool calls, for budgets.
    pub(super) begun: Option<&'a mut u64>,
    pub(super) now: Instant,
}

impl ToolCalls {
    /// Returns the names of at most `limit` calls without a result, the oldest first, and how many others there are.
    pub(super) fn running(&self, limit: usize) -> (Vec<&str>, usize) {
        let mut calls: Vec<_> = self.streams.values().flat_map(|stream| stream.open.values()).collect();
        calls.sort_unstable_by(|a, b| (a.complete, &a.name).cmp(&(b.complete, &b.name)));
        let hidden = calls.len().saturating_sub(limit);
        (calls.into_iter().take(limit).map(|call| call.name.as_str()).collect(), hidden)
    }

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
                let Some((known, complete, place)) = self.end(agent, &result.tool_call_id, present.details) else {
                    return 0;
                };
                if let (Some(record), Some(place)) = (&mut present.record, place) {
                    let duration = present.now.saturating_duration_since(complete);
                    let end = (!is_unfinished(result)).then_some((result.return_value.is_error, duration));
                    record.ended(place, &known, &result.return_value, end);
                }
                result.tool_call = Some(known.call).into();
                return known.size;
            }
            Event::ApprovalRequest(request) => {
                let known = self.find(request.agent_id.as_deref(), &request.tool_call_id, present.details);
                if let Some(known) = known {
                    request.tool_call = Some(known.call).into();
                    return known.size;
                }
            }
            // Its handler gets them decoded.
            Event::ToolCallRequest(request) => {
                let text = request.arguments.as_deref();
                return text.map_or(0, |text| decoded_size(text.as_bytes()) - text.len());
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
            record.rename(place, name);
        }
        // It may be the same call with other data, or another call with the same id.
        let (mut earlier, mut is_incomplete) = (Vec::new(), false);
        if let Some(before) = self.remove(agent, &call.id) {
            let arguments = if before.too_large { None } else { Some(before.arguments.unwrap_or_default()) };
            (earlier, is_incomplete) = (before.earlier, before.is_incomplete);
            let size = arguments.as_ref().map_or(0, String::len);
            let held: usize = earlier.iter().map(Earlier::size).sum();
            let statement = Earlier { name: before.name, arguments };
            if earlier.contains(&statement) {
                // It has been said before.
            } else if earlier.len() < MAX_EARLIER && self.size + held + size <= MAX_OPEN_ARGUMENTS {
                earlier.push(statement);
            } else {
                is_incomplete = true;
            }
        }
        let name = if name.len() > MAX_NAME { cut([&**name], MAX_NAME, 0) } else { name.clone() };
        is_incomplete |= name != call.function.name;
        let size = call.id.len() + name.len() + earlier.iter().map(Earlier::size).sum::<usize>();
        let is_long = call.id.len().max(agent.len()) > MAX_ID;
        if self.open >= MAX_OPEN || self.size + size > MAX_OPEN_ARGUMENTS || is_long {
            if let Some(stream) = self.streams.get_mut(agent) {
                stream.last = None;
            }
            return;
        }
        let stream = self.streams.entry(agent.to_owned()).or_default();
        stream.last = Some(call.id.clone());
        let open = OpenCall {
            name,
            arguments: None,
            too_large: false,
            known: None,
            complete: present.now,
            record: place,
            earlier,
            is_incomplete,
        };
        self.size += size;
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
        self.size -= open.arguments.as_ref().map_or(0, String::len) + id.len() + open.name.len();
        self.size -= open.earlier.iter().map(Earlier::size).sum::<usize>();
        Some(open)
    }

    fn end(
        &mut self,
        agent: &str,
        id: &str,
        details: &dyn Fn(&str) -> CallDetails,
    ) -> Option<(Known, Instant, Option<usize>)> {
        let mut open = self.remove(agent, id)?;
        let mut known = open.known(id);
        let details = details(id);
        let paths = |newest: Vec<String>, earlier: Vec<String>| {
            Some([newest, earlier].concat()).filter(|paths| !paths.is_empty())
        };
        let is_other = |earlier: &Earlier| !earlier.is_completed_by(&open);
        let is_changed = !details.earlier_kinds.is_empty()
            || details.title.is_some()
            || details.is_incomplete
            || open.is_incomplete
            || open.earlier.iter().any(is_other);
        let call = Arc::make_mut(&mut known.call);
        call.kind = details.kind.or(call.kind.take());
        call.locations = paths(details.locations, details.earlier_locations);
        call.diffs = paths(details.diffs, details.earlier_diffs);
        call.changed = is_changed.then_some(true);
        Some((known, open.complete, open.record))
    }

    /// Returns the open call with this id, as the agent described it last. `agent` is the subagent that made it, if known.
    /// Otherwise the turn's own agent is preferred; a subagent's call is found if only one has this id.
    pub(super) fn find(
        &mut self,
        agent: Option<&str>,
        id: &str,
        details: &dyn Fn(&str) -> CallDetails,
    ) -> Option<Known> {
        self.statements(agent, id, details).newest
    }

    /// Returns all descriptions of the open calls with this id that a request can be about.
    pub(super) fn statements(
        &mut self,
        agent: Option<&str>,
        id: &str,
        details: &dyn Fn(&str) -> CallDetails,
    ) -> Statements {
        let has = |(_, stream): &(&String, &Stream)| stream.open.contains_key(id);
        let mut streams: Vec<String> = self.streams.iter().filter(has).map(|(name, _)| name.clone()).collect();
        let mut is_of_other = false;
        match agent.filter(|agent| !agent.is_empty()) {
            Some(agent) if streams.iter().any(|stream| stream == agent) => streams = vec![agent.to_owned()],
            Some(_) => is_of_other = !streams.is_empty(),
            None => {}
        }
        streams.sort_unstable();
        let is_clear = streams.len() == 1 || streams.first().is_some_and(String::is_empty);
        let is_incomplete = streams.len() > MAX_EARLIER;
        let mut all = Statements { newest: None, earlier: Vec::new(), is_incomplete, is_of_other };
        let mut newest = None;
        for stream in streams.iter().take(MAX_EARLIER) {
            let Some(open) = self.streams.get_mut(stream).and_then(|stream| stream.open.get_mut(id)) else { continue };
            let known = open.known(id);
            // Programs differ in which of two members with one name they take.
            let is_ambiguous = open.arguments.as_deref().is_some_and(has_repeated_names);
            all.is_incomplete |= open.is_incomplete || is_ambiguous;
            let others = open.earlier.iter().filter(|earlier| !earlier.is_completed_by(open));
            all.earlier.extend(others.map(|earlier| earlier.call(id)));
            match newest {
                None if is_clear => newest = Some(known),
                _ => all.earlier.push(ToolCallInfo::clone(&known.call)),
            }
        }
        let Some(mut known) = newest else { return all };
        let details = details(id);
        let is_changed = details.is_changed();
        all.is_incomplete |= details.is_incomplete;
        let call = Arc::make_mut(&mut known.call);
        let paths = |paths: Vec<String>| Some(paths).filter(|paths| !paths.is_empty());
        call.kind = details.kind;
        all.earlier.iter_mut().for_each(|earlier| earlier.kind.clone_from(&call.kind));
        for kind in details.earlier_kinds {
            all.earlier.push(ToolCallInfo { kind: Some(kind), ..call.clone() });
        }
        if !details.earlier_locations.is_empty() || !details.earlier_diffs.is_empty() {
            let (locations, diffs) = (paths(details.earlier_locations), paths(details.earlier_diffs));
            all.earlier.push(ToolCallInfo { locations, diffs, ..call.clone() });
        }
        if let Some(title) = details.title {
            all.earlier.push(ToolCallInfo { name: title, arguments: None, ..call.clone() });
        }
        (call.locations, call.diffs) = (paths(details.locations), paths(details.diffs));
        call.changed = (is_changed || all.is_incomplete || !all.earlier.is_empty()).then_some(true);
        all.newest = Some(known);
        all
    }

    /// Takes in a call of a subagent anew, as a request describes it. Returns whether the subagent has the call.
    pub(super) fn restate(&mut self, agent: &str, call: &ToolCall, present: &mut Present<'_>) -> bool {
        let stream = self.streams.get(agent).filter(|stream| stream.open.contains_key(&call.id));
        let Some(last) = stream.map(|stream| stream.last.clone()) else { return false };
        self.begin(agent, call, present);
        self.continue_with(agent, last);
        true
    }

    /// Returns the subagent with an open call of this id, if no other agent has one.
    pub(super) fn only_agent(&self, id: &str) -> Option<String> {
        let mut agents = self.streams.iter().filter(|(_, stream)| stream.open.contains_key(id)).map(|(agent, _)| agent);
        let agent = agents.next().filter(|agent| !agent.is_empty())?;
        agents.next().is_none().then(|| agent.clone())
    }

    /// Returns the call of the turn's own agent that further pieces belong to, if that agent has an open call with this id.
    pub(super) fn last_beside(&self, id: &str) -> Option<Option<String>> {
        self.streams.get("").filter(|stream| stream.open.contains_key(id)).map(|stream| stream.last.clone())
    }

    /// Sets the call that further pieces of arguments belong to.
    pub(super) fn continue_with(&mut self, agent: &str, last: Option<String>) {
        if let Some(stream) = self.streams.get_mut(agent) {
            stream.last = last;
        }
    }

    /// Whether the agent described the calls of this id in several ways, so that a request may be about another call than
    /// [`ToolCalls::find`] returns.
    pub(super) fn is_ambiguous(&self, id: &str) -> bool {
        let open = self.streams.values().filter_map(|stream| stream.open.get(id));
        let differs =
            |call: &OpenCall| call.is_incomplete || call.earlier.iter().any(|earlier| !earlier.is_completed_by(call));
        open.clone().count() > 1 || open.into_iter().any(differs)
    }

    /// Removes the calls, because the turn or the replay has ended. Calls without a result stay unfinished in the
    /// record.
    pub(super) fn clear(&mut self, mut record: Option<&mut Record>) {
        for stream in std::mem::take(&mut self.streams).into_values() {
            for (id, mut open) in stream.open {
                if let (Some(record), Some(place)) = (&mut record, open.record) {
                    let known = open.known(&id);
                    record.keep_arguments(place, &known);
                }
            }
        }
        *self = Self::default();
    }
}

impl OpenCall {
    fn known(&mut self, id: &str) -> Known {
        if let Some(known) = &self.known {
            return known.clone();
        }
        let arguments = match self.arguments.as_deref() {
            _ if self.too_large => None,
            None => Some(Map::new()),
            Some(text) => object(text),
        };
        let size = match &arguments {
            Some(_) => self.arguments.as_deref().map_or(0, |text| decoded_size(text.as_bytes())),
            None => 0,
        };
        let (id, name) = (id.to_owned(), self.name.clone());
        let call = Arc::new(ToolCallInfo { id, name, arguments, ..ToolCallInfo::default() });
        self.known.insert(Known { call, size }).clone()
    }
}

impl Record {
    /// Adds a call that began. Returns its place.
    fn begun(&mut self, id: &str, name: &str) -> Option<usize> {
        if self.tool_calls.len() >= MAX_CALLS {
            return None;
        }
        let (id, name) = (short(id), short(name));
        if !self.takes_description(id.len() + name.len()) {
            return None;
        }
        self.tool_calls.push(ToolCallRecord {
            id,
            name,
            arguments: None,
            output: None,
            is_error: None,
            duration: None,
        });
        Some(self.tool_calls.len() - 1)
    }

    fn rename(&mut self, place: usize, name: &str) {
        if self.tool_calls[place].name == name {
            return;
        }
        let name = short(name);
        if self.tool_calls[place].name != name && self.takes_description(name.len()) {
            self.tool_calls[place].name = name;
        }
    }

    /// Counts a description. Returns whether the outcome keeps it.
    fn takes_description(&mut self, size: usize) -> bool {
        let fits = size <= MAX_DESCRIBED - self.described;
        if fits {
            self.described += size;
        } else if !std::mem::replace(&mut self.is_full, true) {
            tracing::warn!(
                limit = MAX_DESCRIBED,
                "the texts of the turn's calls and requests are too large: its result leaves some out"
            );
        }
        fits
    }

    fn ended(&mut self, place: usize, known: &Known, value: &ToolReturnValue, end: Option<(bool, Duration)>) {
        self.keep_arguments(place, known);
        let output = self.keep_output(value);
        let call = &mut self.tool_calls[place];
        call.output = Some(output);
        (call.is_error, call.duration) = end.unzip();
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
        let paths = |call: &ToolCallInfo| -> usize {
            call.locations.iter().chain(&call.diffs).flatten().map(|path| path.len() + size_of::<String>()).sum()
        };
        let (id, name) = (short(&call.id), short(&call.name));
        if !self.takes_description(id.len() + name.len()) {
            return None;
        }
        let (fits, has_paths) = (self.take_room(size), self.takes_description(paths(&call)));
        Some(ToolCallInfo {
            id,
            name,
            arguments: call.arguments.clone().filter(|_| fits),
            kind: call.kind.clone(),
            locations: call.locations.clone().filter(|_| has_paths),
            diffs: call.diffs.clone().filter(|_| has_paths),
            changed: call.changed,
            extra: Default::default(),
        })
    }

    /// Adds an approval that was rejected. The description is short.
    pub(super) fn rejected(&mut self, known: Option<Known>, description: String, by: RejectedBy) -> bool {
        let fits = self.rejected.len() < MAX_REPORTS && self.takes_description(description.len());
        if fits {
            let tool_call = self.keep_call(known);
            self.rejected.push(RejectedApproval { tool_call, description, by, reason: None, part: None });
        }
        fits
    }

    /// Adds a call that the policy denied.
    pub(super) fn denied(&mut self, known: Known, description: &str, decision: &PolicyDecision) {
        if self.rejected(Some(known), short(description), RejectedBy::Policy) {
            let mut kept =
                |text: &Option<String>| text.as_deref().map(short).filter(|text| self.takes_description(text.len()));
            let (reason, part) = (kept(&decision.reason), kept(&decision.part));
            if let Some(rejected) = self.rejected.last_mut() {
                (rejected.reason, rejected.part) = (reason, part);
            }
        }
    }

    /// Adds a handler that failed.
    pub(super) fn failed(&mut self, handler: HandlerKind, known: Option<Known>, message: &str) {
        let message = short(message);
        if self.handler_failures.len() < MAX_REPORTS && self.takes_description(message.len()) {
            let tool_call = self.keep_call(known);
            self.handler_failures.push(HandlerFailure { handler, tool_call, message });
        }
    }
}

/// Returns whether the call of a result has not ended with its turn.
pub(super) fn is_unfinished(result: &ToolResult) -> bool {
    result.extra.get("synthesized").is_some()
}

fn concerns_tool_calls(event: &Event) -> bool {
    match event {
        Event::ToolCall(_)
        | Event::ToolCallPart(_)
        | Event::ToolResult(_)
        | Event::ApprovalRequest(_)
        | Event::ToolCallRequest(_) => true,
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
        let beginning = cut_at(piece, fits);
        text.push_str(beginning);
        left_out += piece.len() - beginning.len();
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
        ContentPart::Resource(part) => {
            [&part.text, &part.data].into_iter().flatten().map(String::len).sum::<usize>() + part.uri.len()
        }
        other => serde_json::to_string(other).map_or(0, |json| json.len()),
    }
}
