//! Sessions of subagents (`subagent_update`). The messages of such a session are read as those of a session of its own, by
//! a dialect of its own, and become events of the subagent. Subagents of subagents are nested.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use agent_client_protocol_schema::v1::{self as acp, ToolCallContent};
use serde_json::{Map, Value, json};

use super::opening::Stage;
use super::{Acp, SessionParams, meta, unknown};
use crate::dialect::{CallDetails, Dialect, Incoming};
use crate::error::{Error, Result};
use crate::json::object;
use crate::jsonrpc::{self, Message};
use crate::messages::{Event, SubagentEvent, TurnBegin, TurnEnd};
use crate::printable::printable_line;

pub(super) const UPDATE: &str = "subagent_update";

/// The limit of subagents of one session, with their own subagents, and of tool calls that refer to a session.
const MAX_CHILDREN: usize = 1024;
/// The limit of an id, and of a title or directory that is remembered, in bytes.
pub(super) const MAX_ID: usize = 4 << 10;
/// The limit of nested subagents.
const MAX_DEPTH: usize = 8;

/// The subagents of a session.
#[derive(Debug, Default)]
pub(super) struct Children {
    all: HashMap<String, Child>,
    /// The tool calls that refer to a session, by the session.
    calls: HashMap<String, String>,
    /// How many sessions are above this one.
    depth: usize,
    /// The tool call of the latest request of a subagent, and the subagent.
    asking: Option<(String, String)>,
}

#[derive(Debug)]
pub(super) struct Child {
    title: Option<String>,
    state: Option<String>,
    can_cancel: bool,
    /// The ids of its requests, and of those of its own subagents.
    pub(super) asked: Vec<String>,
    acp: Box<Acp>,
}

impl Child {
    fn set_title(&mut self, update: &Map<String, Value>) {
        match update.get("title") {
            Some(Value::String(title)) => self.title = Some(title.clone()).filter(|title| title.len() <= MAX_ID),
            Some(Value::Null) => self.title = None,
            _ => {}
        }
    }

    /// Adopts the state, and returns the event for it. `None` if the turn of the subagent neither begins nor ends.
    /// `results` gets the results of tool calls that have not ended with it.
    fn set_state(&mut self, update: &Map<String, Value>, results: &mut Vec<Event>) -> Option<Event> {
        let state = match update.get("state")? {
            Value::Null => {
                self.state = None;
                return None;
            }
            state => state,
        };
        let word = state.get("state")?.as_str()?;
        self.state = Some(word.to_owned()).filter(|word| word.len() <= MAX_ID);
        match word {
            "running" if !self.acp.prompting => {
                self.acp.begin_turn();
                let task = update.get("description").and_then(Value::as_str).or(self.title.as_deref());
                let user_input = task.unwrap_or_default().into();
                Some(TurnBegin { user_input, synthesized: Some(true), extra: Default::default() }.into())
            }
            "idle" if self.acp.prompting => {
                self.acp.end_turn();
                let reason = state.get("stopReason").and_then(Value::as_str);
                let is_failure = reason.is_none_or(|reason| reason != "end_turn");
                results.extend(self.acp.tools.unfinished(is_failure).into_iter().map(|(event, _)| event));
                self.acp.tools.clear();
                self.asked.clear();
                let mut end = TurnEnd { synthesized: Some(true), extra: Default::default() };
                if let Some(reason) = state.get("stopReason").filter(|reason| reason.is_string()) {
                    end.extra.insert("stop_reason", reason.clone());
                }
                if let Some(error) = state.get("error").filter(|error| error.is_object()) {
                    end.extra.insert("error", error.clone());
                }
                Some(end.into())
            }
            _ => None,
        }
    }
}

impl Acp {
    fn family(&mut self) -> &mut Children {
        self.children.get_or_insert_default()
    }

    /// Returns the subagent of this session that a message concerns, or whose own subagents it concerns.
    pub(super) fn child_of(&self, message: &Message<'_>) -> Option<String> {
        self.children.as_ref()?;
        let (Message::Request { params, .. } | Message::Notification { params, .. }) = message else { return None };
        let session = params.id("sessionId").ok()?;
        self.child_with(&session).map(str::to_owned)
    }

    /// Returns whether this is the session of a subagent.
    pub(super) fn is_subagent(&self) -> bool {
        self.children.as_ref().is_some_and(|family| family.depth > 0)
    }

    fn is_named(&self, session: &str) -> bool {
        self.session.as_ref().is_some_and(|ours| &*ours.0 == session)
    }

    /// Returns the subagent with this session, or the subagent above it.
    pub(super) fn child_with(&self, session: &str) -> Option<&str> {
        let is_above = |(id, child): &(&String, &Child)| *id == session || child.acp.child_with(session).is_some();
        self.children.as_ref()?.all.iter().find(is_above).map(|(id, _)| &**id)
    }

