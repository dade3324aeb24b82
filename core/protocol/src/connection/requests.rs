//! Requests of the agent: the source of each answer, and the default answers. Approvals fail closed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::granted::Subject;
use super::held::Held;
use super::output::OutputTool;
use super::policy::{AskedAbout, ToolRules, Verdict, is_said};
use super::recording::{self, Decided};
use super::terminals::MAX_TERMINALS;
use super::tool_calls::{Known, MAX_ID, RejectedBy, short};
use super::warnings::{HANDLERS, logged_failure};
use super::{Connection, Output, Scope};
use crate::answers::{Answers, Approval, HookDecision, OnError, WrongAnswer};
use crate::dialect::{Answer, CallDetails, Services, TerminalAnswer};
use crate::error::Result;
use crate::error::invalid_option;
use crate::messages::value::RequestOrigin;
use crate::messages::{
    ApprovalKind, ApprovalRequest, ApprovalResponse, Event, HandlerKind, Question, QuestionRequest, ToolCallInfo,
    ToolCallRequest, ToolReturnValue, UnknownEvent,
};
use crate::naming::Naming;
use crate::recording::{CallKind, Decider};
use crate::secrets::Secrets;

pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
pub(super) const INTERNAL_ERROR: i64 = -32603;
pub(super) const REQUEST_CANCELLED: i64 = -32800;

/// The limit of open requests, and of resolved ids that are remembered. Further requests get the default answer.
const MAX_PENDING: usize = 1024;
/// The limit of the size of all open requests, in bytes. One request alone may be larger.
const MAX_PENDING_BYTES: usize = 32 << 20;
/// The limit of the id of a request, in bytes.
pub(super) const MAX_REQUEST_ID: usize = 128 << 10;

/// How long a request waits for an answer before the log reports it.
const REPORT_AFTER: Duration = Duration::from_secs(60);

const SAME_ID: &str = "another request has the same id: an answer could be meant for either";

/// The key of one of the agent's requests. The agent's own ids may repeat.
pub type RequestKey = u64;

/// The name of a request in a manual answer: its id, and its origin, which a copy of the event may lack.
#[derive(Clone, Debug)]
pub struct RequestRef {
    /// The id of the request.
    pub id: String,
    /// The session and the request that the event came from.
    pub origin: Option<RequestOrigin>,
}

impl From<&str> for RequestRef {
    fn from(id: &str) -> Self {
        Self { id: id.to_owned(), origin: None }
    }
}

impl From<&String> for RequestRef {
    fn from(id: &String) -> Self {
        id.as_str().into()
    }
}

impl From<&ApprovalRequest> for RequestRef {
    fn from(request: &ApprovalRequest) -> Self {
        Self { id: request.id.clone(), origin: request.extra.origin() }
    }
}

impl From<&QuestionRequest> for RequestRef {
    fn from(request: &QuestionRequest) -> Self {
        Self { id: request.id.clone(), origin: request.extra.origin() }
    }
}

/// The source of the answers to requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerSource {
    /// The default answer is sent immediately.
    #[default]
    Default,
    /// Every request is approved.
    Yolo,
    /// The reader of the events answers with `respond()`.
    Manual,
    /// A handler of the program.
    Handler,
}

/// The sources of answers, by kind of request, and other settings for requests.
#[derive(Clone, Debug, Default)]
pub struct AnswerSources {
    /// The source of answers to approval requests.
    pub approval: AnswerSource,
    /// The source of answers to questions.
    pub question: AnswerSource,
    /// The names of the tools of the program.
    pub tools: BTreeSet<String>,
    /// The tool of structured output. Boxed, so that a session without one pays for one word.
    pub output_tool: Option<Box<OutputTool>>,
    /// The handlers of files and terminals that are set.
    pub services: Services,
    /// By subscription id: the decision if the hook fails, and the hook's event.
    pub hooks: BTreeMap<String, (OnError, String)>,
    /// The spelling of option names in log lines.
    pub naming: Naming,
    /// Whether a handler reads events outside turns.
    pub observed: bool,
    /// The values that logs and errors mask.
    pub secrets: Secrets,
    /// The rules that decide about tool calls before any handler. Boxed, so that a session without rules pays for one word.
    pub rules: Option<Arc<Box<dyn ToolRules>>>,
}

/// The recipient of an answer.
#[derive(Debug)]
pub(super) enum ReplyTo {
    /// The agent, under this id.
    Agent(String),
    /// The caller of a tool over the tools server, by [`Output::ToolAnswered`].
    ToolCaller(RequestKey),
    /// The terminal with this id.
    Terminal(String),
    /// Another request, which waits for this approval.
    Held(Box<Held>),
    /// The request has been answered.
    Answered,
}

