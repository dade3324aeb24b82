//! The requests of the agent. Those for a permission, a file or a terminal are judged; the others pass.

use std::time::Instant;

use kimi_agent_client::{Approval, Result};
use kimi_agent_protocol::connection::RequestKey;
use kimi_agent_protocol::dialect::{Answer, OfferedOptions};
use kimi_agent_protocol::jsonrpc::relayed::{Relayed, has_ambiguous_names, id_key};
use kimi_agent_protocol::jsonrpc::{Message, Params};
use kimi_agent_protocol::messages::{ApprovalRequest, Event, PolicyOutcome, ToolCallInfo};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Guard, MAX_OPEN, key_of};
use crate::observed::{Reported, Service, reason_of};
use crate::texts;

const PERMISSION: &str = "session/request_permission";
/// The requests that the connection reads.
const SERVICES: [&str; 3] = ["fs/read_text_file", "fs/write_text_file", "terminal/create"];
/// The requests about a terminal that the client has created.
const OF_TERMINAL: [&str; 4] = ["terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"];

/// Whether requests of this method are decided.
pub(super) fn is_judged(method: &str) -> bool {
    method == PERMISSION || method.starts_with("fs/") || method.starts_with("terminal/")
}

/// An open request of the agent, or of the guard.
#[derive(Debug)]
pub(super) enum Asked {
    /// It passed without a decision.
    Passed { session: Option<String> },
    /// The user decides about it.
    Permission(Box<Permission>),
    /// The client serves it.
    Service { session: String, key: RequestKey, service: Service },
    /// The guard has asked the user about it. The client gets it after that.
    Held { own: String, session: String },
    /// A request of the guard, about the request of the agent with this key.
    Own(Box<Held>),
}

#[derive(Debug)]
pub(super) struct Permission {
    /// The id, as JSON text.
    id: String,
    session: String,
    key: RequestKey,
    options: OfferedOptions,
    is_question: bool,
    call: String,
}

#[derive(Debug)]
pub(super) struct Held {
    session: String,
    key: RequestKey,
    /// The key of the agent's id.
    of: String,
    /// The line of the agent.
    line: Vec<u8>,
}

impl Guard {
    /// Handles a request of the agent.
    pub(super) fn agent_asks(&mut self, line: &[u8], read: Relayed<'_>, now: Instant) -> Result<()> {
        let Message::Request { id, method, params } = &read.message else { return Ok(()) };
        let (id, method, params) = (*id, method.clone().into_owned(), *params);
        let Some(key) = key_of(&read) else { return Ok(()) };
        if self.is_own(&key) {
            return self.refuse(id, None, "the id is not one of the agent's", now);
        }
        if let Some(open) = self.asked.remove(&key) {
            // An answer could be meant for either, so neither is granted.
            self.give_up(open, now)?;
            return self.refuse(id, None, "another request with this id is open", now);
        }
        if self.asked.len() >= MAX_OPEN {
            return self.refuse(id, None, "too many requests are open", now);
        }
        if !is_judged(&method) {
            let session = params.text("sessionId").ok().and_then(|session| self.session_of(&session));
            self.record_line(session.as_deref(), line, now);
            self.asked.insert(key, Asked::Passed { session });
            self.to_client.pass(line);
            return Ok(());
        }
        if read.is_odd || has_ambiguous_names(params.get()) {
            return self.refuse(id, None, "two programs could read this request differently", now);
        }
        let Some(session) = params.text("sessionId").ok().and_then(|session| self.session_of(&session)) else {
            return self.refuse(id, None, "the request names no session that is open, so it cannot be decided", now);
        };
        self.record_line(Some(&session), line, now);
        if OF_TERMINAL.contains(&&*method) {
            self.asked.insert(key, Asked::Passed { session: Some(session) });
            self.to_client.pass(line);
            return Ok(());
        }
        if method != PERMISSION && !SERVICES.contains(&&*method) {
            return self.judge_unknown(line, (id, key), &session, (&method, &params), now);
        }
        let Some(observed) = self.sessions.get_mut(&session) else { return Ok(()) };
        observed.connection.handle_message(read.message, line, now);
        let reported = observed.report();
        self.judge(line, (id, key), &session, method == PERMISSION, reported, now)
    }

