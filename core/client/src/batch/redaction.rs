//! The replacement of secrets in a result. Words and numbers of the format stay, so that the result can be read again.

use kimi_agent_protocol::recording::{MASK, Redactor};
use serde_json::{Value, json};

/// Fields with words and numbers of the format.
const OF_FORMAT: [&str; 8] = ["status", "type", "code", "counter", "option", "handler", "by", "usage"];
/// Fields with JSON of the program or of the agent. Names and numbers in it can be secrets, too.
const FOREIGN: [&str; 2] = ["data", "arguments"];

/// Replaces the secrets in the result of a job.
pub(super) fn redact(redactor: &Redactor, result: &mut Value) {
    if let Some(output) = result.pointer_mut("/result/output") {
        *output = redacted(redactor, output);
    }
    redact_field(redactor, "", result);
}

fn redact_field(redactor: &Redactor, name: &str, value: &mut Value) {
    if OF_FORMAT.contains(&name) {
        return;
    }
    match value {
        _ if FOREIGN.contains(&name) => *value = redacted(redactor, value),
        Value::String(_) => *value = redacted(redactor, value),
        Value::Array(items) => items.iter_mut().for_each(|item| redact_field(redactor, "", item)),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| redact_field(redactor, name, value)),
        _ => {}
    }
}

/// Returns the value with all secrets replaced, also in names and numbers.
fn redacted(redactor: &Redactor, value: &Value) -> Value {
    // The redactor reads lines with a list or an object.
    let line = json!([value]).to_string();
    match serde_json::from_slice::<[Value; 1]>(&redactor.redacted(line.as_bytes())) {
        Ok([value]) => value,
        Err(_) => MASK.into(),
    }
}

#[cfg(test)]
mod tests {
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