impl ReplyTo {
    /// Returns whether the agent waits under this id.
    fn is_agent(&self, rpc_id: &str) -> bool {
        match self {
            Self::Agent(id) => id == rpc_id,
            Self::Held(held) => held.reply_to.is_agent(rpc_id),
            _ => false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) reply_to: ReplyTo,
    pub(super) request_id: String,
    pub(super) kind: HandlerKind,
    name: Option<String>,
    on_error: OnError,
    of_turn: bool,
    pub(super) manual: bool,
    pub(super) about: About,
    /// When the log reports that the request has no answer. `None` if it has been reported, or never is.
    report_at: Option<Instant>,
    pub(super) asked_at: Instant,
    /// The size of the request, in bytes.
    size: usize,
}

/// The details of a request that are needed once it has been answered.
#[derive(Debug, Default)]
pub(super) struct About {
    pub(super) tool_call: Option<Known>,
    /// For an approval: the subagent that asks.
    pub(super) agent: Option<String>,
    /// For an approval.
    description: String,
    /// For an approval.
    action: String,
    /// For an approval that the session's rules leave to the program.
    asked: Option<AskedAbout>,
    /// For an approval: hashes of the changes of files that the agent has shown.
    shown: Vec<u64>,
    /// For an approval: how often the agent had replaced what it said about the call.
    replacements: u32,
    /// For an approval: the requests that it covers.
    subjects: Vec<Subject>,
    /// For a file: the path that is read.
    path: Option<String>,
    questions: Vec<Question>,
}

/// The requests that await an answer.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pending: HashMap<RequestKey, Pending>,
    /// The size of the open requests, in bytes.
    kept: usize,
    /// Ids of resolved manual requests. A late answer to such a request is not an error.
    resolved: BTreeSet<String>,
}

impl Requests {
    /// Returns whether the agent waits for the program. It waits for a terminal only after a call that asks for the
    /// terminal's end.
    pub(super) fn is_waiting(&self) -> bool {
        self.pending.values().any(|pending| !matches!(pending.reply_to, ReplyTo::Terminal(_)))
    }

    /// Returns the agent's id of a request, and its tool call.
    pub(super) fn call_of(&self, key: RequestKey) -> (Option<String>, Option<Known>) {
        let pending = self.pending.get(&key);
        (pending.map(|pending| pending.request_id.clone()), pending.and_then(|pending| pending.about.tool_call.clone()))
    }

    /// Returns when the log reports the next request without an answer.
    pub(super) fn next_report(&self) -> Option<Instant> {
        self.pending.values().filter_map(|pending| pending.report_at).min()
    }

    /// Removes a request that no longer needs an answer.
    pub(super) fn forget(&mut self, key: RequestKey) {
        self.take(key);
    }

    /// Returns the newest request with this id. Ids may repeat, also across kinds.
    fn find(&self, request_id: &str, which: impl Fn(&Pending) -> bool) -> Option<RequestKey> {
        let matches = |pending: &Pending| pending.request_id == request_id && which(pending);
        self.pending.iter().filter(|(_, pending)| matches(pending)).map(|(key, _)| *key).max()
    }

    /// Returns the request for a manual answer that names only an id.
    fn named(&self, request_id: &str) -> Result<Option<RequestKey>> {
        let is_manual = |pending: &&Pending| pending.manual && pending.request_id == request_id;
        if self.pending.values().filter(is_manual).count() > 1 {
            let reason =
                format!("several requests with the id `{request_id}` await an answer; pass the request itself");
            return Err(invalid_option("request", reason));
        }
        Ok(self.find(request_id, |pending| pending.manual).or_else(|| self.find(request_id, |_| true)))
    }

    /// Returns `Some` if a manual answer to an approval of this id could be meant for another approval: an open one, which is
    /// returned, or a resolved one of the same turn.
    fn ambiguity(&self, request_id: &str) -> Option<Option<RequestKey>> {
        let twin = self.find(request_id, |pending| pending.manual && pending.kind == HandlerKind::Approval);
        (twin.is_some() || self.resolved.contains(request_id)).then_some(twin)
    }

    /// Adds a request. Returns the reason if there are too many.
    fn add(&mut self, key: RequestKey, pending: Pending) -> Option<String> {
        let is_too_large = self.kept > 0 && self.kept + pending.size > MAX_PENDING_BYTES;
        let is_full = self.pending.len() >= MAX_PENDING;
        self.kept += pending.size;
        self.pending.insert(key, pending);
        if is_full {
            return Some(format!("{MAX_PENDING} other requests await an answer"));
        }
        is_too_large.then(|| format!("the requests that await an answer exceed {MAX_PENDING_BYTES} bytes"))
    }

    fn take(&mut self, key: RequestKey) -> Option<Pending> {
        let pending = self.pending.remove(&key)?;
        self.kept -= pending.size;
        if pending.manual {
            self.remember(&pending.request_id);
        }
        Some(pending)
    }

    /// Remembers a resolved id: a manual answer to it is late, which is not an error.
    fn remember(&mut self, request_id: &str) {
        if self.resolved.len() >= MAX_PENDING {
            self.resolved.clear();
        }
        // Nobody types a longer one.
        if request_id.len() <= MAX_ID {
            self.resolved.insert(request_id.to_owned());
        }
    }

    /// Takes the approval that the agent reports as resolved.
    fn resolved(&mut self, request_id: &str) -> Option<(RequestKey, Pending)> {
        let is_asked = |pending: &Pending| matches!(pending.reply_to, ReplyTo::Agent(_));
        let key = self.find(request_id, |pending| pending.kind == HandlerKind::Approval && is_asked(pending))?;
        Some((key, self.take(key)?))
    }

    /// Returns the call of a tool over the tools server with this id.
    fn tool_call(&self, id: &str) -> Option<RequestKey> {
        let is_meant = |pending: &Pending| pending.tool_call() == Some(id);
        self.pending.iter().filter(|(_, pending)| is_meant(pending)).map(|(key, _)| *key).max()
    }