    /// Does what the rules have decided about a request, or passes it on.
    fn judge(
        &mut self,
        line: &[u8],
        (id, key): (&str, String),
        session: &str,
        is_permission: bool,
        mut reported: Reported,
        now: Instant,
    ) -> Result<()> {
        let denial = reported.denial();
        let Some((request_key, request)) = reported.asks.pop() else {
            if reported.sent.is_empty() && reported.fatal.is_none() {
                self.settle(session, reported, now)?;
                return self.refuse(id, Some(session), "the request cannot be decided", now);
            }
            if let Some(observed) = self.sessions.get_mut(session) {
                for decision in &reported.decisions {
                    observed.note_asked(&decision.tool_call, decision.decision == PolicyOutcome::Deny);
                }
            }
            self.settle(session, reported, now)?;
            if let Some(reason) = denial {
                self.note(session, &format!("denied: {reason}"));
            }
            return Ok(());
        };
        if let Some(service) = Service::of(&request) {
            // The client answers it, and not the connection.
            reported.sent.clear();
            self.settle(session, reported, now)?;
            self.asked.insert(key, Asked::Service { session: session.to_owned(), key: request_key, service });
            self.to_client.pass(line);
            return Ok(());
        }
        self.settle(session, reported, now)?;
        match request {
            Event::ApprovalRequest(request) if !is_permission => {
                self.ask_first(line, key, session, request_key, &request);
                Ok(())
            }
            Event::ApprovalRequest(request) => {
                let call = request.tool_call.get().cloned();
                let call = call.unwrap_or_else(|| ToolCallInfo {
                    id: request.tool_call_id.clone(),
                    name: request.sender.clone(),
                    ..ToolCallInfo::default()
                });
                if let Some(observed) = self.sessions.get_mut(session) {
                    observed.note_asked(&call, false);
                }
                self.ask_client(line, (id, key), session, (request_key, call.id), false, now)
            }
            Event::QuestionRequest(request) => {
                let Some(observed) = self.sessions.get_mut(session) else { return Ok(()) };
                if let Some(reason) = observed.connection.denial_of_question(request_key) {
                    let reported = observed.reject(request_key, true, now);
                    self.settle(session, reported, now)?;
                    self.note(session, &format!("denied: {reason}"));
                    return Ok(());
                }
                let call = ToolCallInfo { id: request.tool_call_id.clone(), ..ToolCallInfo::default() };
                observed.note_asked(&call, false);
                self.ask_client(line, (id, key), session, (request_key, call.id), true, now)
            }
            _ => self.refuse(id, Some(session), "the request cannot be decided", now),
        }
    }

    /// Lets the user decide about a permission request. A request whose options can be mistaken is rejected.
    fn ask_client(
        &mut self,
        line: &[u8],
        (id, key): (&str, String),
        session: &str,
        (request_key, call): (RequestKey, String),
        is_question: bool,
        now: Instant,
    ) -> Result<()> {
        let Some(observed) = self.sessions.get_mut(session) else { return Ok(()) };
        let options = observed.connection.offered_options(id).unwrap_or_default();
        if !options.are_clear {
            observed.note_rejected(&call);
            let reported = observed.reject(request_key, is_question, now);
            self.settle(session, reported, now)?;
            self.note(session, "denied: the options of the agent's request can be mistaken for others");
            return Ok(());
        }
        let (id, session) = (id.to_owned(), session.to_owned());
        let permission = Permission { id, session, key: request_key, options, is_question, call };
        self.asked.insert(key, Asked::Permission(Box::new(permission)));
        self.to_client.pass(line);
        Ok(())
    }

    /// Asks the user about a request for a file or a terminal, which the client would serve without asking.
    fn ask_first(&mut self, line: &[u8], of: String, session: &str, key: RequestKey, request: &ApprovalRequest) {
        let own = self.new_id();
        let (kind, arguments) = request.tool_call.get().map_or(("other", Value::Null), |call| {
            (call.kind.as_ref().map_or("other", |kind| kind.as_str()), json!(call.arguments))
        });
        let title = format!("{}: {}", request.action, request.description);
        self.to_client.say(&texts::permission(&own, session, &title, kind, &arguments));
        let held = Held { session: session.to_owned(), key, of: of.clone(), line: line.to_vec() };
        let own_key = format!("\"{own}");
        self.asked.insert(of, Asked::Held { own: own_key.clone(), session: session.to_owned() });
        self.asked.insert(own_key, Asked::Own(Box::new(held)));
    }

