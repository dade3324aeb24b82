//! Requests of the agent's: who answers each, and what is said where nobody does. Approvals fail closed.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::tool_calls::{Known, RejectedBy, short};
use super::{Connection, Output, Scope};
use crate::answers::{Answers, Approval, HookDecision, OnError, WrongAnswer};
use crate::dialect::Answer;
use crate::error::Result;
use crate::error::invalid_option;
use crate::naming::Naming;
use crate::secrets::Secrets;
use crate::wire::value::RequestOrigin;
use crate::wire::{
    ApprovalKind, ApprovalRequest, ApprovalResponse, Event, HandlerKind, Question, QuestionRequest, ToolCallRequest,
    ToolReturnValue, UnknownEvent,
};

pub(super) const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// How many requests may await an answer, and how many answered ones are remembered. Whoever asks for more at once
/// gets the safe answers.
const MAX_PENDING: usize = 1024;

const SAME_ID: &str = "another request has the same id: an answer could be meant for either";
/// How the bindings report that the host cancelled a handler, for example because its event loop ends.
const HANDLER_CANCELLED: &str = "cancelled";

/// One of the agent's requests. Not its id: ids may repeat.
pub type RequestKey = u64;

/// A request as somebody names it who answers it manually: by its id, and, unless it is a copy that has lost it, by what
/// it is among all requests of the process.
#[derive(Clone, Debug)]
pub struct RequestRef {
    pub id: String,
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

/// Who answers requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Who {
    /// Nobody: the safe default is said at once.
    #[default]
    Nobody,
    /// Everything is allowed.
    Yolo,
    /// Whoever reads the stream.
    Manual,
    /// A function.
    Handler,
}

/// Who answers what.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub approval: Who,
    pub question: Who,
    pub tools: HashSet<String>,
    /// By subscription id: what counts where the hook fails, and its event.
    pub hooks: HashMap<String, (OnError, String)>,
    /// How the program spells options, for log lines.
    pub naming: Naming,
    /// Whether anybody sees what comes outside turns.
    pub observed: bool,
    /// What is not to be shown of what the agent sends.
    pub secrets: Secrets,
}

/// Where an answer goes.
#[derive(Debug)]
enum Asker {
    /// To the agent, under this id.
    Agent(String),
    /// To the caller of a tool that did not call over the connection, by [`Output::ToolAnswered`].
    Caller(RequestKey),
    /// It has been answered.
    Nobody,
}

#[derive(Debug)]
struct Pending {
    asker: Asker,
    request_id: String,
    kind: HandlerKind,
    name: Option<String>,
    on_error: OnError,
    of_turn: bool,
    manual: bool,
    about: About,
}

/// What a request is about, as far as it is needed once the request has been answered.
#[derive(Debug, Default)]
struct About {
    tool_call: Option<Known>,
    /// Of an approval.
    description: String,
    questions: Vec<Question>,
}

/// The requests that await an answer.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pending: HashMap<RequestKey, Pending>,
    /// Ids of manual requests that are resolved: a late answer to one is no mistake of the program's.
    resolved: HashSet<String>,
}

impl Requests {
    /// Whether the agent waits for the program.
    pub(super) fn waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The newest such request: ids may repeat, also across kinds.
    fn find(&self, request_id: &str, which: impl Fn(&Pending) -> bool) -> Option<RequestKey> {
        let matches = |pending: &Pending| pending.request_id == request_id && which(pending);
        self.pending.iter().filter(|(_, pending)| matches(pending)).map(|(key, _)| *key).max()
    }

    /// The request that is meant by an id alone.
    fn named(&self, request_id: &str) -> Result<Option<RequestKey>> {
        let is_manual = |pending: &&Pending| pending.manual && pending.request_id == request_id;
        if self.pending.values().filter(is_manual).count() > 1 {
            let reason =
                format!("several requests with the id `{request_id}` await an answer; pass the request itself");
            return Err(invalid_option("request", reason));
        }
        Ok(self.find(request_id, |pending| pending.manual).or_else(|| self.find(request_id, |_| true)))
    }

    /// Whether an answer by hand to an approval of this id could be meant for another: one that is open, which is given,
    /// or one of the same turn that was.
    fn doubtful(&self, request_id: &str) -> Option<Option<RequestKey>> {
        let twin = self.find(request_id, |pending| pending.manual && pending.kind == HandlerKind::Approval);
        (twin.is_some() || self.resolved.contains(request_id)).then_some(twin)
    }