    fn withdraw(&mut self, which: impl Fn(&Pending) -> bool) -> Vec<(RequestKey, Pending)> {
        let mut keys: Vec<_> = self.pending.iter().filter(|(_, pending)| which(pending)).map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys.into_iter().filter_map(|key| Some((key, self.take(key)?))).collect()
    }

    /// Removes the resolved ids of earlier turns, when a turn begins.
    pub(super) fn forget_resolved(&mut self) {
        self.resolved.clear();
    }

    pub(super) fn withdraw_all(&mut self) -> Vec<RequestKey> {
        self.withdraw(|_| true).into_iter().map(|(key, _)| key).collect()
    }
}

impl Connection {
    /// Withdraws the requests of the turn, because it has ended or is being cancelled. Requests of background agents
    /// stay open.
    pub(super) fn withdraw_of_turn(&mut self) {
        for (key, mut pending) in self.requests.withdraw(|pending| pending.of_turn) {
            self.withdrawn(key, &pending);
            let has_caller = pending.tool_call().is_some();
            if let ReplyTo::Held(held) = std::mem::replace(&mut pending.reply_to, ReplyTo::Answered)
                && !has_caller
            {
                self.refuse_held(*held, REQUEST_CANCELLED, "the turn was cancelled".to_owned());
            }
            self.record_rejection(pending, RejectedBy::Cancelled);
        }
    }

    /// Withdraws requests that the dialect has answered as cancelled.
    pub(super) fn withdraw_answered(&mut self, rpc_ids: &[String]) {
        let rpc_ids: HashSet<&String> = rpc_ids.iter().collect();
        let is_meant = |pending: &Pending| matches!(&pending.reply_to, ReplyTo::Agent(id) if rpc_ids.contains(id));
        for (key, pending) in self.requests.withdraw(is_meant) {
            self.withdrawn(key, &pending);
            self.record_rejection(pending, RejectedBy::Cancelled);
        }
    }

    /// Handles the agent's report that an approval is resolved: by `approve_for_session` for another request, or by the
    /// end of its turn.
    pub(super) fn resolved(&mut self, response: &ApprovalResponse) {
        let Some((key, pending)) = self.requests.resolved(&response.request_id) else { return };
        self.withdrawn(key, &pending);
        if response.response == ApprovalKind::Reject {
            self.record_rejection(pending, RejectedBy::Cancelled);
        }
    }

    /// Handles the agent's cancellation of its own request. JSON-RPC requires an answer to it.
    pub(super) fn request_cancelled(&mut self, rpc_id: &str) {
        for (key, pending) in self.requests.withdraw(|pending| pending.reply_to.is_agent(rpc_id)) {
            self.withdrawn(key, &pending);
            let bytes = self.dialect.refuse(rpc_id, REQUEST_CANCELLED, "the request was cancelled");
            self.transmit(bytes);
            self.record_rejection(pending, RejectedBy::Cancelled);
        }
        if self.terminals.stop_waiting(rpc_id) {
            self.refuse_with(rpc_id, REQUEST_CANCELLED, "the request was cancelled");
        }
    }

    fn withdrawn(&mut self, key: RequestKey, pending: &Pending) {
        self.record_withdrawn(pending);
        self.outputs.push_back(Output::Withdrawn(key));
        if let ReplyTo::Held(held) = &pending.reply_to
            && pending.tool_call().is_some()
        {
            self.outputs.push_back(Output::Withdrawn(held.key));
        }
    }

    fn record_rejection(&mut self, pending: Pending, by: RejectedBy) {
        if pending.kind == HandlerKind::Approval
            && let Some(turn) = &mut self.turn
        {
            turn.record.rejected(pending.about.tool_call, pending.about.description, by);
        }
    }

    /// Returns the details of a request, for the outcome of the turn and for the check of an answer.
    fn about(&mut self, reply_to: &ReplyTo, request: &Event) -> About {
        let dialect = &self.dialect;
        let details = |id: &str| dialect.call_details(id);
        let mut find = |agent: Option<&str>, id: &str| self.tool_calls.find(agent, id, &details);
        match request {
            Event::ApprovalRequest(request) => {
                let CallDetails { shown, replacements, .. } = details(&request.tool_call_id);
                let is_held = matches!(reply_to, ReplyTo::Held(_));
                About {
                    tool_call: match reply_to {
                        ReplyTo::Held(held) => Some(Known::of_call(held.call.clone())),
                        _ => find(request.agent_id.as_deref(), &request.tool_call_id),
                    },
                    description: short(&request.description),
                    action: short(&request.action),
                    agent: request.agent_id.clone(),
                    shown,
                    replacements,
                    subjects: if is_held { Vec::new() } else { self.subjects_of(request) },
                    ..About::default()
                }
            }
            Event::ReadFileRequest(request) => About { path: Some(request.path.clone()), ..About::default() },
            Event::QuestionRequest(request) => About {
                tool_call: find(None, &request.tool_call_id),
                questions: request.questions.clone(),
                ..About::default()
            },
            Event::ToolCallRequest(request) => {
                let tool_call = find(None, &request.id).unwrap_or_else(|| Known::of(request));
                About { tool_call: Some(tool_call), ..About::default() }
            }
            Event::HookRequest(request) => {
                let id = request.input_data.as_ref().and_then(|data| data.get("tool_call_id")?.as_str());
                About { tool_call: id.and_then(|id| find(None, id)), ..About::default() }
            }
            _ => About::default(),
        }
    }

