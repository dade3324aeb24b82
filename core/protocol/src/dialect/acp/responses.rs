//! The calls to the agent that have no response yet, and the effects of the responses.

use serde_json::{Value, json};

use super::config::Setting;
use super::opening::Stage;
use super::steering::Steer;
use super::{Acp, CANCELLED, failure};
use crate::dialect::Incoming;
use crate::dialect::ends::status_of;
use crate::jsonrpc::RpcFailure;
use crate::messages::Json;
use crate::service::says_cancelled;

/// A call to the agent, with the connection's id and ours.
#[derive(Debug)]
pub(super) struct Asked {
    /// The id of the call in the connection.
    pub(super) id: String,
    pub(super) prompt: bool,
    /// The option that the call sets.
    pub(super) sets: Option<Setting>,
    /// The steer that the call is.
    pub(super) steers: Option<Steer>,
}

impl Asked {
    /// A call that is neither a prompt nor one with an effect here.
    pub(super) fn of(id: &str) -> Self {
        Self { id: id.to_owned(), prompt: false, sets: None, steers: None }
    }
}

impl Acp {
    pub(super) fn read_response(
        &mut self,
        id: Option<&str>,
        outcome: std::result::Result<Json, RpcFailure>,
    ) -> Incoming {
        let Some(id) = id else { return Incoming::Response { id: None, outcome } };
        if self.given_up.is_some_and(|number| id == number.to_string()) {
            self.given_up = None;
            return Incoming::Batch(Vec::new());
        }
        let Some(mut asked) = self.calls.take(id) else {
            // Without the original id, which may equal an id of the connection's calls.
            return Incoming::InvalidLine("an answer to no call".to_owned());
        };
        if let Some(steer) = asked.steers.take() {
            return self.steered(asked.id, steer, outcome);
        }
        if !asked.prompt {
            let mut all = Vec::new();
            if let (Some(setting), Ok(answer)) = (&asked.sets, &outcome) {
                self.option_set(setting, answer, &mut all);
            }
            if let (Stage::Session, Ok(answer)) = (&self.stage, &outcome) {
                self.report_early_mode(answer, &mut all);
            }
            all.push(Incoming::Response { id: Some(asked.id), outcome });
            return Incoming::batch(all);
        }
        let mut usage = Vec::new();
        if let Ok(answer) = &outcome {
            self.usage_of_answer(answer, &mut usage);
        }
        let is_cancelled = self.cancelling.is_some();
        let outcome = match outcome {
            Ok(answer) if !is_cancelled => match self
                .reported_failure()
                .or_else(|| self.agent_error.take().map(|error| *error))
                .or_else(|| failure::of_answer(&answer))
            {
                Some(failure) => failure::cut_answer(&failure).ok_or(failure),
                None => Ok(stopped(&answer, false)),
            },
            Ok(answer) => Ok(stopped(&answer, is_cancelled)),
            Err(failure) if is_cancelled && is_cancel(&failure) => Ok(Json::from(json!({"status": "cancelled"}))),
            Err(failure) => failure::cut_answer(&failure).ok_or(failure),
        };
        let mut all = Vec::new();
        if is_cancelled {
            self.leave_waiting(&mut all);
        } else {
            self.deliver_waiting(&mut all);
        }
        if outcome.is_ok() && self.cancelling.is_none() {
            self.begin_step(&mut all);
        }
        all.append(&mut usage);
        self.end_turn();
        if let Some(cancel) = self.cancelling.take() {
            all.push(Incoming::Response { id: Some(cancel), outcome: Ok(Json::from(json!({}))) });
        }
        all.push(Incoming::Response { id: Some(asked.id), outcome });
        Incoming::batch(all)
    }
}

/// Returns how a turn ended, as a canonical status, with the agent's own word. A word of no known meaning becomes the
/// status, which the connection reports.
pub(super) fn stopped(answer: &Json, is_cancelled: bool) -> Json {
    let read = match answer.to_value() {
        Value::Null => None,
        Value::String(word) => Some(word),
        Value::Object(members) => ["stopReason", "stop_reason"].iter().find_map(|name| word_of(members.get(*name)?)),
        _ => return answer.clone(),
    };
    let stop_reason = match read {
        Some(stop_reason) => stop_reason,
        None => {
            tracing::warn!("the agent ended the turn without a reason");
            return Json::from(
                json!({"status": if is_cancelled { "cancelled" } else { "finished" }, "stop_reason": ""}),
            );
        }
    };
    let is_certain = ["max_tokens", "max_turn_requests", "refusal"].contains(&&*failure::in_snake_case(&stop_reason));
    let status = match status_of(&stop_reason) {
        // Some agents end a turn that they have stopped as if it were complete, or with a word of their own.
        _ if is_cancelled && !is_certain => "cancelled",
        Some(status) => status.as_str(),
        None => &*stop_reason,
    };
    Json::from(json!({"status": status, "stop_reason": stop_reason}))
}

/// Returns the word of a stop reason. Some agents wrap it in an object.
fn word_of(reason: &Value) -> Option<String> {
    let word = match reason {
        Value::Object(members) => ["type", "reason", "kind"].iter().find_map(|name| members.get(*name)?.as_str()),
        other => other.as_str(),
    };
    word.map(str::to_owned)
}

/// Returns whether a failure only says that the turn was cancelled.
pub(super) fn is_cancel(failure: &RpcFailure) -> bool {
    let data = failure.data.as_ref().map(|data| data.to_value());
    failure.code == CANCELLED || says_cancelled(&failure.message, data.as_ref())
}