    fn take(&mut self, key: RequestKey) -> Option<Pending> {
        let pending = self.pending.remove(&key)?;
        if pending.manual {
            self.remember(&pending.request_id);
        }
        Some(pending)
    }

    /// An answer by hand to this comes too late.
    fn remember(&mut self, request_id: &str) {
        if self.resolved.len() >= MAX_PENDING {
            self.resolved.clear();
        }
        self.resolved.insert(request_id.to_owned());
    }

    /// The agent says that a request is resolved.
    fn resolved(&mut self, request_id: &str) -> Option<(RequestKey, Pending)> {
        let key = self.find(request_id, |pending| pending.kind == HandlerKind::Approval)?;
        Some((key, self.take(key)?))
    }

    fn withdraw(&mut self, which: impl Fn(&Pending) -> bool) -> Vec<(RequestKey, Pending)> {
        let mut keys: Vec<_> = self.pending.iter().filter(|(_, pending)| which(pending)).map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys.into_iter().filter_map(|key| Some((key, self.take(key)?))).collect()
    }

    /// A new turn: nobody answers requests of older ones any more.
    pub(super) fn forget_resolved(&mut self) {
        self.resolved.clear();
    }

    pub(super) fn withdraw_all(&mut self) -> Vec<RequestKey> {
        self.withdraw(|_| true).into_iter().map(|(key, _)| key).collect()
    }
}

impl Connection {
    /// The turn is over, or is being cancelled: its requests need no answer any more. Requests of agents in the background
    /// stay.
    pub(super) fn withdraw_of_turn(&mut self) {
        for (key, pending) in self.requests.withdraw(|pending| pending.of_turn) {
            self.outputs.push_back(Output::Withdrawn(key));
            self.record_rejection(pending, RejectedBy::Cancelled);
        }
    }

    /// The agent says that a request is resolved: by a sibling's approve_for_session, or by the end of its turn.
    pub(super) fn resolved(&mut self, response: &ApprovalResponse) {
        let Some((key, pending)) = self.requests.resolved(&response.request_id) else { return };
        self.outputs.push_back(Output::Withdrawn(key));
        if response.response == ApprovalKind::Reject {
            self.record_rejection(pending, RejectedBy::Cancelled);
        }
    }

    fn record_rejection(&mut self, pending: Pending, by: RejectedBy) {
        if pending.kind == HandlerKind::Approval
            && let Some(turn) = &mut self.turn
        {
            turn.record.rejected(pending.about.tool_call, pending.about.description, by);
        }
    }

