//! Answers of the program through `respond()`.

use std::time::Instant;

use super::{AnswerSource, AnswerSources};
use crate::answers::{Answers, Approval, WrongAnswer};
use crate::connection::Connection;
use crate::connection::tool_calls::RejectedBy;
use crate::connection::warnings::HANDLERS;
use crate::dialect::Answer;
use crate::error::{Result, invalid_option};
use crate::messages::value::RequestOrigin;
use crate::messages::{ApprovalRequest, HandlerKind, QuestionRequest};
use crate::recording::CallKind;

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

impl Connection {
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
