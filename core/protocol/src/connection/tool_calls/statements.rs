//! The descriptions of a call that the agent has sent: the newest, and earlier ones that differ from it.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{MAX_EARLIER, OpenCall, Stream, ToolCalls};
use crate::dialect::CallDetails;
use crate::json::parsed_object;
use crate::jsonrpc::framing::{decoded_size, has_more_values};
use crate::jsonrpc::relayed::has_repeated_names;
use crate::messages::{ToolCallInfo, ToolCallRequest};

/// The limit of values in the arguments of one call. They are left out if they have more: each request about the call would take
/// their memory and the time to convert them. Rules decide about fewer.
const MAX_ARGUMENT_VALUES: usize = 1 << 16;

/// Returns the arguments of a call. `None` if they are not an object, or have too many values.
pub(super) fn object(arguments: &str) -> Option<Map<String, Value>> {
    Some(arguments).filter(|text| !has_more_values(text.as_bytes(), MAX_ARGUMENT_VALUES)).and_then(parsed_object)
}

/// A complete tool call, and the size of its arguments.
#[derive(Clone, Debug)]
pub(in super::super) struct Known {
    pub(in super::super) call: Arc<ToolCallInfo>,
    pub(in super::super) size: usize,
}

impl Known {
    pub(in super::super) fn id(&self) -> &str {
        &self.call.id
    }

    /// A call as a message names it.
    pub(in super::super) fn of_call(call: ToolCallInfo) -> Self {
        let text = call.arguments.as_ref().and_then(|arguments| serde_json::to_string(arguments).ok());
        Self { call: Arc::new(call), size: text.map_or(0, |text| decoded_size(text.as_bytes())) }
    }

    /// Makes the call of a program's tool that the agent has not announced.
    pub(in super::super) fn of(request: &ToolCallRequest) -> Self {
        let arguments = request.arguments.as_deref().map_or_else(|| Some(Map::new()), object);
        let (id, name) = (request.id.clone(), request.name.clone());
        let call = ToolCallInfo { id, name, arguments, ..ToolCallInfo::default() };
        Self {
            call: Arc::new(call),
            size: request.arguments.as_deref().map_or(0, |text| decoded_size(text.as_bytes())),
        }
    }
}

/// A call as the agent described it before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Earlier {
    pub(super) name: String,
    /// `None` if they are not known.
    pub(super) arguments: Option<String>,
}

impl Earlier {
    /// Whether a later description only adds to this one.
    pub(super) fn is_completed_by(&self, newest: &OpenCall) -> bool {
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

    pub(super) fn size(&self) -> usize {
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
pub(super) fn compact(text: &str) -> String {
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
pub(in super::super) struct Statements {
    /// The newest. `None` if the agent never named the call.
    pub(in super::super) newest: Option<Known>,
    pub(in super::super) earlier: Vec<ToolCallInfo>,
    /// There is more than `earlier` holds.
    pub(in super::super) is_incomplete: bool,
    /// The request is one of a subagent that has no such call, so they are about the call of another.
    pub(in super::super) is_of_other: bool,
    /// The call is one of a subagent that works in another directory.
    pub(in super::super) is_elsewhere: bool,
}

impl ToolCalls {
    /// Returns the open call with this id, as the agent described it last. `agent` is the subagent that made it, if known.
    /// Otherwise the turn's own agent is preferred; a subagent's call is found if only one has this id.
    pub(in super::super) fn find(
        &mut self,
        agent: Option<&str>,
        id: &str,
        details: &dyn Fn(&str) -> CallDetails,
    ) -> Option<Known> {
        self.statements(agent, id, details).newest
    }

    /// Returns all descriptions of the open calls with this id that a request can be about.
    pub(in super::super) fn statements(
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
        let mut all = Statements { newest: None, earlier: Vec::new(), is_incomplete, is_of_other, is_elsewhere: false };
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
        all.is_elsewhere = details.is_elsewhere;
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

    /// Whether the arguments of a call with this id have begun, and are not complete.
    pub(in super::super) fn has_begun_arguments(&mut self, id: &str) -> bool {
        let mut open = self.streams.values_mut().filter_map(|stream| stream.open.get_mut(id));
        open.any(|call| {
            let has_text = call.arguments.as_deref().is_some_and(|text| !text.trim().is_empty());
            has_text && call.known(id).call.arguments.is_none()
        })
    }

    /// Whether the agent described the calls of this id in several ways, so that a request may be about another call than
    /// [`ToolCalls::find`] returns.
    pub(in super::super) fn is_ambiguous(&self, id: &str) -> bool {
        let open = self.streams.values().filter_map(|stream| stream.open.get(id));
        let differs =
            |call: &OpenCall| call.is_incomplete || call.earlier.iter().any(|earlier| !earlier.is_completed_by(call));
        open.clone().count() > 1 || open.into_iter().any(differs)
    }
}

impl OpenCall {
    pub(super) fn known(&mut self, id: &str) -> Known {
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