    /// What the outcome of the turn, and the check of an answer, need of a request.
    fn about(&mut self, request: &Event) -> About {
        let dialect = &self.dialect;
        let kind = |id: &str| dialect.tool_kind(id);
        let mut find = |agent: Option<&str>, id: &str| self.tool_calls.find(agent, id, &kind);
        match request {
            Event::ApprovalRequest(request) => About {
                tool_call: find(request.agent_id.as_deref(), &request.tool_call_id),
                description: short(&request.description),
                questions: Vec::new(),
            },
            Event::QuestionRequest(request) => About {
                tool_call: find(None, &request.tool_call_id),
                description: String::new(),
                questions: request.questions.clone(),
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

    /// Whether this has not been logged as a warning yet.
    fn warns(&mut self, kind: &HandlerKind, name: Option<&str>) -> bool {
        self.warned.len() < MAX_PENDING && self.warned.insert((kind.clone(), name.map(str::to_owned)))
    }

    pub(super) fn log_failure(&mut self, kind: &HandlerKind, name: Option<&str>, error: &str) {
        // A warning about a missing handler has no name, or that of a tool that is not there.
        let handler = kind.as_str();
        if error == HANDLER_CANCELLED {
            tracing::debug!(handler, name, "a handler was cancelled; the agent got the default answer");
        } else if self.warns(kind, Some(name.unwrap_or_default())) {
            tracing::warn!(
                handler,
                name,
                error,
                "a handler failed; the agent got the default answer. HandlerFailed events tell of each failure, this log of \
                 the first"
            );
        } else {
            tracing::debug!(handler, name, error, "a handler failed again");
        }
    }

    /// Nobody answers a request of this kind: that is logged once.
    fn log_missing(&mut self, request: &Event, unseen: bool) {
        if unseen {
            if self.warns(&HandlerKind::Event, None) {
                let option = self.policy.naming.name("on_event");
                tracing::warn!(
                    "the agent asked for something outside a turn, and got the default answer because nobody sees the request: \
                     set `{option}`. Further such requests are not logged"
                );
            }
            return;
        }
        match request {
            Event::ApprovalRequest(request) if self.warns(&HandlerKind::Approval, None) => {
                let (option, yolo) = (self.policy.naming.name("on_approval"), self.policy.naming.name("yolo"));
                tracing::warn!(
                    action = request.action,
                    "the agent asked for an approval, and it was rejected because nobody answers: set `{option}`, or `{yolo}` to \
                     approve everything. Further rejections are not logged"
                );
            }
            Event::QuestionRequest(_) if self.warns(&HandlerKind::Question, None) => {
                let option = self.policy.naming.name("on_question");
                tracing::warn!(
                    "the agent asked a question, and it was dismissed because nobody answers: set `{option}`. Further \
                     dismissals are not logged"
                );
            }
            Event::ToolCallRequest(call) if self.warns(&HandlerKind::Tool, None) => {
                let option = self.policy.naming.name("tools");
                let name = &call.name;
                tracing::warn!(
                    name,
                    "the agent called a tool that is not among the session's `{option}`, and got an error. Further such calls \
                     are not logged"
                );
            }
            Event::HookRequest(hook) if self.warns(&HandlerKind::Hook, None) => {
                let option = self.policy.naming.name("hooks");
                let subscription = &hook.subscription_id;
                tracing::warn!(
                    subscription,
                    "the agent asked a hook that is not among the session's `{option}`, and it was allowed. Further such \
                     requests are not logged"
                );
            }
            _ => {}
        }
    }

    pub(super) fn request(&mut self, rpc_id: String, mut request: Event, mut size: usize, now: Instant) {
        size += self.add_tool_call(&mut request, now);
        let scope = self.scope();
        let key = self.new_key();
        request.set_origin(RequestOrigin { session: self.number, request: key });
        self.outputs.push_back(Output::Event { scope, event: request.clone().into(), size });
        if let Some(replay) = &mut self.replay {
            return replay.request(rpc_id, request, size);
        }
        self.ask(key, Asker::Agent(rpc_id), scope, request, now);
    }

    /// Takes in a call of a tool that does not come over the connection. It belongs to the present, also during a replay.
    /// The result comes as [`Output::ToolAnswered`] with the returned key; [`Output::Withdrawn`] says that none will come.
    /// Returns `None` if the connection is closed.
    pub fn call_tool(&mut self, call: ToolCallRequest, size: usize, now: Instant) -> Option<RequestKey> {
        if self.is_closed() {
            return None;
        }
        self.heard(now);
        let scope = self.present();
        let request = Event::from(call);
        self.outputs.push_back(Output::Event { scope, event: request.clone().into(), size });
        let key = self.new_key();
        self.ask(key, Asker::Caller(key), scope, request, now);
        Some(key)
    }

    /// Nobody waits for the answer to such a call any more.
    pub fn tool_call_left(&mut self, id: &str, now: Instant) {
        let Some(key) = self.requests.find(id, |pending| matches!(pending.asker, Asker::Caller(_))) else { return };
        self.requests.take(key);
        self.heard(now);
        self.outputs.push_back(Output::Withdrawn(key));
    }

    /// Has a request answered by whoever is to answer it.
    fn ask(&mut self, key: RequestKey, asker: Asker, scope: Scope, request: Event, now: Instant) {
        let (who, kind, name, on_error) = match &request {
            Event::ApprovalRequest(_) => (self.policy.approval, HandlerKind::Approval, None, OnError::Block),
            Event::QuestionRequest(_) => (self.policy.question, HandlerKind::Question, None, OnError::Block),
            Event::ToolCallRequest(call) => {
                let known = self.policy.tools.contains(&call.name);
                let who = if known { Who::Handler } else { Who::Nobody };
                (who, HandlerKind::Tool, Some(call.name.clone()), OnError::Block)
            }
            Event::HookRequest(hook) => match self.policy.hooks.get(&hook.subscription_id) {
                Some((on_error, event)) => (Who::Handler, HandlerKind::Hook, Some(event.clone()), *on_error),
                None => (Who::Nobody, HandlerKind::Hook, Some(hook.event.clone()), OnError::Allow),
            },
            other => {
                if let Asker::Agent(rpc_id) = &asker {
                    self.refuse(rpc_id, other);
                }
                return;
            }
        };
        let request_id = request.request_id().unwrap_or_default().to_owned();
        // While a turn is being cancelled nobody is asked any more; it must not go on by accident, either.
        let of_turn = matches!(scope, Scope::Turn(..)) && !is_background(&request);
        let cancelling = of_turn && self.turn.as_ref().is_some_and(|turn| turn.cancel.is_some());
        let unseen = who == Who::Manual && scope == Scope::Outside && !self.policy.observed;
        // By hand an answer names an id: where that may mean either of two approvals, neither is given.
        let by_hand = who == Who::Manual && kind == HandlerKind::Approval;
        let doubt = if by_hand { self.requests.doubtful(&request_id) } else { None };
        if let Some(Some(key)) = doubt {
            self.handler_failed(key, SAME_ID.to_owned(), now);
        }
        if by_hand && (cancelling || unseen) {
            self.requests.remember(&request_id);
        }
        let who = if cancelling || unseen { Who::Nobody } else { who };
        if who == Who::Nobody && !cancelling {
            self.log_missing(&request, unseen);
        }
        let answer = match (who, &kind) {
            (Who::Nobody, HandlerKind::Approval) => {
                let About { tool_call, description, .. } = self.about(&request);
                let by = if cancelling { RejectedBy::Cancelled } else { RejectedBy::NoHandler };
                if let Some(turn) = &mut self.turn {
                    turn.record.rejected(tool_call, description, by);
                }
                Answer::Approval(Approval::Reject { feedback: None })
            }
            (Who::Yolo, _) => Answer::Approval(Approval::Approve),
            (Who::Nobody, HandlerKind::Question) => Answer::Question(None),
            (Who::Nobody, HandlerKind::Tool) => {
                let name = name.as_deref().unwrap_or_default();
                let reason = if cancelling { "the turn was cancelled" } else { "the program has no such tool" };
                Answer::Tool(ToolReturnValue::error(format!("{name}: {reason}")))
            }
            (Who::Nobody, _) => Answer::Hook(HookDecision::Allow),
            (Who::Manual | Who::Handler, _) => {
                let manual = who == Who::Manual;
                let about = self.about(&request);
                let pending = Pending { asker, request_id, kind, name, on_error, of_turn, manual, about };
                let full = self.requests.pending.len() >= MAX_PENDING;
                self.requests.pending.insert(key, pending);
                if full {
                    let reason = format!("{MAX_PENDING} other requests await an answer");
                    return self.handler_failed(key, reason, now);
                }
                if doubt.is_some() {
                    return self.handler_failed(key, SAME_ID.to_owned(), now);
                }
                if !manual {
                    self.outputs.push_back(Output::Ask { key, scope, request: Box::new(request) });
                }
                return;
            }
        };
        self.say(asker, &request_id, &answer);
    }

    fn say(&mut self, asker: Asker, request_id: &str, answer: &Answer) {
        match asker {
            Asker::Agent(rpc_id) => {
                let bytes = self.dialect.answer(&rpc_id, request_id, answer);
                self.transmit(bytes);
            }
            Asker::Caller(key) => {
                if let Answer::Tool(result) = answer {
                    self.outputs.push_back(Output::ToolAnswered { key, result: result.clone() });
                }
            }
            Asker::Nobody => {}
        }
    }

    fn refuse(&mut self, rpc_id: &str, request: &Event) {
        let (code, reason) = match request {
            Event::Unknown(UnknownEvent { kind, error: Some(error), .. }) => {
                tracing::warn!(kind, error, "a request's payload can't be read; it is refused");
                (INVALID_PARAMS, format!("{kind}: {error}"))
            }
            other => {
                let kind = other.type_name();
                tracing::warn!(kind, "a request of an unknown type; it is refused");
                (METHOD_NOT_FOUND, format!("unknown request type: {kind}"))
            }
        };
        let bytes = self.dialect.refuse(rpc_id, code, &reason);
        self.transmit(bytes);
    }

    /// Answers a request that a handler was asked; too late is fine.
    pub fn answer(&mut self, key: RequestKey, answer: &Answer, now: Instant) {
        let problem = self.requests.pending.get(&key).and_then(|pending| self.problem(pending, answer));
        match problem {
            Some(problem) => self.handler_failed(key, format!("the handler's result cannot be used: {problem}"), now),
            None => self.answer_by(key, answer, RejectedBy::Handler, now),
        }
    }

    /// What is wrong with an answer to this request.
    fn problem(&self, pending: &Pending, answer: &Answer) -> Option<String> {
        match answer {
            Answer::Question(Some(answers)) => {
                answers.problem(&pending.about.questions, self.dialect.accepts_free_answers())
            }
            _ => None,
        }
    }

    fn answer_by(&mut self, key: RequestKey, answer: &Answer, by: RejectedBy, now: Instant) {
        let Some(mut pending) = self.requests.take(key) else { return };
        self.heard(now);
        let asker = std::mem::replace(&mut pending.asker, Asker::Nobody);
        self.say(asker, &pending.request_id, answer);
        if matches!(answer, Answer::Approval(Approval::Reject { .. })) {
            self.record_rejection(pending, by);
        }
    }

    /// A function of the program's failed: the agent gets the safe answer, the program is told.
    pub fn handler_failed(&mut self, key: RequestKey, message: String, now: Instant) {
        let Some(pending) = self.requests.pending.get(&key) else { return };
        let answer = pending.safe_answer(&message);
        let (kind, name, request_id) = (pending.kind.clone(), pending.name.clone(), pending.request_id.clone());
        let tool_call = pending.about.tool_call.clone();
        self.log_failure(&kind, name.as_deref(), &message);
        self.answer_by(key, &answer, RejectedBy::HandlerFailed, now);
        if let Some(turn) = &mut self.turn {
            turn.record.failed(kind.clone(), tool_call, &message);
        }
        self.tell_failure(kind, name, Some(request_id), message);
    }

    /// Whether a request awaits an answer that the program gives itself, while it reads the turn.
    pub fn awaits_manual_answer(&self) -> bool {
        self.requests.pending.values().any(|pending| pending.manual)
    }

    /// Nobody reads the turn that this request came in: one that is to be answered by hand gets the safe answer.
    pub fn unseen(&mut self, request_id: &str, now: Instant) {
        let Some(key) = self.requests.find(request_id, |pending| pending.manual) else { return };
        let Some(pending) = self.requests.pending.get(&key) else { return };
        let answer = pending.safe_answer("nobody reads the turn");
        if self.warns(&HandlerKind::Event, Some("unread")) {
            tracing::warn!(
                request_id,
                "a request that is to be answered manually got the default answer because nobody reads the turn: read its events. \
                 Further such requests are not logged"
            );
        }
        self.answer_by(key, &answer, RejectedBy::NoHandler, now);
    }

    /// Answers a request manually.
    pub fn respond(&mut self, request: impl Into<RequestRef>, answer: ManualAnswer, now: Instant) -> Result<()> {
        let RequestRef { id: request_id, origin } = request.into();
        if origin.is_some_and(|origin| origin.session != self.number) {
            return Err(invalid_option(
                "request",
                format!("`{request_id}` is a request of another session; answer it through that session or its turn"),
            ));
        }
        let found = match origin {
            Some(origin) => Some(origin.request).filter(|key| self.requests.pending.contains_key(key)),
            None => self.requests.named(&request_id)?,
        };
        let Some(key) = found else {
            if self.requests.resolved.contains(&request_id) {
                return Ok(());
            }
            return Err(invalid_option(
                "request",
                format!("no request `{request_id}` awaits an answer: expected the event of an open request, or its id"),
            ));
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
                return Err(invalid_option("answer", format!("`{request_id}` asks for the answer to a {kind}")));
            }
        };
        if let Some(problem) = self.problem(pending, &answer) {
            return Err(invalid_option("answer", problem));
        }
        self.answer_by(key, &answer, RejectedBy::Handler, now);
        Ok(())
    }
}

impl Pending {
    /// What is said where nobody says anything else.
    fn safe_answer(&self, reason: &str) -> Answer {
        match self.kind {
            HandlerKind::Question => Answer::Question(None),
            HandlerKind::Tool => Answer::Tool(ToolReturnValue::error(reason)),
            HandlerKind::Hook => Answer::Hook(match self.on_error {
                OnError::Allow => HookDecision::Allow,
                OnError::Block => HookDecision::Block(format!("the hook failed: {reason}")),
            }),
            _ => Answer::Approval(Approval::Reject { feedback: None }),
        }
    }
}

/// An answer by hand, for whichever kind of request it turns out to be.
#[derive(Clone, Debug)]
pub enum ManualAnswer {
    Approval(Approval),
    Question(Option<Answers>),
    /// As the bindings write it.
    Json(serde_json::Value),
}

/// Whether the request comes from an agent in the background, and so outlives the turn.
pub(super) fn is_background(request: &Event) -> bool {
    use crate::wire::ApprovalSource::BackgroundAgent;
    matches!(request, Event::ApprovalRequest(request) if request.source_kind == Some(BackgroundAgent))
}