    pub(super) fn request(&mut self, rpc_id: String, mut request: Event, mut size: usize, now: Instant) {
        if rpc_id.len().max(request.request_id().map_or(0, str::len)) > MAX_REQUEST_ID {
            let reason = format!("the id of the request exceeds {MAX_REQUEST_ID} bytes");
            return self.refuse_with(&rpc_id, INVALID_PARAMS, &reason);
        }
        if let Event::ApprovalRequest(request) = &request {
            self.restate_call(request, now);
        }
        size += self.add_tool_call(&mut request, now);
        if self.is_of_policy(&request) {
            return self.decide_before_call(rpc_id, &request);
        }
        let scope = self.scope();
        let key = self.new_key();
        request.set_origin(RequestOrigin { session: self.number, request: key });
        if let Event::TerminalRequest(request) = &mut request {
            request.id = self.terminals.next_id();
        }
        self.outputs.push_back(Output::Event { scope, event: request.clone().into(), size });
        if let Some(replay) = &mut self.replay {
            return replay.request(rpc_id, request, size);
        }
        self.dispatch(key, ReplyTo::Agent(rpc_id), scope, (request, size), false, now);
    }

    /// Begins a tool call that does not come over the connection. It is not part of a replay.
    /// The result comes as [`Output::ToolAnswered`] with the returned key; [`Output::Withdrawn`] says that none will come.
    /// Returns `None` if the connection is closed.
    pub fn call_tool(&mut self, call: ToolCallRequest, mut size: usize, now: Instant) -> Option<RequestKey> {
        if self.is_closed() {
            return None;
        }
        self.note_activity(now);
        self.record(|| recording::tool_call(&call));
        let scope = self.live_scope();
        let mut request = Event::from(call);
        size += self.add_tool_call(&mut request, now);
        self.outputs.push_back(Output::Event { scope, event: request.clone().into(), size });
        let key = self.new_key();
        self.dispatch(key, ReplyTo::ToolCaller(key), scope, (request, size), false, now);
        Some(key)
    }

    /// Withdraws a call of [`Connection::call_tool`], because its caller no longer waits.
    pub fn cancel_tool_call(&mut self, id: &str, now: Instant) {
        let Some(key) = self.requests.tool_call(id) else { return };
        let Some(pending) = self.requests.take(key) else { return };
        self.note_activity(now);
        self.withdrawn(key, &pending);
    }

