//! Errors as JSON: for results of batches, which travel between machines.

use serde_json::Value;

use crate::budget::{BudgetCounter, BudgetExceeded};
use crate::connection::{PromptResult, TurnStatus};
use crate::dialect::AuthMethod;
use crate::error::{AgentExit, Error, Partial, RpcError, RpcErrorKind, fields};
use crate::json::{Json, held_value};
use crate::output::OutputInvalid;

/// The kinds of errors with which an agent answers, by their code.
const RPC_KINDS: [(&str, RpcErrorKind); 8] = [
    ("turn_in_progress", RpcErrorKind::TurnInProgress),
    ("no_active_turn", RpcErrorKind::NoActiveTurn),
    ("llm_not_set", RpcErrorKind::LlmNotSet),
    ("llm_not_supported", RpcErrorKind::LlmNotSupported),
    ("llm_service_error", RpcErrorKind::LlmServiceError),
    ("auth_expired", RpcErrorKind::AuthExpired),
    ("context_too_long", RpcErrorKind::ContextTooLong),
    ("rpc_error", RpcErrorKind::Other),
];

/// Returns an error as JSON: its code, its text as `message`, and its other attributes. `result` has what a turn that was
/// ended has produced.
pub fn error_to_json(error: &Error) -> Value {
    let mut object = fields(error);
    if let Error::AgentExited(AgentExit { hint: Some(hint), .. }) = error {
        object.insert("hint".to_owned(), hint.as_str().into());
    }
    if let Some(result) = error.result() {
        object.insert("result".to_owned(), held_value(result));
    }
    object.insert("code".to_owned(), error.code().into());
    object.insert("message".to_owned(), error.to_string().into());
    Value::Object(object)
}

/// Reads an error from the JSON that [`error_to_json`] makes.
pub fn error_from_json(value: &Value) -> Error {
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let message = text("message");
    match value["code"].as_str().unwrap_or_default() {
        "invalid_option" => {
            let option = text("option");
            let prefix = format!("invalid option `{option}`: ");
            let reason = message.strip_prefix(&prefix).unwrap_or(&message).to_owned();
            Error::InvalidOption { option, reason }
        }
        "spawn_error" => Error::Spawn(message),
        "handshake_error" => Error::Handshake(message),
        "agent_exited" => Error::AgentExited(agent_exit(value)),
        "protocol_error" => with_result(Error::Protocol(message.into()), value),
        "unsupported" => Error::Unsupported(message),
        "session_closed" => with_result(Error::SessionClosed(message.into()), value),
        "timeout" => with_result(Error::Timeout(message.into()), value),
        "event_buffer_full" => with_result(Error::EventBufferFull(message.into()), value),
        "turn_cancelled" => with_result(Error::TurnCancelled(Partial::default()), value),
        "max_steps_reached" => {
            let steps = value["steps"].as_i64();
            with_result(Error::MaxStepsReached { steps, result: Partial::default() }, value)
        }
        "answer_truncated" => Error::AnswerTruncated(Box::new(partial_result(value))),
        "answer_refused" => Error::AnswerRefused(Box::new(partial_result(value))),
        "budget_exceeded" => budget_exceeded(value).unwrap_or(Error::Internal(message)),
        "output_invalid" => output_invalid(value).into(),
        code => match RPC_KINDS.iter().find(|(name, _)| *name == code) {
            Some((_, kind)) => Error::Rpc(rpc_error(value, *kind, message)),
            None => Error::Internal(message),
        },
    }
}