    /// Judges a request for a file or a terminal that is not known here. The rules must allow it.
    fn judge_unknown(
        &mut self,
        line: &[u8],
        (id, key): (&str, String),
        session: &str,
        (method, params): (&str, &Params<'_>),
        now: Instant,
    ) -> Result<()> {
        let Some(observed) = self.sessions.get_mut(session) else { return Ok(()) };
        let arguments = serde_json::from_str(params.get()).ok();
        let call =
            ToolCallInfo { id: format!("request {id}"), name: method.to_owned(), arguments, ..Default::default() };
        let decision = observed.connection.decision_about(&call);
        if let Some(decision) = decision.filter(|decision| decision.decision != PolicyOutcome::Allow) {
            let reason = format!("the user's policy does not allow this: {}", reason_of(&decision));
            self.note(session, &format!("denied: {method}: {}", reason_of(&decision)));
            return self.refuse(id, Some(session), &reason, now);
        }
        self.asked.insert(key, Asked::Passed { session: Some(session.to_owned()) });
        self.to_client.pass(line);
        Ok(())
    }

    /// Handles an answer of the client.
    pub(super) fn client_answers(&mut self, line: &[u8], read: &Relayed<'_>, now: Instant) -> Result<()> {
        let Message::Response { outcome, .. } = &read.message else { return Ok(()) };
        let Some(asked) = key_of(read).and_then(|key| self.asked.remove(&key)) else {
            tracing::debug!("an answer of the client to no open request dropped");
            return Ok(());
        };
        match asked {
            Asked::Passed { session } => self.pass_answer(session.as_deref(), line, now),
            Asked::Service { session, key, service } => {
                if let Some(observed) = self.sessions.get_mut(&session) {
                    observed.served(key, &service, now);
                }
                self.pass_answer(Some(&session), line, now);
            }
            Asked::Permission(permission) => {
                return self.permission_answered(&permission, line, outcome.as_ref().ok().copied(), now);
            }
            Asked::Own(held) => {
                let allow = Choice::Option(texts::ALLOW.to_owned());
                let is_allowed = outcome.as_ref().is_ok_and(|result| chosen(result) == allow);
                return self.held_answered(*held, is_allowed, now);
            }
            // The client has not got it.
            Asked::Held { own, session } => {
                if let Some(key) = id_key(read.id.unwrap_or("null")) {
                    self.asked.insert(key, Asked::Held { own, session });
                }
            }
        }
        Ok(())
    }

    /// Passes the user's decision, unless it approves what the user has not seen.
    fn permission_answered(
        &mut self,
        permission: &Permission,
        line: &[u8],
        result: Option<&RawValue>,
        now: Instant,
    ) -> Result<()> {
        let Permission { id, session, key, options, is_question, call } = permission;
        let Some(observed) = self.sessions.get_mut(session) else {
            // The session was closed.
            self.to_agent.say(&texts::cancelled(id));
            return Ok(());
        };
        let (is_allowed, problem) = match result.map(chosen) {
            // An error, or no choice.
            None | Some(Choice::Nothing) => (false, None),
            Some(Choice::Option(choice)) => match options.options.iter().find(|(option, _)| *option == choice) {
                Some((_, allows)) => (*allows, None),
                None => (false, Some("the answer names no option of the request".to_owned())),
            },
            Some(Choice::Unclear) => (false, Some("the answer can be read in two ways".to_owned())),
        };
        let stale = if is_allowed { observed.connection.stale_approval(*key) } else { None };
        if let Some(reason) = problem.or(stale) {
            observed.note_rejected(call);
            let reported = observed.reject(*key, *is_question, now);
            self.settle(session, reported, now)?;
            self.note(session, &format!("the approval was not passed on: {reason}"));
            return Ok(());
        }
        let answer = match (is_question, is_allowed) {
            (true, _) => Answer::Question(None),
            (false, true) => Answer::Approval(Approval::Approve),
            (false, false) => Answer::Approval(Approval::Reject { feedback: None }),
        };
        if !is_allowed {
            observed.note_rejected(call);
        }
        let mut reported = observed.answer(*key, &answer, now);
        // The client has answered itself.
        reported.sent.clear();
        self.settle(session, reported, now)?;
        self.pass_answer(Some(session), line, now);
        Ok(())
    }

    /// Goes on with a request that waited for the user.
    fn held_answered(&mut self, held: Held, is_allowed: bool, now: Instant) -> Result<()> {
        let Held { session, key, of, line } = held;
        self.asked.remove(&of);
        let Some(observed) = self.sessions.get_mut(&session) else { return Ok(()) };
        if !is_allowed {
            let reported = observed.reject(key, false, now);
            return self.settle(&session, reported, now);
        }
        let mut reported = observed.answer(key, &Answer::Approval(Approval::Approve), now);
        let service = reported.asks.pop().and_then(|(key, request)| Some((key, Service::of(&request)?)));
        let Some((key, service)) = service else { return self.settle(&session, reported, now) };
        reported.sent.clear();
        self.settle(&session, reported, now)?;
        self.asked.insert(of, Asked::Service { session, key, service });
        self.to_client.pass(&line);
        Ok(())
    }

    /// Handles the agent's notice that a request of its own needs no answer any more.
    pub(super) fn agent_withdraws(&mut self, line: &[u8], read: Relayed<'_>, now: Instant) -> Result<()> {
        let Message::Notification { params, .. } = &read.message else { return Ok(()) };
        let id = params.member("requestId").ok().flatten().and_then(id_key);
        let open = id.as_deref().and_then(|id| self.asked.get(id));
        let (session, own) = match open {
            Some(Asked::Permission(permission)) => (permission.session.clone(), None),
            Some(Asked::Service { session, .. }) => (session.clone(), None),
            Some(Asked::Held { own, session }) => (session.clone(), Some(own.clone())),
            _ => {
                self.to_client.pass(line);
                return Ok(());
            }
        };
        self.record_line(Some(&session), line, now);
        let Some(observed) = self.sessions.get_mut(&session) else { return Ok(()) };
        observed.connection.handle_message(read.message, line, now);
        let reported = observed.report();
        // The connection has answered the request, unless the notice spells its id in another way.
        let is_answered = !reported.withdrawn.is_empty();
        self.settle(&session, reported, now)?;
        if is_answered && let Some(id) = id {
            self.asked.remove(&id);
        }
        match own {
            // The withdrawal has removed it, and told the client.
            Some(_) => {}
            None => self.to_client.pass(line),
        }
        Ok(())
    }

    /// Removes requests that the connection has answered or refused.
    pub(super) fn withdraw(&mut self, session: &str, keys: &[RequestKey]) {
        if keys.is_empty() {
            return;
        }
        let mut of_held = Vec::new();
        let mut own = Vec::new();
        self.asked.retain(|id, asked| match asked {
            Asked::Permission(one) => one.session != session || !keys.contains(&one.key),
            Asked::Service { session: of, key, .. } => of != session || !keys.contains(key),
            Asked::Own(held) if held.session == session && keys.contains(&held.key) => {
                of_held.push(held.of.clone());
                own.push(id.trim_start_matches('"').to_owned());
                false
            }
            _ => true,
        });
        for of in of_held {
            self.asked.remove(&of);
        }
        for id in own {
            self.to_client.say(&texts::withdrawn(&id));
        }
    }

    /// Ends a request whose id the agent has used again. The refusal of the second request answers the first one, too.
    fn give_up(&mut self, open: Asked, now: Instant) -> Result<()> {
        let (session, key, is_question) = match open {
            Asked::Permission(one) => (one.session, one.key, one.is_question),
            Asked::Held { own, session } => match self.asked.remove(&own) {
                Some(Asked::Own(held)) => {
                    self.to_client.say(&texts::withdrawn(own.trim_start_matches('"')));
                    (session, held.key, false)
                }
                _ => return Ok(()),
            },
            Asked::Service { session, key, service } => {
                if let Some(observed) = self.sessions.get_mut(&session) {
                    observed.served(key, &service, now);
                }
                return Ok(());
            }
            Asked::Passed { .. } | Asked::Own(_) => return Ok(()),
        };
        let Some(observed) = self.sessions.get_mut(&session) else { return Ok(()) };
        let mut reported = observed.reject(key, is_question, now);
        reported.sent.clear();
        self.settle(&session, reported, now)
    }

    /// Refuses a request of the agent.
    fn refuse(&mut self, id: &str, session: Option<&str>, reason: &str, now: Instant) -> Result<()> {
        tracing::warn!(reason, "a request of the agent is refused");
        let line = texts::error(id, texts::INVALID_PARAMS, reason);
        match session {
            Some(session) => self.say_to_agent(session, &line, now),
            None => self.to_agent.say(&line),
        }
        Ok(())
    }

    fn pass_answer(&mut self, session: Option<&str>, line: &[u8], now: Instant) {
        if let Some(observed) = session.and_then(|session| self.sessions.get(session)) {
            observed.record_sent(line, now);
        }
        self.to_agent.pass(line);
    }

    pub(super) fn record_line(&mut self, session: Option<&str>, line: &[u8], now: Instant) {
        if let Some(observed) = session.and_then(|session| self.sessions.get(session)) {
            observed.record_line(line, now);
        }
    }
}

/// The choice of an answer.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Nothing,
    Option(String),
    /// The agent could read it differently.
    Unclear,
}

/// Returns the choice of an answer to a permission request.
fn chosen(result: &RawValue) -> Choice {
    #[derive(Deserialize)]
    struct Answered {
        outcome: Outcome,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Outcome {
        outcome: String,
        option_id: Option<String>,
    }
    let read = serde_json::from_str::<Answered>(result.get()).ok().filter(|_| !has_ambiguous_names(result.get()));
    match read.map(|read| (read.outcome.outcome, read.outcome.option_id)) {
        Some((outcome, None)) if outcome == "cancelled" => Choice::Nothing,
        Some((outcome, Some(option))) if outcome == "selected" => Choice::Option(option),
        _ => Choice::Unclear,
    }
}
