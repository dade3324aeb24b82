//! The replacement of secrets in a result. Words and numbers of the format stay, so that the result can be read again.

use kimi_agent_protocol::recording::Redactor;
use serde_json::Value;

/// Fields with words and numbers of the format.
const OF_FORMAT: [&str; 8] = ["status", "type", "code", "counter", "option", "handler", "by", "usage"];
/// Fields with JSON of the program or of the agent. Names and numbers in it can be secrets, too.
const FOREIGN: [&str; 2] = ["data", "arguments"];

/// Replaces the secrets in the result of a job.
pub(super) fn redact(redactor: &Redactor, result: &mut Value) {
    if let Some(output) = result.pointer_mut("/result/output") {
        *output = redactor.redacted_value(output);
    }
    redact_field(redactor, "", result);
}

fn redact_field(redactor: &Redactor, name: &str, value: &mut Value) {
    if OF_FORMAT.contains(&name) {
        return;
    }
    match value {
        _ if FOREIGN.contains(&name) => *value = redactor.redacted_value(value),
        Value::String(_) => *value = redactor.redacted_value(value),
        Value::Array(items) => items.iter_mut().for_each(|item| redact_field(redactor, "", item)),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| redact_field(redactor, name, value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_of_format_stay() {
        let secrets = ["finished", "status", "approval", "123456", "secret-name"].map(Into::into);
        let redactor = Redactor::new(&[], secrets, &[]).unwrap();
        let mut result = json!({
            "status": "finished",
            "usage": {"input_tokens": 123_456},
            "data": {"secret-name": [123_456, "finished"]},
            "result": {
                "status": "finished",
                "text": "It has the status finished",
                "output": {"secret-name": 123_456},
                "tool_calls": [{"name": "Find", "arguments": {"status": "secret-name"}, "output": [{"type": "text", "text": "123456"}]}],
                "handler_failures": [{"handler": "approval", "message": "no approval"}],
            },
        });
        redact(&redactor, &mut result);
        let expected = json!({
            "status": "finished",
            "usage": {"input_tokens": 123_456},
            "data": {"***": ["***", "***"]},
            "result": {
                "status": "finished",
                "text": "It has the *** ***",
                "output": {"***": "***"},
                "tool_calls": [{"name": "Find", "arguments": {"status": "***"}, "output": [{"type": "text", "text": "***"}]}],
                "handler_failures": [{"handler": "approval", "message": "no ***"}],
            },
        });
        assert_eq!(result, expected);
    }
}
