//! Structured output, for the bindings: the check of the host.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::mailbox::{JobKind, Mailbox, Payload};
use crate::HandlerError;
use crate::error::{Result, invalid_option};
use kimi_agent_client::host::{self, kind_of, parse_violations};
use kimi_agent_client::{OutputError, PromptOptions, SessionOptions};

/// Takes the host's number of its check out of the option `output`: `{"schema": …, "check": 3}`.
///
/// # Errors
/// Returns the error for a check that is not a number.
pub(super) fn take_check(options: &mut Map<String, Value>) -> Result<Option<usize>> {
    let Some(output) = options.get_mut("output").and_then(Value::as_object_mut) else { return Ok(None) };
    let Some(check) = output.remove("check").filter(|check| !check.is_null()) else { return Ok(None) };
    output.insert("checked".to_owned(), Value::Bool(true));
    let number = check.as_u64().and_then(|number| usize::try_from(number).ok());
    let wrong =
        || invalid_option("output", format!("`check`: expected the number of a check, got {}", kind_of(&check)));
    number.map(Some).ok_or_else(wrong)
}

/// Adds the host's check to the output of a prompt.
pub(super) fn check_prompt(prompt: &mut PromptOptions, check: Option<usize>, key: u64, mailbox: &Arc<Mailbox>) {
    if let Some(number) = check {
        host::check_prompt_output(prompt, caller(number, key, mailbox));
    }
}

/// Adds the host's check to the output of a session.
pub(super) fn check_session(options: &mut SessionOptions, check: Option<usize>, key: u64, mailbox: &Arc<Mailbox>) {
    if let Some(number) = check {
        host::check_session_output(options, caller(number, key, mailbox));
    }
}

type Violations = std::result::Result<Vec<OutputError>, HandlerError>;

/// Calls the host's check with this number.
fn caller(
    number: usize,
    key: u64,
    mailbox: &Arc<Mailbox>,
) -> impl Fn(Value) -> std::pin::Pin<Box<dyn Future<Output = Violations> + Send>> + Send + Sync + 'static {
    let mailbox = Arc::clone(mailbox);
    move |value| {
        let call = mailbox.call(key, JobKind::Output, Some(number), Payload::Arguments(value));
        Box::pin(async move { Ok(parse_violations(call.await?)?) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(options: Value) -> (Result<Option<usize>>, Value) {
        let Value::Object(mut options) = options else { panic!("not an object") };
        let check = take_check(&mut options);
        (check, Value::Object(options))
    }

    #[test]
    fn number_of_check_is_taken() {
        let rest = json!({"output": {"schema": {}}});
        let checked = json!({"output": {"schema": {}, "checked": true}});
        assert_eq!(take(json!({"output": {"schema": {}, "check": 3}})), (Ok(Some(3)), checked));
        assert_eq!(take(json!({"output": {"schema": {}, "check": null}})), (Ok(None), rest.clone()));
        assert_eq!(take(rest.clone()), (Ok(None), rest));
        assert!(take(json!({"output": {"check": "3"}})).0.is_err());
        assert_eq!(take(json!({"output": 1})).0, Ok(None));
    }
}
