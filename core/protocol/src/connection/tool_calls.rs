//! Tool calls, merged from the pieces that the agent sends. Requests, results and the outcome of the turn refer to
//! them. The memory is bounded, however much an agent sends.

mod early;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use self::early::EarlyResults;
pub(crate) use self::early::{EARLIER_TURN, LATE, is_late};
use self::record::cut;
pub use self::record::{HandlerFailure, RejectedApproval, RejectedBy, ToolCallRecord};
pub(super) use self::record::{Record, short};
use self::statements::Earlier;
pub(super) use self::statements::{Known, Statements};
use crate::dialect::CallDetails;
use crate::jsonrpc::framing::decoded_size;
use crate::messages::{Event, ToolCall, ToolResult};

mod record;
mod statements;

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

/// The calls of the turn's own agent, or of one subagent.
#[derive(Debug, Default)]
struct Stream {
    open: BTreeMap<String, OpenCall>,
    /// The call that further pieces of arguments belong to.
    last: Option<String>,
}

/// The tool calls that have no result yet.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    /// By agent. The turn's own agent is the empty string.
    streams: BTreeMap<String, Stream>,
    early: EarlyResults,
    open: usize,
    size: usize,
}

/// The context of an event.
pub(super) struct Present<'a> {
    pub(super) details: &'a dyn Fn(&str) -> CallDetails,
    pub(super) record: Option<&'a mut Record>,
    /// The number of the turn's tool calls, for budgets.
    pub(super) begun: Option<&'a mut u64>,
    pub(super) now: Instant,
    /// Whether the message has a member twice, of which the SDK knows one.
    pub(super) is_unclear: bool,
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
                let last = self.streams.get(agent).and_then(|stream| stream.last.clone());
                if let Some(id) = last.filter(|_| present.is_unclear) {
                    self.set_incomplete(&id);
                }
            }
            // The pieces that follow do not belong to the call before it.
            Event::Unknown(_) => self.continue_with(agent, None),
            Event::ToolResult(result) => {
                let Some((known, complete, place)) = self.end(agent, &result.tool_call_id, present.details) else {
                    if let Some(record) = present.record.as_deref().filter(|_| !is_unfinished(result)) {
                        self.early.keep(agent, result, record);
                    }
                    return 0;
                };
                self.early.forget(agent, &result.tool_call_id);
                if let (Some(record), Some(place)) = (&mut present.record, place) {
                    let duration = present.now.saturating_duration_since(complete);
                    let end = (!is_unfinished(result)).then_some((result.return_value.is_error, duration));
                    record.ended(place, &known, &result.return_value, end);
                }
                result.tool_call = Some(known.call).into();
                return known.size;
            }
            Event::ApprovalRequest(request) => {
                if present.is_unclear {
                    self.set_incomplete(&request.tool_call_id);
                }
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
        if is_late(call) {
            if let Some(record) = &mut present.record {
                record.complete(call);
            }
            return;
        }
        let name = &call.function.name;
        let place = match self.streams.get(agent).and_then(|stream| stream.open.get(&call.id)) {
            // The agent announces the call again.
            Some(open) => open.record,
            None => {
                if let Some(begun) = &mut present.begun
                    && call.extra.get(EARLIER_TURN).is_none()
                {
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
        is_incomplete |= name != call.function.name || present.is_unclear;
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

    /// Notes that the agent has said more about the calls of this id than is known.
    fn set_incomplete(&mut self, id: &str) {
        self.streams
            .values_mut()
            .filter_map(|stream| stream.open.get_mut(id))
            .for_each(|open| open.is_incomplete = true);
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

    /// Removes the calls, because the turn or the replay has ended. Calls without a result stay unfinished in the
    /// record.
    pub(super) fn clear(&mut self, mut record: Option<&mut Record>) {
        for (agent, stream) in std::mem::take(&mut self.streams) {
            for (id, mut open) in stream.open {
                if let (Some(record), Some(place)) = (&mut record, open.record)
                    && !self.early.end(&agent, &id, &mut open, record)
                {
                    let known = open.known(&id);
                    record.keep_arguments(place, &known);
                }
            }
        }
        *self = Self::default();
    }
}

/// Returns whether the call of a result has not ended with its turn.
pub(super) fn is_unfinished(result: &ToolResult) -> bool {
    result.extra.get("synthesized").is_some()
}

pub(super) fn concerns_tool_calls(event: &Event) -> bool {
    match event {
        Event::ToolCall(_)
        | Event::ToolCallPart(_)
        | Event::ToolResult(_)
        | Event::ApprovalRequest(_)
        | Event::ToolCallRequest(_) => true,
        Event::Unknown(unknown) => unknown.kind == "ToolCall",
        Event::SubagentEvent(subagent) => concerns_tool_calls(&subagent.event),
        _ => false,
    }
}
