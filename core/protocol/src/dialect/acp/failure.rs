//! Texts of errors that agents send: details from other fields are added, and what to do about a missing login.

use serde_json::{Value, json};

use super::Acp;
use super::opening::UNAUTHORISED;
pub(super) use crate::dialect::ends::in_snake_case;
use crate::error::RpcErrorKind;
use crate::json::parsed_object;
use crate::jsonrpc::{NO_CODE, RpcFailure};
use crate::messages::Json;
use crate::service::recognised;

/// Texts about a prompt during a turn, in lower case.
const BUSY: [&str; 3] = ["already processing", "already running", "already in progress"];
/// Texts about a call before the handshake, in lower case.
const UNINITIALIZED: [&str; 1] = ["not initialized"];
/// The limit of characters that are quoted from an agent's details.
const MAX_DETAILS: usize = 1000;

/// Adds the details in `data` to the message. Agents that use the protocol's TypeScript library send "Internal error"
/// as the message, and the reason in `data`.
pub(super) fn with_details(mut failure: RpcFailure) -> RpcFailure {
    let data = failure.data.as_ref().and_then(|data| data.decode::<Value>().ok());
    let details = match &data {
        Some(Value::String(details)) => Some(details),
        Some(Value::Object(data)) => match data.get("details") {
            Some(Value::String(details)) => Some(details),
            _ => None,
        },
        _ => None,
    };
    if let Some(details) = details.map(|text| text.trim()).filter(|text| !failure.message.contains(text)) {
        let end = details.char_indices().nth(MAX_DETAILS).map(|(end, _)| end);
        failure.message = match end {
            Some(end) => format!("{}: {}…", failure.message, &details[..end]),
            None => format!("{}: {details}", failure.message),
        };
    }
    failure
}

/// Returns whether the agent reports that no model is set, as Kimi Code names it.
pub(super) fn is_model_missing(data: Option<&Json>) -> bool {
    let data = data.and_then(|data| data.decode::<Value>().ok());
    data.is_some_and(|data| data.get("code").is_some_and(|code| code == "model.not_configured"))
}

/// Returns the end of a turn whose answer was cut or filtered, with the agent's own word. Claude Code (0.101.0) and Codex
/// (codex-acp 2.6.0) report it as an error.
pub(super) fn cut_answer(failure: &RpcFailure) -> Option<Json> {
    let data = failure.data.as_ref().and_then(|data| data.decode::<Value>().ok());
    let kind = data.as_ref().and_then(|data| data.get("errorKind")?.as_str());
    // Kimi Code's names of errors.
    let code = data.as_ref().and_then(|data| data.get("code")?.as_str());
    let (status, word) = if kind == Some("max_output_tokens") || failure.message.contains("reason: max_output_tokens") {
        ("truncated", "max_output_tokens")
    } else if code == Some("loop.max_steps_exceeded") {
        ("max_steps_reached", "loop.max_steps_exceeded")
    } else if code == Some("provider.filtered") {
        ("refused", "provider.filtered")
    } else if failure.message.contains("reason: content_filter") {
        ("refused", "content_filter")
    } else {
        return None;
    };
    Some(Json::from(json!({"status": status, "stop_reason": word})))
}

/// Returns the failure of a turn that the agent reports beside the stop reason. The protocol has no place for it: CodeBuddy reports
/// failures of the model in `_meta`, others in the answer itself. A reason that says how the answer was cut has precedence.
pub(super) fn of_answer(answer: &Json) -> Option<RpcFailure> {
    const CUT: [&str; 3] = ["cancel", "max_", "length"];
    let read = answer.to_value();
    let meta = read.get("_meta").and_then(Value::as_object).into_iter().flatten();
    let reason = read.get("stopReason").or_else(|| read.get("stop_reason"));
    let reason = reason.and_then(Value::as_str).map(in_snake_case);
    let is_cut = reason.is_some_and(|reason| CUT.iter().any(|start| reason.starts_with(start)));
    let mut all = read.as_object().into_iter().flatten().chain(meta).filter(|_| !is_cut);
    let (name, error, message) = all.find_map(|(name, error)| Some((name, error, error_text(name, error)?)))?;
    Some(RpcFailure { code: NO_CODE, message: message.to_owned(), data: Some(json!({name: error}).into()) })
}

/// Returns the text of a member that is the error of the turn. Other members whose names end in `error` are about something else.
fn error_text<'a>(name: &str, value: &'a Value) -> Option<&'a str> {
    const NONE: [&str; 5] = ["no error", "none", "ok", "null", "success"];
    let name = in_snake_case(name.rsplit(['/', '.', ':']).next().unwrap_or(name));
    let is_code = |code: &Value| code == 0 || code == 200;
    let text = match value {
        Value::String(text) => text,
        Value::Object(members) if !members.get("code").is_some_and(is_code) => members.get("message")?.as_str()?,
        _ => return None,
    };
    let word = text.trim();
    let is_none = word.is_empty() || NONE.iter().any(|none| word.eq_ignore_ascii_case(none));
    (["error", "error_message"].contains(&&*name) && !is_none).then_some(text)
}