fn agent_exit(value: &Value) -> AgentExit {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let exit_code = value["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok());
    let stderr = text("stderr").unwrap_or_default();
    AgentExit { exit_code, signal: text("signal"), stderr, hint: text("hint"), result: result(value).map(Box::new) }
}

/// Reads the answer of an agent. Its text ends with its number and its hint.
fn rpc_error(value: &Value, kind: RpcErrorKind, text: String) -> RpcError {
    let hint: Option<Box<str>> = value["hint"].as_str().map(Into::into);
    let rpc_code = value["rpc_code"].as_i64();
    let mut message = text.as_str();
    if let Some(hint) = &hint {
        message = message.strip_suffix(&format!("; {hint}")).unwrap_or(message);
    }
    if let Some(code) = rpc_code {
        message = message.strip_suffix(&format!(" ({code})")).unwrap_or(message);
    }
    let data = Some(&value["data"]).filter(|data| !data.is_null()).map(|data| Json::from(data.clone()));
    let methods: Vec<AuthMethod> = serde_json::from_value(value["methods"].clone()).unwrap_or_default();
    let result = result(value).map(Box::new);
    RpcError { rpc_code, data, hint, result, methods: methods.into(), ..RpcError::new(kind, message) }
}

fn with_result(error: Error, value: &Value) -> Error {
    match result(value) {
        Some(result) => error.with_result(result),
        None => error,
    }
}

/// Reads the result of a turn that an error has ended, if it has one.
fn result(value: &Value) -> Option<PromptResult> {
    serde_json::from_value(value.get("result")?.clone()).ok()
}

fn budget_exceeded(value: &Value) -> Option<Error> {
    let counter = BudgetCounter::named(value["counter"].as_str()?)?;
    let option = if value["option"] == "session_budget" { "session_budget" } else { "budget" };
    let (limit, used) = (value["limit"].as_f64()?, value["used"].as_f64()?);
    Some(BudgetExceeded { option, counter, limit, used, result: partial_result(value) }.into())
}

/// Reads the result of a turn that was ended.
fn partial_result(value: &Value) -> PromptResult {
    result(value).unwrap_or_else(|| PromptResult::empty(TurnStatus::Cancelled))
}

fn output_invalid(value: &Value) -> OutputInvalid {
    OutputInvalid {
        attempts: value["attempts"].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or_default(),
        text: value["text"].as_str().unwrap_or_default().to_owned(),
        errors: serde_json::from_value(value["errors"].clone()).unwrap_or_default(),
        result: partial_result(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::{invalid_option, local_error};
    use crate::output::OutputError;

    fn samples() -> Vec<Error> {
        let result = || PromptResult { text: "half".to_owned(), ..PromptResult::empty(TurnStatus::Cancelled) };
        let exit = AgentExit { exit_code: Some(3), stderr: "no memory".to_owned(), ..AgentExit::default() };
        let hinted = AgentExit { hint: Some("before it opened the session".to_owned()), ..exit.clone() };
        let errors = vec![OutputError { pointer: "/a".to_owned(), message: "expected a number".to_owned() }];
        let mut samples = vec![
            invalid_option("model", "there is no such model"),
            Error::Spawn("s".to_owned()),
            Error::Handshake("h".to_owned()),
            Error::AgentExited(exit.clone()),
            Error::AgentExited(hinted),
            Error::Protocol("p".into()),
            Error::Protocol("p".into()).with_result(result()),
            Error::AgentExited(exit).with_result(result()),
            Error::AnswerTruncated(Box::new(result())),
            Error::AnswerRefused(Box::new(result())),
            local_error(RpcErrorKind::LlmServiceError, "down").with_result(result()),
            Error::Unsupported("u".to_owned()),
            Error::session_closed(),
            Error::Timeout("t".into()),
            Error::EventBufferFull("e".into()),
            Error::TurnCancelled(result().into()),
            Error::MaxStepsReached { steps: Some(5), result: result().into() },
            Error::session_closed().with_result(result()),
            Error::EventBufferFull("e".into()).with_result(result()),
            BudgetExceeded { option: "budget", counter: BudgetCounter::Steps, limit: 2.0, used: 3.0, result: result() }
                .into(),
            OutputInvalid { attempts: 3, text: "x".to_owned(), errors, result: result() }.into(),
        ];
        samples.extend(RPC_KINDS.map(|(_, kind)| local_error(kind, "refused")));
        let hint = Some("log in".into());
        let method = json!({"id": "api-key", "name": "API Key", "description": null, "kind": "agent"});
        let methods = vec![serde_json::from_value::<AuthMethod>(method).unwrap()].into();
        let error = RpcError::new(RpcErrorKind::AuthExpired, "no login");
        samples.push(Error::Rpc(RpcError { rpc_code: Some(-32004), hint, methods, ..error }));
        samples
    }

    #[test]
    fn error_survives_json() {
        for error in samples() {
            assert_eq!(error_from_json(&error_to_json(&error)), error);
        }
    }

    #[test]
    fn partial_result_beyond_values_is_kept() {
        let text = serde_json::to_string(&PromptResult::empty(TurnStatus::Cancelled)).unwrap();
        let call = r#"[{"id":"t","name":"Shell","output":[{"type":"text","text":"x","n":1e999}]}]"#;
        let text = text.replace(r#""tool_calls":[]"#, &format!(r#""tool_calls":{call}"#));
        let (errors, result) = (Vec::new(), serde_json::from_str(&text).unwrap());
        let error = OutputInvalid { attempts: 1, text: String::new(), errors, result }.into();
        let Error::OutputInvalid(read) = error_from_json(&error_to_json(&error)) else { panic!("another error") };
        assert_eq!(read.result.tool_calls[0].name, "Shell");
    }

    #[test]
    fn unknown_code_is_internal() {
        let value = serde_json::json!({"code": "new_error", "message": "m"});
        assert_eq!(error_from_json(&value), Error::Internal("m".to_owned()));
        assert_eq!(error_from_json(&Value::Null), Error::Internal(String::new()));
    }
}