    /// Answers a request, or passes it to a handler, according to the policy. `is_approved`: the program has approved it.
    pub(super) fn dispatch(
        &mut self,
        key: RequestKey,
        mut reply_to: ReplyTo,
        scope: Scope,
        (request, size): (Event, usize),
        is_approved: bool,
        now: Instant,
    ) {
        let services = self.sources.services;
        let served = |is_set| if is_set { AnswerSource::Handler } else { AnswerSource::Default };
        let (source, kind, name, on_error) = match &request {
            Event::ApprovalRequest(_) => (self.sources.approval, HandlerKind::Approval, None, OnError::Block),
            Event::QuestionRequest(_) => (self.sources.question, HandlerKind::Question, None, OnError::Block),
            Event::ToolCallRequest(call) => {
                let is_output = self.is_output_call(call);
                let known = self.sources.tools.contains(&call.name) || is_output;
                let source = if known { AnswerSource::Handler } else { AnswerSource::Default };
                let kind = if is_output { HandlerKind::Output } else { HandlerKind::Tool };
                (source, kind, Some(call.name.clone()), OnError::Block)
            }
            Event::HookRequest(hook) => match self.sources.hooks.get(&hook.subscription_id) {
                Some((on_error, event)) => (AnswerSource::Handler, HandlerKind::Hook, Some(event.clone()), *on_error),
                None => (AnswerSource::Default, HandlerKind::Hook, Some(hook.event.clone()), OnError::Allow),
            },
            Event::ReadFileRequest(_) => (served(services.read_file), HandlerKind::ReadFile, None, OnError::Block),
            Event::WriteFileRequest(_) => (served(services.write_file), HandlerKind::WriteFile, None, OnError::Block),
            Event::TerminalRequest(_) => (served(services.terminal), HandlerKind::Terminal, None, OnError::Block),
            other => {
                if let ReplyTo::Agent(rpc_id) = &reply_to {
                    self.refuse(rpc_id, other);
                }
                return;
            }
        };
        let request_id = request.request_id().unwrap_or_default().to_owned();
        // A turn that is being cancelled asks no handler, and gets no answer that lets it continue.
        let in_turn = matches!(scope, Scope::Turn(..)) && !is_background(&request);
        let of_turn = in_turn && kind != HandlerKind::Terminal;
        let cancelling = in_turn && self.turn.as_ref().is_some_and(|turn| turn.cancel.is_some());
        let undelivered = source == AnswerSource::Manual && scope == Scope::Outside && !self.sources.observed;
        // A manual answer may name only an id. If two approvals have this id, neither is approved.
        let is_manual_approval = source == AnswerSource::Manual && kind == HandlerKind::Approval;
        let ambiguity = if is_manual_approval { self.requests.ambiguity(&request_id) } else { None };
        if let Some(Some(key)) = ambiguity {
            self.handler_failed(key, SAME_ID.to_owned(), now);
        }
        if is_manual_approval && (cancelling || undelivered) {
            self.requests.remember(&request_id);
        }
        let mut asked = None;
        if let ReplyTo::Held(held) = &reply_to {
            asked = held.asked;
        } else if let Event::ApprovalRequest(request) = &request
            && !cancelling
        {
            match self.approve_output(request).map_or_else(|| self.decide_approval(request, scope), Ok) {
                Ok(answer) => {
                    if is_manual_approval {
                        // The reader sees the request as well, and may answer it.
                        self.requests.remember(&request_id);
                    }
                    return self.send_answer(reply_to, &request_id, &answer);
                }
                Err(by_rules) => asked = by_rules,
            }
        }
        let verdict = match kind {
            HandlerKind::Output => None,
            _ if cancelling || is_approved => None,
            _ => self.verdict_of_request(&request),
        };
        if let Some(Verdict::Denied(reason)) = verdict {
            return self.refuse_request(reply_to, &request, INTERNAL_ERROR, reason);
        }
        if let Event::ToolCallRequest(call) = &request
            && kind == HandlerKind::Output
            && !self.dispatch_output(key, &mut reply_to, scope, (call, cancelling), now)
        {
            return;
        }
        let source = if cancelling || undelivered { AnswerSource::Default } else { source };
        if source == AnswerSource::Default && !cancelling {
            self.log_missing(&request, undelivered);
        }
        if let Some((code, reason)) = self.service_refusal(&kind, source, cancelling)
            && let ReplyTo::Agent(rpc_id) = &reply_to
        {
            return self.refuse_with(rpc_id, code, &reason);
        }
        if let Some(Verdict::Asked(decision)) = verdict
            && source == AnswerSource::Handler
        {
            let held = Held { key, reply_to, scope, request, size, call: decision.tool_call.clone(), asked: None };
            return self.ask_first(held, *decision, now);
        }
        if let (Event::TerminalRequest(request), ReplyTo::Agent(rpc_id)) = (&request, &reply_to) {
            let bytes = self.dialect.answer_terminal(rpc_id, TerminalAnswer::Created(&request.id));
            self.transmit(bytes);
            self.terminals.add(key, request);
            reply_to = ReplyTo::Terminal(request.id.clone());
        }
        let answer = match (source, &kind) {
            (AnswerSource::Default, HandlerKind::Approval) => {
                let About { tool_call, description, .. } = self.about(&reply_to, &request);
                let by = if cancelling { RejectedBy::Cancelled } else { RejectedBy::NoHandler };
                if let Some(turn) = &mut self.turn {
                    turn.record.rejected(tool_call, description, by);
                }
                Answer::Approval(Approval::Reject { feedback: None })
            }
            (AnswerSource::Yolo, _) => Answer::Approval(Approval::Approve),
            (AnswerSource::Default, HandlerKind::Question) => Answer::Question(None),
            (AnswerSource::Default, HandlerKind::Tool | HandlerKind::Output) => {
                let name = name.as_deref().unwrap_or_default();
                let reason = if cancelling { "the turn was cancelled" } else { "the program has no such tool" };
                Answer::Tool(ToolReturnValue::error(format!("{name}: {reason}")))
            }
            (AnswerSource::Default, _) if cancelling && on_error == OnError::Block => {
                Answer::Hook(HookDecision::Block("the turn was cancelled".to_owned()))
            }
            (AnswerSource::Default, _) => Answer::Hook(HookDecision::Allow),
            (AnswerSource::Manual | AnswerSource::Handler, _) => {
                let manual = source == AnswerSource::Manual;
                let about = About { asked, ..self.about(&reply_to, &request) };
                // A command in a terminal may run for any time.
                let report_at = (kind != HandlerKind::Terminal).then(|| now + REPORT_AFTER);
                let is_checked = kind == HandlerKind::Output;
                let asked_at = now;
                let pending = Pending {
                    reply_to,
                    request_id,
                    kind,
                    name,
                    on_error,
                    of_turn,
                    manual,
                    about,
                    report_at,
                    asked_at,
                    size,
                };
                if let Some(reason) = self.requests.add(key, pending) {
                    return self.handler_failed(key, reason, now);
                }
                if ambiguity.is_some() {
                    return self.handler_failed(key, SAME_ID.to_owned(), now);
                }
                if !manual && !is_checked {
                    self.outputs.push_back(Output::Ask { key, scope, request: Box::new(request) });
                }
                return;
            }
        };
        let by = match source {
            AnswerSource::Yolo => Decider::Yolo,
            _ if cancelling => Decider::Cancelled,
            _ => Decider::Default,
        };
        let tool_call = match &request {
            Event::ApprovalRequest(request) => Some(&*request.tool_call_id),
            _ => None,
        };
        self.record_decision(Decided { tool_call, ..Decided::at_once(&request_id, &kind, by, &answer) });
        self.send_answer_or_go_on(reply_to, &request_id, &answer, now);
    }

