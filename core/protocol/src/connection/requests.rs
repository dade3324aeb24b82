//! Requests of the agent: the source of each answer, and the default answers. Approvals fail closed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) use self::dispatch::is_background;
pub use self::manual::{ManualAnswer, RequestRef};
use super::granted::Subject;
use super::held::Held;
use super::output::OutputTool;
use super::policy::{AskedAbout, ToolRules, is_said};
use super::tool_calls::{Known, short};
use super::{Connection, Output, recording};
use crate::answers::OnError;
use crate::dialect::{CallDetails, Services};
use crate::messages::value::RequestOrigin;
use crate::messages::{Event, HandlerKind, Question, ToolCallRequest};
use crate::naming::Naming;
use crate::secrets::Secrets;

mod answers;
mod changed;
mod dispatch;
mod manual;
mod open;
mod withdrawn;

pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
pub(super) const INTERNAL_ERROR: i64 = -32603;
pub(super) const REQUEST_CANCELLED: i64 = -32800;

/// The limit of the id of a request, in bytes.
pub(super) const MAX_REQUEST_ID: usize = 128 << 10;

/// How long a request waits for an answer before the log reports it.
const REPORT_AFTER: Duration = Duration::from_secs(60);

/// The key of one of the agent's requests. The agent's own ids may repeat.
pub type RequestKey = u64;

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
    /// For an approval: the id of the call.
    call: String,
    /// For an approval: whether the arguments had begun and were not complete.
    is_partial: bool,
    /// For a question: whether it is about a permission, which an approval would be about as well.
    is_choice: bool,
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
    /// For an approval of a call whose arguments are not known.
    texts: Option<Box<changed::Texts>>,
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
    /// Boxed, because a map moves its values.
    pending: BTreeMap<RequestKey, Box<Pending>>,
    /// The size of the open requests, in bytes.
    kept: usize,
    /// Ids of resolved manual requests. A late answer to such a request is not an error.
    resolved: BTreeSet<String>,
}

impl Connection {
    /// Returns the details of a request, for the outcome of the turn and for the check of an answer.
    fn about(&mut self, reply_to: &ReplyTo, request: &Event) -> About {
        let is_partial = match request {
            Event::ApprovalRequest(request) => self.tool_calls.has_begun_arguments(&request.tool_call_id),
            _ => false,
        };
        let dialect = &self.dialect;
        let details = |id: &str| dialect.call_details(id);
        let mut find = |agent: Option<&str>, id: &str| self.tool_calls.find(agent, id, &details);
        match request {
            Event::ApprovalRequest(request) => {
                let CallDetails { shown, replacements, .. } = details(&request.tool_call_id);
                let is_held = matches!(reply_to, ReplyTo::Held(_));
                let tool_call = match reply_to {
                    ReplyTo::Held(held) => Some(Known::of_call(held.call.clone())),
                    _ => find(request.agent_id.as_deref(), &request.tool_call_id),
                };
                let is_known = tool_call.as_ref().is_some_and(|known| is_said(&known.call));
                About {
                    tool_call,
                    texts: (!is_known).then(|| Box::new(changed::Texts::of(request))),
                    call: request.tool_call_id.clone(),
                    is_partial,
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

    /// Notes that an open question is about this permission.
    pub(super) fn note_choice(&mut self, key: RequestKey, rpc_id: String, approval: &Event) {
        let about = self.about(&ReplyTo::Agent(rpc_id), approval);
        if let Some(pending) = self.requests.pending.get_mut(&key) {
            let questions = std::mem::take(&mut pending.about.questions);
            pending.about = About { questions, is_choice: true, subjects: Vec::new(), ..about };
        }
    }

    /// Handles a request of the agent.
    pub(super) fn request(&mut self, rpc_id: String, request: Box<Event>, size: usize, now: Instant) {
        self.keyed_request(rpc_id, request, size, now);
    }

    /// Handles a request of the agent. Returns its key, unless it is answered without one, or is part of a replay.
    pub(super) fn keyed_request(
        &mut self,
        rpc_id: String,
        mut request: Box<Event>,
        mut size: usize,
        now: Instant,
    ) -> Option<RequestKey> {
        if rpc_id.len().max(request.request_id().map_or(0, str::len)) > MAX_REQUEST_ID {
            let reason = format!("the id of the request exceeds {MAX_REQUEST_ID} bytes");
            self.refuse_with(&rpc_id, INVALID_PARAMS, &reason);
            return None;
        }
        if let Event::ApprovalRequest(request) = &*request {
            self.restate_call(request, now);
        }
        size += self.add_tool_call(&mut request, now);
        if self.is_of_policy(&request) {
            self.decide_before_call(rpc_id, &request);
            return None;
        }
        let scope = self.scope();
        let key = self.new_key();
        request.set_origin(RequestOrigin { session: self.number, request: key });
        if let Event::TerminalRequest(request) = &mut *request {
            request.id = self.terminals.next_id();
        }
        self.outputs.push_back(Output::Event { scope, event: request.clone(), size });
        if let Some(replay) = &mut self.replay {
            replay.request(rpc_id, request, size);
            return None;
        }
        self.dispatch(key, ReplyTo::Agent(rpc_id), scope, (request, size), false, now);
        Some(key)
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
        let mut request = Box::new(Event::from(call));
        size += self.add_tool_call(&mut request, now);
        self.outputs.push_back(Output::Event { scope, event: request.clone(), size });
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
}
