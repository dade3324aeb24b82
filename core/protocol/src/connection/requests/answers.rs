//! Answers to requests: results of handlers, and the answers if a handler fails.

use std::time::Instant;

use super::{INTERNAL_ERROR, Pending, ReplyTo, RequestKey};
use crate::answers::{Approval, HookDecision, OnError};
use crate::connection::tool_calls::RejectedBy;
use crate::connection::warnings::logged_failure;
use crate::connection::{Connection, Output, recording};
use crate::dialect::Answer;
use crate::messages::{HandlerKind, ToolReturnValue};

impl Connection {
    pub(in super::super) fn send_answer(&mut self, reply_to: ReplyTo, request_id: &str, answer: &Answer) {
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

    /// Answers a request with a handler's result. A late answer is ignored.
    pub fn answer(&mut self, key: RequestKey, answer: &Answer, now: Instant) {
        let problem = self.requests.pending.get(&key).and_then(|pending| self.problem(pending, answer));
        match problem {
            Some(problem) => self.handler_failed(key, format!("the handler's result cannot be used: {problem}"), now),
            None => self.answer_by(key, answer, (RejectedBy::Handler, None), now),
        }
    }

    /// Returns the reason why an answer does not fit the request.
    pub(super) fn problem(&self, pending: &Pending, answer: &Answer) -> Option<String> {
        match answer {
            Answer::Question(Some(answers)) => {
                answers.problem(&pending.about.questions, self.dialect.accepts_free_answers())
            }
            _ => None,
        }
    }

    /// Sends an answer. `failure` says why a handler gave none.
    pub(super) fn answer_by(
        &mut self,
        key: RequestKey,
        answer: &Answer,
        (by, failure): (RejectedBy, Option<&str>),
        now: Instant,
    ) {
        let is_choice = || self.requests.pending.get(&key).is_some_and(|pending| pending.about.is_choice);
        let permits = match answer {
            Answer::Approval(Approval::Approve | Approval::ApproveForSession) => true,
            Answer::Question(Some(_)) => is_choice(),
            _ => false,
        };
        if permits && let Some(change) = self.change_of_call(key) {
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
            Answer::Approval(Approval::Reject { .. }) => self.withdraw(&pending.about.subjects),
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
}

impl Pending {
    /// Returns the answer if no handler gives one. `None`: the agent gets an error.
    pub(super) fn safe_answer(&self, reason: &str) -> Option<Answer> {
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