    /// Reads a message of a subagent. `session` is a subagent of this session.
    pub(super) fn read_of_child(&mut self, session: &str, message: Message<'_>) -> Incoming {
        let Some(mut child) = self.family().all.remove(session) else { return Incoming::Batch(Vec::new()) };
        let incoming = child.acp.read(message);
        let mut open: Vec<_> = child.acp.open.drain().collect();
        open.sort_by_key(|(_, request)| request.order);
        for (rpc_id, mut request) in open {
            // The answers are written by the dialect of the main session.
            request.order = self.next_order();
            request.of_turn &= self.prompting;
            if child.asked.len() >= 2 * MAX_CHILDREN {
                child.asked.retain(|rpc_id| self.open.contains_key(rpc_id));
            }
            child.asked.push(rpc_id.clone());
            self.open.insert(rpc_id, request);
        }
        let mut all = Vec::new();
        self.nest(session, &child, incoming, &mut all);
        self.family().all.insert(session.to_owned(), child);
        Incoming::batch(all)
    }

    /// Makes what a subagent reports an event of this session.
    fn nest(&mut self, session: &str, child: &Child, incoming: Incoming, all: &mut Vec<Incoming>) {
        match incoming {
            Incoming::Event(event) | Incoming::OutOfTurn(event) => {
                self.subagent_event(session, child, *event, None, all)
            }
            Incoming::Batch(list) => list.into_iter().for_each(|each| self.nest(session, child, each, all)),
            // They concern the session of the subagent only.
            Incoming::Commands(_) | Incoming::ConfigOptions(_) => {}
            Incoming::Request { rpc_id, mut request } => {
                self.name_parents(session, child, &mut request);
                self.begin_step(all);
                all.push(Incoming::Request { rpc_id, request });
            }
            Incoming::Choice { rpc_id, mut question, approval } => {
                self.name_parents(session, child, &mut question);
                let mut approval = Event::from(*approval);
                self.name_parents(session, child, &mut approval);
                self.begin_step(all);
                if let Event::ApprovalRequest(approval) = approval {
                    all.push(Incoming::Choice { rpc_id, question, approval: Box::new(approval) });
                }
            }
            other => all.push(other),
        }
    }

    fn subagent_event(
        &mut self,
        session: &str,
        child: &Child,
        event: Event,
        meta: Option<acp::Meta>,
        all: &mut Vec<Incoming>,
    ) {
        if self.is_past() {
            return;
        }
        let mut wrapped = SubagentEvent {
            parent_tool_call_id: self.family().calls.get(session).cloned(),
            agent_id: Some(session.to_owned()),
            subagent_type: None,
            session_id: Some(session.to_owned()),
            title: child.title.clone(),
            state: child.state.clone(),
            event: Box::new(event),
            extra: Default::default(),
        };
        meta::put(&mut wrapped.extra, meta);
        if self.prompting {
            self.begin_step(all);
            all.push(Incoming::event(wrapped));
        } else {
            // The subagent works in the background.
            all.push(Incoming::out_of_turn(wrapped));
        }
    }

    /// Adds to a request which subagent asks, and the sessions above it, the outermost first.
    fn name_parents(&mut self, session: &str, child: &Child, request: &mut Event) {
        if let Event::ApprovalRequest(approval) = request {
            if approval.agent_id.is_none() {
                approval.agent_id = Some(session.to_owned());
                approval.source_description.clone_from(&child.title);
            }
            self.family().asking = Some((approval.tool_call_id.clone(), session.to_owned()));
        }
        let mut parents = vec![json!({"session_id": self.session})];
        let Some(extra) = meta::extra_of(request) else { return };
        match extra.get("parents").and_then(Value::as_array) {
            // The first of them is this subagent, without its title.
            Some(below) => {
                parents.push(json!({"session_id": session, "title": child.title}));
                parents.extend(below.iter().skip(1).cloned());
            }
            None => extra.insert("session_id", json!(session)),
        }
        extra.insert("parents", json!(parents));
    }

