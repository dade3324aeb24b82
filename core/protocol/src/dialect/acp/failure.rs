//! Texts of errors that agents send: details from other fields are added, and what to do about a missing login.

use serde_json::Value;

use super::Acp;
use crate::jsonrpc::RpcFailure;

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

impl Acp {
    /// Returns how to log in, unless the agent is Kimi Code.
    pub(super) fn login_of_another(&self) -> Option<String> {
        let name = &self.server.as_ref()?.name;
        (!name.to_lowercase().contains("kimi")).then(|| {
            format!(
                "log in with {name} itself, or give it the key of a model's provider in `env` or in its configuration"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::messages::Json;

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