    pub(super) fn send_answer(&mut self, reply_to: ReplyTo, request_id: &str, answer: &Answer) {
        match reply_to {
            ReplyTo::Agent(rpc_id) => {
                let bytes = self.dialect.answer(&rpc_id, request_id, answer);
                self.transmit(bytes);
            }
            ReplyTo::ToolCaller(key) => {
                if let Answer::Tool(result) = answer {
                    self.record(|| recording::tool_result(request_id, result));
                    self.outputs.push_back(Output::ToolAnswered { key, result: Box::new(result.clone()) });
                }
            }
            ReplyTo::Terminal(id) => {
                if let Answer::Terminal(result) = answer {
                    self.terminal_ended(&id, Ok(result.clone()));
                }
            }
            // `send_answer_or_go_on` goes on with the request.
            ReplyTo::Held(_) | ReplyTo::Answered => {}
        }
    }

    /// Returns the code and the reason if a request for a file or a terminal is not passed to a handler.
    fn service_refusal(&self, kind: &HandlerKind, source: AnswerSource, cancelling: bool) -> Option<(i64, String)> {
        if !matches!(kind, HandlerKind::ReadFile | HandlerKind::WriteFile | HandlerKind::Terminal) {
            return None;
        }
        if cancelling {
            return Some((REQUEST_CANCELLED, "the turn was cancelled".to_owned()));
        }
        if source == AnswerSource::Default {
            return Some((METHOD_NOT_FOUND, "the program does not offer this".to_owned()));
        }
        (*kind == HandlerKind::Terminal && self.terminals.is_full())
            .then(|| (INTERNAL_ERROR, format!("{MAX_TERMINALS} terminals are open; release one of them first")))
    }

    fn refuse(&mut self, rpc_id: &str, request: &Event) {
        let (code, reason) = match request {
            Event::Unknown(UnknownEvent { kind, error: Some(error), .. }) => {
                if let Some(count) = self.repeats.count("payload") {
                    let (kind, error) = (self.shown(kind), self.shown(error));
                    tracing::warn!(kind, error, count, "a request's payload can't be read; it is refused");
                }
                (INVALID_PARAMS, format!("{kind}: {error}"))
            }
            other => {
                let kind = other.type_name();
                if let Some(count) = self.repeats.count("request") {
                    let kind = self.shown(kind);
                    tracing::warn!(kind, count, "a request of an unknown type; it is refused");
                }
                (METHOD_NOT_FOUND, format!("unknown request type: {kind}"))
            }
        };
        let bytes = self.dialect.refuse(rpc_id, code, &reason);
        self.transmit(bytes);
    }

    /// Answers a request with a handler's result. A late answer is ignored.
    pub fn answer(&mut self, key: RequestKey, answer: &Answer, now: Instant) {
        let problem = self.requests.pending.get(&key).and_then(|pending| self.problem(pending, answer));
        match problem {
            Some(problem) => self.handler_failed(key, format!("the handler's result cannot be used: {problem}"), now),
            None => self.answer_by(key, answer, (RejectedBy::Handler, None), now),
        }
    }

    /// Returns the reason if an approval came too late: the agent has described the call in another way since it asked.
    pub(super) fn change_of_call(&mut self, key: RequestKey) -> Option<String> {
        let Pending { about, reply_to: ReplyTo::Agent(_), .. } = self.requests.pending.get(&key)? else { return None };
        let (asked, agent) = (Arc::clone(&about.tool_call.as_ref()?.call), about.agent.clone());
        let dialect = &self.dialect;
        let is_new = |hash: &u64| !about.shown.contains(hash);
        let details = dialect.call_details(&asked.id);
        let shows_more = details.shown.iter().any(is_new);
        let is_replaced = details.replacements != about.replacements;
        let newest = self.tool_calls.find(agent.as_deref(), &asked.id, &|id| dialect.call_details(id))?.call;
        let change = change_between(&asked, &newest)
            .or_else(|| shows_more.then_some("the change of a file"))
            .or_else(|| is_replaced.then_some("the description"))
            .or_else(|| (names_more(&asked, &newest) && !self.allows(&newest)).then_some("the files"));
        if let Some(change) = change {
            return Some(format!("the agent changed {change} of this call while it was decided"));
        }
        // The copy of large arguments takes long.
        let is_same = Arc::ptr_eq(&newest, &asked)
            || ToolCallInfo { changed: asked.changed, ..ToolCallInfo::clone(&newest) } == *asked;
        let refusal = if is_same { None } else { self.refusal_of_newer(&newest) };
        refusal.map(|reason| format!("the agent changed this call while it was decided: {reason}"))
    }

    /// Returns the reason why an answer does not fit the request.
    fn problem(&self, pending: &Pending, answer: &Answer) -> Option<String> {
        match answer {
            Answer::Question(Some(answers)) => {
                answers.problem(&pending.about.questions, self.dialect.accepts_free_answers())
            }
            _ => None,
        }
    }

