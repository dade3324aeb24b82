//! The end of a turn: the server's words for it, and the failure of a turn.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::calls::{MODEL_FAILED, MODEL_NOT_SET, NOT_LOGGED_IN};
use super::{KimiWeb, failure};
use crate::connection::TurnStatus;
use crate::dialect::ends::{in_snake_case, status_of};
use crate::jsonrpc::RpcFailure;
use crate::messages::{Json, decode_body};

/// The error of the model's service that has filtered the answer.
const FILTERED: &str = "provider.filtered";
/// The reason of a turn that ended by itself. A failure that is reported beside it has precedence.
const COMPLETED: &str = "completed";

/// The end of a turn, as the server reports it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ended {
    pub(super) turn_id: Option<i64>,
    reason: Option<String>,
    #[serde(default, deserialize_with = "turn_error")]
    error: Option<TurnError>,
    interrupt_reason: Option<String>,
    stop_reason: Option<String>,
}

/// The failure of a turn.
#[derive(Debug)]
enum TurnError {
    /// The text alone.
    Text(String),
    /// With a code, a message and details.
    Members(Map<String, Value>),
}

fn turn_error<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<TurnError>, D::Error> {
    Ok(match Option::<Value>::deserialize(deserializer)? {
        Some(Value::String(text)) if !text.trim().is_empty() => Some(TurnError::Text(text)),
        Some(Value::Object(mut members)) if !members.is_empty() => {
            // Kimi Code 2.1.0 sends `retryable: false` also for a failure of the service with status 500.
            members.retain(|name, _| ["code", "message", "details"].contains(&&**name));
            Some(TurnError::Members(members))
        }
        None | Some(Value::String(_) | Value::Object(_)) => None,
        Some(_) => {
            tracing::debug!(field = "error", "unreadable optional field left out");
            None
        }
    })
}

impl TurnError {
    fn word(&self, name: &str) -> &str {
        match self {
            Self::Text(text) if name == "message" => text,
            Self::Text(_) => "",
            Self::Members(members) => members.get(name).and_then(Value::as_str).unwrap_or_default(),
        }
    }
}

impl Ended {
    /// Makes the end of a prompt for which the server reports only this.
    pub(super) fn of_prompt(reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()), ..Self::default() }
    }

    /// Whether it says how the turn ended. If not, the end of the prompt says it.
    pub(super) fn is_told(&self) -> bool {
        self.reason.is_some() || self.error.is_some()
    }

    /// Converts the end of a turn to a canonical status or a failure. `cut` is the word for an answer that was cut or refused.
    pub(super) fn outcome(self, cut: Option<&str>) -> std::result::Result<Json, RpcFailure> {
        let code = self.error.as_ref().map_or("", |error| error.word("code"));
        let is_cut = cut.and_then(cut_by).is_some();
        match self.reason.as_deref().unwrap_or(COMPLETED) {
            COMPLETED if self.error.is_none() || is_cut => Ok(match (cut, self.stop_reason) {
                (Some(word), _) => ended(cut_by(word).unwrap_or(TurnStatus::Finished).as_str(), word),
                (None, Some(word)) => ended("finished", &word),
                (None, None) => status("finished"),
            }),
            "cancelled" | "aborted" => Ok(status("cancelled")),
            _ if self.interrupt_reason.as_deref() == Some("max_steps") || code == "loop.max_steps_exceeded" => {
                Ok(status("max_steps_reached"))
            }
            "blocked" => {
                let message = self.error.as_ref().map_or("", |error| error.word("message"));
                tracing::debug!(message, "a hook of the agent has blocked the turn");
                Ok(ended("refused", "blocked"))
            }
            _ if code == FILTERED => Ok(ended("refused", FILTERED)),
            // The connection logs a word that is not known.
            reason if reason != "failed" && self.error.is_none() => Ok(match cut.and_then(cut_by).zip(cut) {
                Some((cut, word)) => ended(cut.as_str(), word),
                None => status(reason),
            }),
            _ => Err(failed(self.error)),
        }
    }
}

fn failed(error: Option<TurnError>) -> RpcFailure {
    const SILENT: &str = "the turn failed, and the agent gives no reason";
    let Some(error) = error else { return failure(0, SILENT) };
    let name = error.word("code");
    let code = match name {
        "model.not_configured" | "auth.model_not_resolved" | "model.not_found" => MODEL_NOT_SET,
        "provider.auth_error" | "provider.auth_expired" => NOT_LOGGED_IN,
        name if name.starts_with("provider.") => MODEL_FAILED,
        name if name.starts_with("auth.") => NOT_LOGGED_IN,
        // The words of the error can show its kind.
        _ => 0,
    };
    let message = match (error.word("message"), name) {
        ("", "") => SILENT.to_owned(),
        ("", name) => format!("{SILENT}: {name}"),
        (message, "") => message.to_owned(),
        (message, name) => format!("{message} ({name})"),
    };
    let data = match error {
        TurnError::Members(members) => Some(Json::from(Value::Object(members))),
        TurnError::Text(_) => None,
    };
    RpcFailure { code, message, data }
}

pub(super) fn status(word: &str) -> Json {
    Json::from(json!({"status": word}))
}

fn ended(status: &str, word: &str) -> Json {
    Json::from(json!({"status": status, "stop_reason": word}))
}

/// Returns the status if a word says that the answer was cut or refused.
fn cut_by(word: &str) -> Option<TurnStatus> {
    match status_of(word) {
        None if in_snake_case(word) == "filtered" => Some(TurnStatus::Refused),
        status => status.filter(|status| {
            matches!(status, TurnStatus::Truncated | TurnStatus::Refused | TurnStatus::MaxStepsReached)
        }),
    }
}

/// Returns the word of a payload that says that the answer was cut or refused.
pub(super) fn cut_word(payload: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Words {
        stop_reason: Option<String>,
        finish_reason: Option<String>,
        raw_finish_reason: Option<String>,
    }
    let words: Words = decode_body(payload).ok()?;
    let words = [words.stop_reason, words.finish_reason, words.raw_finish_reason];
    words.into_iter().flatten().find(|word| cut_by(word).is_some())
}

impl KimiWeb {
    /// Remembers whether the answer of the main agent's step was cut. A later step makes that meaningless.
    pub(super) fn note_cut(&mut self, payload: &str) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Step {
            turn_id: Option<i64>,
            step: Option<i64>,
        }
        let main = &mut self.agents.main;
        let is_last = decode_body::<Step>(payload).is_ok_and(|ended| {
            ended.turn_id.is_none_or(|turn| turn == main.turn) && ended.step.is_none_or(|step| step == main.step)
        });
        if is_last {
            main.cut = cut_word(payload);
        }
    }

    /// Returns the word for the cut answer of a turn's last step.
    pub(super) fn cut_of(&self, turn: Option<i64>) -> Option<String> {
        let main = &self.agents.main;
        main.cut.clone().filter(|_| turn == Some(main.turn))
    }
}