/// Returns whether the agent refuses a prompt because another turn runs.
pub(super) fn is_busy(failure: &RpcFailure) -> bool {
    let data = failure.data.as_ref().and_then(|data| data.decode::<Value>().ok());
    let code = data.as_ref().and_then(|data| data.get("code")?.as_str());
    let text = failure.message.to_lowercase();
    code == Some("turn.agent_busy") || (failure.code == UNAUTHORISED && BUSY.iter().any(|busy| text.contains(busy)))
}

/// Returns whether the agent asks for a login. Libraries of JSON-RPC use the code also for errors of any kind.
pub(super) fn is_login_missing(failure: &RpcFailure) -> bool {
    let text = failure.message.to_lowercase();
    let data = failure.data.as_ref().and_then(|data| data.decode::<Value>().ok());
    let found = recognised(Some(failure.code), &failure.message, data.as_ref());
    failure.code == UNAUTHORISED
        && found.is_none_or(|failure| failure.kind == RpcErrorKind::AuthExpired)
        && !BUSY.iter().chain(&UNINITIALIZED).any(|other| text.contains(other))
}

/// The limit of the text of a failure that is kept, in bytes.
const MAX_FAILURE: usize = 64 << 10;
/// The update with the state of a thread.
pub(super) const STATE_UPDATE: &str = "session_info_update";
/// The update with an error of the turn, which is not of the protocol.
const AGENT_ERROR: &str = "agent_error";

impl Acp {
    /// Notes a failure of the model's service that the agent does not answer with. Codex (codex-acp 2.6.0) answers such a
    /// prompt with `end_turn`: it reports the state `systemError` of its thread, and the text of the failure as a piece of
    /// the answer.
    pub(super) fn note_failure(&mut self, kind: &str, update: &str) {
        let Ok(update) = serde_json::from_str::<Value>(update) else { return };
        let text = |place: &str| update.pointer(place).and_then(Value::as_str);
        match (kind, &mut self.failure) {
            (STATE_UPDATE, failure) => match text("/_meta/codex/threadStatus/type") {
                Some("systemError") => *failure = Some(String::new()),
                Some(_) => *failure = None,
                None => {}
            },
            ("agent_message_chunk", Some(failure)) if failure.len() <= MAX_FAILURE => {
                failure.push_str(text("/content/text").filter(|text| text.len() <= MAX_FAILURE).unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Notes an error that an update reports. It does not end the turn if the agent continues after it.
    pub(super) fn note_agent_error(&mut self, kind: &str, update: &str) {
        if kind != AGENT_ERROR {
            let continues =
                ["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update"].contains(&kind);
            self.agent_error = self.agent_error.take().filter(|_| !continues);
            return;
        }
        let Some(error) = parsed_object(update).and_then(|mut update| update.remove("error")) else { return };
        let Some(message) = error.as_str().or_else(|| error.get("message")?.as_str()) else { return };
        let message = message.to_owned();
        self.agent_error =
            Some(Box::new(RpcFailure { code: NO_CODE, message, data: Some(json!({"error": error}).into()) }));
    }

    /// Returns the failure that was noted. Its text can be the answer of the model's service.
    pub(super) fn reported_failure(&mut self) -> Option<RpcFailure> {
        let text = self.failure.take()?;
        let data = serde_json::from_str::<Value>(text.trim()).ok();
        let quoted = data.as_ref().and_then(|data| data.pointer("/error/message").or(data.get("message")));
        let message = match quoted.and_then(Value::as_str).unwrap_or(text.trim()) {
            "" => "the agent reports an error of the model's service, without its text",
            message => message,
        };
        Some(RpcFailure {
            code: NO_CODE,
            message: message.to_owned(),
            data: Some(json!({"threadStatus": "systemError", "error": data}).into()),
        })
    }

    /// Returns how to log in, unless the agent is Kimi Code.
    pub(super) fn login_of_another(&self) -> Option<String> {
        let name = self.server.as_ref().map_or("the agent", |server| &server.name);
        (!name.to_lowercase().contains("kimi")).then(|| {
            format!(
                "log in with {name} itself, or give it the key of a model's provider in `env` or in its configuration"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(data: Value) -> String {
        let failure = RpcFailure { code: -32603, message: "Internal error".to_owned(), data: Some(Json::from(data)) };
        with_details(failure).message
    }

    #[test]
    fn error_details_are_added_once_and_bounded() {
        assert_eq!(message(json!({"details": "400 no such model"})), "Internal error: 400 no such model");
        assert_eq!(message(json!("no disk")), "Internal error: no disk");
        for without in [json!(null), json!({"details": 3}), json!({"code": "x"}), json!([]), json!("error")] {
            assert_eq!(message(without), "Internal error");
        }
        let long = message(json!({"details": "ä".repeat(5000)}));
        assert_eq!(long.chars().count(), "Internal error: …".chars().count() + 1000);
    }
}
