//! The members of an error's data that say something about the error. Others, such as the name of a file or the text of a prompt,
//! can hold any number and any word.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Map, Value};

use super::prose::prose;
use super::quoted::{delay_member, quoted_delay, quoted_status};
use super::{http_status, prefix};
use crate::json::{is_true, whole_number};

/// The number of values in the data that are looked at.
const MAX_VALUES: usize = 256;

// Names of members, in lower case and without separators.
/// Members with an HTTP status.
const STATUSES: [&str; 4] = ["status", "statuscode", "httpstatuscode", "httpstatus"];
/// Members with the seconds until the next attempt, and with the milliseconds.
const RETRY_AFTER: [&str; 4] = ["retryafter", "retryafterseconds", "retrydelay", "retrydelayseconds"];
const RETRY_AFTER_MS: [&str; 2] = ["retryafterms", "retrydelayms"];
/// Members that say whether the same request can succeed later.
const IS_RETRYABLE: [&str; 2] = ["isretryable", "retryable"];
/// Members whose text is about the error. A number in it can be the status.
const MESSAGES: [&str; 22] = [
    "body",
    "cause",
    "code",
    "data",
    "description",
    "detail",
    "details",
    "error",
    "errorcode",
    "errormessage",
    "errors",
    "httpstatus",
    "httpstatuscode",
    "message",
    "msg",
    "reason",
    "response",
    "responsebody",
    "status",
    "statuscode",
    "statusmessage",
    "statustext",
];
/// Members whose text is the kind of the error, in which a number is not a status.
const KINDS: [&str; 10] = [
    "codexerrorinfo",
    "errorinfo",
    "errorkind",
    "errorname",
    "errortype",
    "exception",
    "kind",
    "name",
    "threadstatus",
    "type",
];
/// Members with what the error is about, such as the request that was refused.
const SUBJECTS: [&str; 14] = [
    "args",
    "arguments",
    "config",
    "env",
    "input",
    "options",
    "params",
    "prompt",
    "query",
    "rawinput",
    "request",
    "requestbody",
    "toolcall",
    "tools",
];

/// What a member says about the error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    /// The error, in words and numbers.
    Message,
    /// The kind of the error.
    Kind,
    /// Nothing that is known.
    Nothing,
}

/// What an error quotes from the model's service.
pub(super) struct Quoted {
    pub(super) status: Option<u16>,
    pub(super) retry_after: Option<Duration>,
    /// Whether the same request can succeed later, according to the data.
    pub(super) is_retryable: Option<bool>,
    /// All texts without paths and names, in lower case.
    pub(super) text: String,
}

impl Quoted {
    pub(super) fn new(rpc_code: Option<i64>, message: &str, data: Option<&Value>) -> Self {
        let mut texts = vec![prefix(message)];
        let mut kinds = Vec::new();
        let (mut status, mut retry_after, mut is_retryable) = (None, None, None);
        let mut values: VecDeque<(Says, &Value)> = data.into_iter().map(|data| (Says::Message, data)).collect();
        let mut seen = 0;
        // The nearest member counts.
        while let Some((says, value)) = values.pop_front().filter(|_| seen < MAX_VALUES) {
            seen += 1;
            match value {
                Value::String(text) => match says {
                    Says::Message => texts.push(prefix(text)),
                    Says::Kind => kinds.push(prefix(text)),
                    Says::Nothing => {}
                },
                Value::Array(items) => {
                    retry_after = retry_after.or_else(|| delay_header(items));
                    values.extend(items.iter().map(|item| (says, item)));
                }
                Value::Object(members) => {
                    let date = members.iter().find(|(name, _)| name.eq_ignore_ascii_case("date"));
                    let date = date.and_then(|(_, date)| date.as_str());
                    let number = |value: &Value| http_status(whole_number(value)?);
                    let code = members.get("code").and_then(number);
                    status = status.or_else(|| named(members, &STATUSES).find_map(number)).or(code);
                    retry_after = retry_after
                        .or_else(|| named(members, &RETRY_AFTER).find_map(|value| delay_member(value, 1.0, date)))
                        .or_else(|| named(members, &RETRY_AFTER_MS).find_map(|value| delay_member(value, 0.001, date)));
                    is_retryable = is_retryable.or_else(|| named(members, &IS_RETRYABLE).find_map(truth));
                    for (name, value) in members {
                        // Codex names the kind of error by a member.
                        if says == Says::Kind && value.is_object() {
                            kinds.push(name);
                        }
                        if !is_one_of(name, &SUBJECTS) {
                            values.push_back((said_by(name), value));
                        }
                    }
                }
                _ => {}
            }
        }
        let texts: Vec<_> = texts.into_iter().map(prose).collect();
        let status = status
            .or_else(|| texts.iter().find_map(|text| quoted_status(text)))
            // Gemini CLI answers with the status as the code of the error.
            .or_else(|| http_status(u64::try_from(rpc_code?).ok()?));
        let mut text = texts.join("\n");
        let retry_after = retry_after.or_else(|| quoted_delay(&text));
        for kind in kinds {
            text.push('\n');
            text.push_str(&prose(kind));
        }
        Self { status, retry_after, is_retryable, text: text.to_lowercase() }
    }
}

/// Returns a truth value, also in the form of a word or of a number.
fn truth(value: &Value) -> Option<bool> {
    let is_known = match value {
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(word) => ["true", "false", "yes", "no", "0", "1"].contains(&&*word.to_ascii_lowercase()),
        _ => false,
    };
    is_known.then(|| is_true(value))
}

fn said_by(name: &str) -> Says {
    if is_one_of(name, &MESSAGES) {
        Says::Message
    } else if is_one_of(name, &KINDS) {
        Says::Kind
    } else {
        // The name may have a prefix, such as `codebuddy.ai/errorMessage`.
        match name.rsplit(['/', '.', ':']).next() {
            Some(last) if last.len() < name.len() => said_by(last),
            _ => Says::Nothing,
        }
    }
}

/// Reads the delay of a header that is a list with its name and its value.
fn delay_header(pair: &[Value]) -> Option<Duration> {
    let [Value::String(name), value] = pair else { return None };
    if is_one_of(name, &RETRY_AFTER) {
        delay_member(value, 1.0, None)
    } else if is_one_of(name, &RETRY_AFTER_MS) {
        delay_member(value, 0.001, None)
    } else {
        None
    }
}

/// Returns the values of the members with one of these names.
fn named<'a>(members: &'a Map<String, Value>, names: &'a [&str]) -> impl Iterator<Item = &'a Value> {
    members.iter().filter(move |(name, _)| is_one_of(name, names)).map(|(_, value)| value)
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    let plain = name.bytes().filter(|byte| !matches!(byte, b'_' | b'-')).map(|byte| byte.to_ascii_lowercase());
    names.iter().any(|known| plain.clone().eq(known.bytes()))
}