    /// Sends an answer. `failure` says why a handler gave none.
    fn answer_by(&mut self, key: RequestKey, answer: &Answer, (by, failure): (RejectedBy, Option<&str>), now: Instant) {
        if matches!(answer, Answer::Approval(Approval::Approve | Approval::ApproveForSession))
            && let Some(change) = self.change_of_call(key)
        {
            return self.handler_failed(key, change, now);
        }
        let Some(mut pending) = self.requests.take(key) else { return };
        self.note_activity(now);
        self.record_answer(&pending, by, Some(answer), failure, now);
        let is_of_agent = !matches!(pending.reply_to, ReplyTo::Held(_));
        let about = (pending.about.tool_call.as_ref(), pending.about.asked);
        let once = self.approve_once(answer, about, is_of_agent);
        let answer = once.as_ref().unwrap_or(answer);
        match answer {
            Answer::Approval(Approval::Approve | Approval::ApproveForSession) => {
                self.grant(std::mem::take(&mut pending.about.subjects));
            }
            Answer::ReadFile(Some(text)) => {
                pending.about.path.iter().for_each(|path| self.note_read(path, text));
            }
            _ => {}
        }
        let reply_to = std::mem::replace(&mut pending.reply_to, ReplyTo::Answered);
        self.send_answer_or_go_on(reply_to, &pending.request_id, answer, now);
        if matches!(answer, Answer::Approval(Approval::Reject { .. })) {
            self.record_rejection(pending, by);
        }
    }

    /// Answers a request that has no default answer with an error.
    fn answer_failed(&mut self, key: RequestKey, message: &str, now: Instant) {
        let Some(pending) = self.requests.take(key) else { return };
        self.note_activity(now);
        self.record_answer(&pending, RejectedBy::HandlerFailed, None, Some(message), now);
        match pending.reply_to {
            ReplyTo::Agent(rpc_id) => self.refuse_with(&rpc_id, INTERNAL_ERROR, message),
            ReplyTo::Terminal(id) => self.terminal_ended(&id, Err(message.to_owned())),
            ReplyTo::ToolCaller(_) | ReplyTo::Held(_) | ReplyTo::Answered => {}
        }
    }

    /// Handles the failure of a handler: the agent gets the default answer, and the program gets an event.
    pub fn handler_failed(&mut self, key: RequestKey, message: String, now: Instant) {
        let reported = message.clone();
        self.handler_failed_as(key, &message, reported, now);
    }

    /// Handles the failure of a handler as [`Connection::handler_failed`] does. The model reads `message`, the program `reported`.
    pub fn handler_failed_as(&mut self, key: RequestKey, message: &str, reported: String, now: Instant) {
        if self.is_output_check(key) {
            return self.output_checked(key, Err(message.to_owned()), now);
        }
        let Some(pending) = self.requests.pending.get(&key) else { return };
        let answer = pending.safe_answer(message);
        let (kind, name, request_id) = (pending.kind.clone(), pending.name.clone(), pending.request_id.clone());
        let tool_call = pending.about.tool_call.clone();
        self.log_failure(&kind, name.as_deref(), logged_failure(message, &reported));
        match answer {
            Some(answer) => self.answer_by(key, &answer, (RejectedBy::HandlerFailed, Some(message)), now),
            None => self.answer_failed(key, message, now),
        }
        if let Some(turn) = &mut self.turn {
            turn.record.failed(kind.clone(), tool_call, &reported);
        }
        self.report_failure(kind, name, Some(request_id), reported);
    }

    /// Logs the requests that have waited for a long time.
    pub(super) fn log_unanswered(&mut self, now: Instant) {
        let mut due: Vec<_> = self
            .requests
            .pending
            .iter_mut()
            .filter(|(_, pending)| pending.report_at.is_some_and(|at| now >= at))
            .collect();
        due.sort_unstable_by_key(|(key, _)| **key);
        let waiting: Vec<_> = due
            .into_iter()
            .map(|(_, pending)| {
                pending.report_at = None;
                let subject = pending.name.clone().unwrap_or_else(|| pending.about.action.clone());
                (pending.kind.clone(), pending.manual, subject)
            })
            .collect();
        for (kind, manual, subject) in waiting {
            self.log_waiting(&kind, manual, &subject, REPORT_AFTER);
        }
    }

    /// Returns whether a request awaits a manual answer.
    pub fn awaits_manual_answer(&self) -> bool {
        self.requests.pending.values().any(|pending| pending.manual)
    }

    /// Sends the default answer to a request for manual answers that the program never read.
    pub fn answer_undelivered(&mut self, request_id: &str, now: Instant) {
        let Some(key) = self.requests.find(request_id, |pending| pending.manual) else { return };
        let Some(pending) = self.requests.pending.get(&key) else { return };
        let Some(answer) = pending.safe_answer("the turn is not read") else { return };
        if self.warns(&HandlerKind::Event, Some("unread")) {
            tracing::warn!(
                target: HANDLERS,
                request_id,
                "a request that is to be answered manually got the default answer because the turn is not read: read its events. \
                 Further such requests are not logged"
            );
        }
        self.answer_by(key, &answer, (RejectedBy::NoHandler, None), now);
    }