    /// Handles `subagent_update`: the announcement of a subagent of this session, or its new title or state.
    pub(super) fn subagent_updated(&mut self, text: &str, meta: Option<acp::Meta>, all: &mut Vec<Incoming>) {
        let update: Map<String, Value> = match object(text) {
            Ok(update) => update,
            Err(error) => return self.pass_on(UPDATE, text, Some(error.to_string()), all),
        };
        let Some(session) = update.get("sessionId").and_then(Value::as_str).filter(|id| !self.is_named(id)) else {
            let problem = "sessionId: expected the id of another session".to_owned();
            return self.pass_on(UPDATE, text, Some(problem), all);
        };
        if session.len() > MAX_ID {
            let problem = format!("sessionId: expected at most {MAX_ID} bytes");
            return self.pass_on(UPDATE, text, Some(problem), all);
        }
        let subagents = self.tools.kept().subagents.load(Relaxed);
        let family = self.family();
        let is_full = subagents >= MAX_CHILDREN || family.depth >= MAX_DEPTH;
        let mut child = match family.all.remove(session) {
            Some(child) => child,
            None if is_full => {
                if !self.tools.kept().has_ignored.swap(true, Relaxed) {
                    let session = printable_line(session);
                    tracing::warn!(
                        session = &*session,
                        "subagent ignored: too many subagents. Further ones are not logged"
                    );
                }
                return self.pass_on(UPDATE, text, None, all);
            }
            None => {
                self.tools.kept().subagents.fetch_add(1, Relaxed);
                let acp = Box::new(self.dialect_of_child(session));
                Child { title: None, state: None, can_cancel: false, asked: Vec::new(), acp }
            }
        };
        child.set_title(&update);
        if let Some(capabilities) = update.get("capabilities") {
            child.can_cancel = capabilities.get("cancel").is_some_and(Value::is_object);
        }
        if let Some(path) = update.get("cwd").and_then(Value::as_str).filter(|path| path.len() <= MAX_ID).map(Path::new)
            && path.is_absolute()
        {
            child.acp.params.work_dir = path.to_owned();
        }
        let mut results = Vec::new();
        let event = child.set_state(&update, &mut results).unwrap_or_else(|| unknown(UPDATE, text, None));
        for result in results {
            self.subagent_event(session, &child, result, None, all);
        }
        self.subagent_event(session, &child, event, meta, all);
        self.family().all.insert(session.to_owned(), child);
    }

    fn dialect_of_child(&self, session: &str) -> Acp {
        let params = SessionParams { work_dir: self.params.work_dir.clone(), ..SessionParams::default() };
        let depth = self.children.as_ref().map_or(0, |family| family.depth) + 1;
        let children = Some(Box::new(Children { depth, ..Children::default() }));
        Acp {
            stage: Stage::Setting("", Default::default()),
            session: Some(acp::SessionId::new(session)),
            server: self.server.clone().filter(|server| server.name.len() + server.version.len() <= MAX_ID),
            tools: self.tools.of_subagent(),
            services: self.services,
            children,
            ..Acp::new(params)
        }
    }

    /// Notes the sessions that a tool call refers to.
    pub(super) fn note_sessions(&mut self, call: &str, content: &[ToolCallContent]) {
        for item in content {
            if let ToolCallContent::Session(reference) = item
                && self.family().calls.len() < MAX_CHILDREN
                && reference.session_id.0.len().max(call.len()) <= MAX_ID
            {
                self.family().calls.insert(reference.session_id.0.to_string(), call.to_owned());
            }
        }
    }

    /// Returns the details of a tool call of a subagent, if one has it.
    pub(super) fn details_in_children(&self, call: &str) -> Option<CallDetails> {
        let family = self.children.as_ref()?;
        let asking = family.asking.as_ref().filter(|(asked, _)| asked == call);
        let child = match asking {
            Some((_, session)) => family.all.get(session)?,
            None if self.tools.name(call).is_some() => return None,
            None => family.all.values().find(|child| child.acp.knows_call(call))?,
        };
        let mut details = child.acp.call_details(call);
        // The patterns of rules are about the directory of the session.
        details.is_elsewhere |= child.acp.params.work_dir != self.params.work_dir;
        Some(details)
    }

    fn knows_call(&self, call: &str) -> bool {
        let in_children = |family: &Children| family.all.values().any(|child| child.acp.knows_call(call));
        self.tools.name(call).is_some() || self.children.as_deref().is_some_and(in_children)
    }

    /// Stops the work of a subagent. Its open requests are answered as cancelled.
    pub(super) fn cancel_subagent(&mut self, session: &str) -> Result<Vec<u8>> {
        let Some(child) = self.child_mut(session) else {
            let reason = format!("no subagent has the session \"{session}\"; pass `session_id` of a `SubagentEvent`");
            return Err(crate::error::invalid_option("session_id", reason));
        };
        if !child.can_cancel {
            return Err(Error::Unsupported(format!(
                "the agent does not permit to cancel the subagent with the session \"{session}\"; cancel the turn instead"
            )));
        }
        let asked = std::mem::take(&mut child.asked);
        let mut bytes = jsonrpc::notification("session/cancel", &json!({"sessionId": session}));
        for rpc_id in asked {
            if let Some(request) = self.open.remove(&rpc_id) {
                bytes.extend(request.cancelled(&rpc_id));
            }
        }
        Ok(bytes)
    }

    pub(super) fn child(&self, session: &str) -> Option<&Child> {
        let above = self.child_with(session)?;
        let child = self.children.as_ref()?.all.get(above)?;
        if above == session { Some(child) } else { child.acp.child(session) }
    }

    fn child_mut(&mut self, session: &str) -> Option<&mut Child> {
        let above = self.child_with(session)?.to_owned();
        let child = self.children.as_mut()?.all.get_mut(&above)?;
        if above == session { Some(child) } else { child.acp.child_mut(session) }
    }
}
