//! The source of the answer to a request: a handler, the reader of the events, or the default answer.

use std::time::Instant;

use super::{
    About, AnswerSource, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Pending, REPORT_AFTER, REQUEST_CANCELLED,
    ReplyTo, RequestKey,
};
use crate::answers::{Approval, HookDecision, OnError};
use crate::connection::held::Held;
use crate::connection::policy::Verdict;
use crate::connection::recording::Decided;
use crate::connection::terminals::MAX_TERMINALS;
use crate::connection::tool_calls::RejectedBy;
use crate::connection::{Connection, Output, Scope};
use crate::dialect::{Answer, TerminalAnswer};
use crate::messages::{Event, HandlerKind, ToolReturnValue, UnknownEvent};
use crate::recording::Decider;

const SAME_ID: &str = "another request has the same id: an answer could be meant for either";

impl Connection {
    /// Answers a request, or passes it to a handler, according to the policy. `is_approved`: the program has approved it.
    pub(in super::super) fn dispatch(
        &mut self,
        key: RequestKey,
        mut reply_to: ReplyTo,
        scope: Scope,
        (request, size): (Box<Event>, usize),
        is_approved: bool,
        now: Instant,
    ) {
        let services = self.sources.services;
        let served = |is_set| if is_set { AnswerSource::Handler } else { AnswerSource::Default };
        let (source, kind, name, on_error) = match &*request {
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
        } else if let Event::ApprovalRequest(request) = &*request
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
        if let Event::ToolCallRequest(call) = &*request
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
        if let (Event::TerminalRequest(request), ReplyTo::Agent(rpc_id)) = (&*request, &reply_to) {
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
                let pending = Box::new(Pending {
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
                });
                if let Some(reason) = self.requests.add(key, pending) {
                    return self.handler_failed(key, reason, now);
                }
                if ambiguity.is_some() {
                    return self.handler_failed(key, SAME_ID.to_owned(), now);
                }
                if !manual && !is_checked {
                    self.outputs.push_back(Output::Ask { key, scope, request });
                }
                return;
            }
        };
        let by = match source {
            AnswerSource::Yolo => Decider::Yolo,
            _ if cancelling => Decider::Cancelled,
            _ => Decider::Default,
        };
        let tool_call = match &*request {
            Event::ApprovalRequest(request) => Some(&*request.tool_call_id),
            _ => None,
        };
        self.record_decision(Decided { tool_call, ..Decided::at_once(&request_id, &kind, by, &answer) });
        self.send_answer_or_go_on(reply_to, &request_id, &answer, now);
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
}

/// Returns whether the request comes from a background agent. It then outlives the turn.
pub(in super::super) fn is_background(request: &Event) -> bool {
    use crate::messages::ApprovalSource::BackgroundAgent;
    matches!(request, Event::ApprovalRequest(request) if request.source_kind == Some(BackgroundAgent))
}