    /// Answers a request manually.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) if no such request awaits an answer, or if the answer does not fit it.
    pub fn respond(&mut self, request: impl Into<RequestRef>, answer: ManualAnswer, now: Instant) -> Result<()> {
        let RequestRef { id: request_id, origin } = request.into();
        if origin.is_some_and(|origin| origin.session != self.number) {
            return Err(invalid_option(
                "request",
                format!("`{request_id}` is a request of another session; answer it through that session or its turn"),
            ));
        }
        let found = match origin {
            Some(origin) => Some(origin.request)
                .filter(|key| self.requests.pending.get(key).is_some_and(|pending| pending.request_id == request_id)),
            None => self.requests.named(&request_id)?,
        };
        let Some(key) = found else {
            if self.requests.resolved.contains(&request_id) {
                return Ok(());
            }
            let AnswerSources { approval, question, .. } = &self.sources;
            let remedy = if [approval, question].contains(&&AnswerSource::Manual) {
                "expected the event of an open request, or its id"
            } else {
                "set `on_approval` or `on_question` to \"manual\", and requests wait for `respond()`"
            };
            return Err(invalid_option("request", format!("no request `{request_id}` awaits an answer: {remedy}")));
        };
        let Some(pending) = self.requests.pending.get(&key) else { return Ok(()) };
        if !pending.manual {
            return Err(invalid_option(
                "request",
                format!(
                    "`{request_id}` is answered by a handler of the session; set `on_approval` or `on_question` to \
                 \"manual\" to answer it with `respond()`"
                ),
            ));
        }
        let answer = match (&pending.kind, answer) {
            (HandlerKind::Approval, ManualAnswer::Approval(approval)) => Answer::Approval(approval),
            (HandlerKind::Question, ManualAnswer::Question(answers)) => Answer::Question(answers),
            (HandlerKind::Approval, ManualAnswer::Json(json)) => {
                Answer::Approval(Approval::read(&json).map_err(WrongAnswer::given)?)
            }
            (HandlerKind::Question, ManualAnswer::Json(json)) => {
                Answer::Question(Answers::read(&json).map_err(WrongAnswer::given)?)
            }
            (kind, _) => {
                return Err(invalid_option(
                    "answer",
                    format!("`{request_id}` is a request of the kind {kind}, and the answer is of another kind"),
                ));
            }
        };
        if let Some(problem) = self.problem(pending, &answer) {
            return Err(invalid_option("answer", problem));
        }
        self.record_call(CallKind::Respond, None, || vec![("request", request_id.as_str().into())]);
        self.answer_by(key, &answer, (RejectedBy::Handler, None), now);
        Ok(())
    }
}

impl Pending {
    /// Returns the id of the call of a tool over the tools server.
    pub(super) fn tool_call(&self) -> Option<&str> {
        match &self.reply_to {
            ReplyTo::ToolCaller(_) => Some(&self.request_id),
            ReplyTo::Held(held) if matches!(held.reply_to, ReplyTo::ToolCaller(_)) => held.request.request_id(),
            _ => None,
        }
    }

    /// Returns the answer if no handler gives one. `None`: the agent gets an error.
    fn safe_answer(&self, reason: &str) -> Option<Answer> {
        Some(match self.kind {
            HandlerKind::ReadFile | HandlerKind::WriteFile | HandlerKind::Terminal => return None,
            HandlerKind::Question => Answer::Question(None),
            HandlerKind::Tool | HandlerKind::Output => Answer::Tool(ToolReturnValue::error(reason)),
            HandlerKind::Hook => Answer::Hook(match self.on_error {
                OnError::Allow => HookDecision::Allow,
                OnError::Block => HookDecision::Block(format!("the hook failed: {reason}")),
            }),
            _ => Answer::Approval(Approval::Reject { feedback: None }),
        })
    }
}

/// A manual answer, for any kind of request.
#[derive(Clone, Debug)]
pub enum ManualAnswer {
    /// The answer to an approval request.
    Approval(Approval),
    /// The answers to questions; `None` dismisses them.
    Question(Option<Answers>),
    /// The JSON form, from a binding.
    Json(serde_json::Value),
}

/// Returns whether the request comes from a background agent. It then outlives the turn.
pub(super) fn is_background(request: &Event) -> bool {
    use crate::messages::ApprovalSource::BackgroundAgent;
    matches!(request, Event::ApprovalRequest(request) if request.source_kind == Some(BackgroundAgent))
}

/// Returns what the agent has changed in a call since the program was asked about it.
fn change_between(asked: &ToolCallInfo, newest: &ToolCallInfo) -> Option<&'static str> {
    if is_said(asked) && asked.arguments != newest.arguments {
        return Some("the arguments");
    }
    // A kind that says nothing is completed by a later one.
    let kind = |call: &ToolCallInfo| call.kind.clone().filter(|kind| kind.as_str() != "other");
    if kind(asked).is_some_and(|before| kind(newest).is_some_and(|now| now != before)) {
        return Some("the kind");
    }
    let known = |path: &String| asked.diffs.iter().flatten().any(|known| known == path);
    let shows_more = newest.diffs.iter().flatten().any(|path| !known(path));
    shows_more.then_some("the changed files")
}

/// Returns whether the agent names files of which the program knew nothing when it was asked.
fn names_more(asked: &ToolCallInfo, newest: &ToolCallInfo) -> bool {
    let arguments = asked.arguments.iter().flat_map(|arguments| arguments.values());
    let named: Vec<&str> = arguments.filter_map(serde_json::Value::as_str).filter(|text| !text.is_empty()).collect();
    let is_named = |path: &str| named.iter().any(|text| Path::new(path).ends_with(text));
    let known = |path: &String| asked.locations.iter().chain(&asked.diffs).flatten().any(|known| known == path);
    newest.locations.iter().flatten().any(|path| !known(path) && !is_named(path))
}
