//! JSON-RPC 2.0: reads a line as a message that borrows from it, and writes requests, answers and refusals.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::Json;
use super::value::{Key, object};

/// A message of JSON-RPC, borrowed from its line. Parameters and results are slices of the line, not yet decoded.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    Notification {
        method: Cow<'a, str>,
        params: &'a RawValue,
    },
    /// The id is kept as JSON text: the answer must carry the very same.
    Request {
        id: &'a str,
        method: Cow<'a, str>,
        params: &'a RawValue,
    },
    /// `id` is `None` where the agent answers something that it could not read.
    Response {
        id: Option<Cow<'a, str>>,
        outcome: Result<&'a RawValue, RpcFailure>,
    },
    /// The line is not a JSON-RPC message; the reason is for the log.
    Invalid(String),
}

/// An error object of JSON-RPC.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct RpcFailure {
    pub code: i64,
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

/// How deep JSON may be nested that programs get as it came. Parsers have limits, that of serde 128, that of Python as
/// much of its stack as is left; past them they fail, and nobody needs so much.
pub const MAX_DEPTH: usize = 100;

/// Whether JSON is nested deeper than programs can be given. The text must be JSON.
pub fn is_too_deep(text: &str) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    // Each level takes two brackets; most JSON has not as many, which is seen much faster.
    text.len() > 2 * MAX_DEPTH
        && memchr::memchr2_iter(b'[', b'{', text.as_bytes()).nth(MAX_DEPTH).is_some()
        && text.bytes().any(|byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = in_text,
                b'"' => in_text = !in_text,
                b'[' | b'{' if !in_text => depth += 1,
                b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth > MAX_DEPTH
        })
}

/// A member that may be missing, or null: two different things.
#[derive(Default)]
struct Member<'a>(Option<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Member<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| Self(Some(raw)))
    }
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, default)]
    id: Member<'a>,
    #[serde(borrow, default)]
    method: Option<Key<'a>>,
    #[serde(borrow, default)]
    params: Member<'a>,
    #[serde(borrow, default)]
    result: Member<'a>,
    #[serde(borrow, default)]
    error: Member<'a>,
}

/// Reads a line.
pub fn parse(line: &[u8]) -> Message<'_> {
    let text = match std::str::from_utf8(line) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => return Message::Invalid(format!("not UTF-8 at byte {}", error.valid_up_to())),
    };
    if !text.trim_start().starts_with('{') {
        let what = if text.trim_start().starts_with('[') { "a batch" } else { "not a JSON object" };
        return Message::Invalid(what.to_owned());
    }
    let members: Members<'_> = match object(text) {
        Ok(members) => members,
        Err(error) => return Message::Invalid(error.to_string()),
    };
    let params = members.params.0.unwrap_or(RawValue::NULL);
    let id = members.id.0.map(RawValue::get);
    if let Some(method) = members.method {
        return match id {
            Some(id) if id != "null" => Message::Request { id, method: method.0, params },
            _ => Message::Notification { method: method.0, params },
        };
    }
    let outcome = match (members.error.0, members.result.0) {
        (Some(error), _) if error.get() != "null" => match object::<RpcFailure>(error.get()) {
            Ok(failure) => Err(RpcFailure { data: failure.data.filter(|data| !is_too_deep(data.get())), ..failure }),
            Err(reason) => return Message::Invalid(format!("error object: {reason}")),
        },
        (_, Some(result)) => Ok(result),
        _ => return Message::Invalid("neither method, result nor error".to_owned()),
    };
    let id = match id {
        None | Some("null") => None,
        Some(id) => match serde_json::from_str::<Key<'_>>(id) {
            Ok(key) => Some(key.0),
            // A number, say: it can't be one of ours, whose ids are strings.
            Err(_) => Some(Cow::Borrowed(id)),
        },
    };
    Message::Response { id, outcome }
}

/// A message of ours, ready to be written: one line with its end.
pub fn request(id: &str, method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Request<'a, P> {
        jsonrpc: &'static str,
        id: &'a str,
        method: &'a str,
        params: &'a P,
    }
    line(&Request { jsonrpc: "2.0", id, method, params })
}

/// The same without parameters.
pub fn bare_request(id: &str, method: &str) -> Vec<u8> {
    line(&serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method}))
}

/// An answer to a request of the agent's; `id` is JSON text.
pub fn answer(id: &str, result: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Answer<'a, R> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        result: &'a R,
    }
    line(&Answer { jsonrpc: "2.0", id: raw_id(id), result })
}

/// A refusal of a request of the agent's; `id` is JSON text.
pub fn refusal(id: &str, failure: &RpcFailure) -> Vec<u8> {
    #[derive(Serialize)]
    struct Refusal<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        error: &'a RpcFailure,
    }
    line(&Refusal { jsonrpc: "2.0", id: raw_id(id), error: failure })
}

fn raw_id(id: &str) -> &RawValue {
    serde_json::from_str(id).unwrap_or(RawValue::NULL)
}

fn line(message: &impl Serialize) -> Vec<u8> {
    // Only maps with keys that aren't strings can fail here, and there are none.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invalid(line: &str) -> bool {
        matches!(parse(line.as_bytes()), Message::Invalid(_))
    }

    #[test]
    fn noise_is_invalid_and_never_more() {
        let nested = "[".repeat(100_000);
        for line in [
            "null",
            "[]",
            "[{\"method\":\"event\"}]",
            "1",
            "\"text\"",
            "{",
            "{}",
            "{\"id\":1}",
            "{\"id\":1,\"error\":[1,\"no\"]}",
            nested.as_str(),
        ] {
            assert!(invalid(line), "{line:.60}");
        }
        assert!(matches!(parse(b"{\"method\":\"\xff\"}"), Message::Invalid(_)));
        assert!(invalid(&format!("{{\"params\":{nested}")));
    }

    #[test]
    fn a_missing_id_and_a_null_id_are_told_apart_from_a_request() {
        assert!(matches!(parse(br#"{"method":"event","params":{}}"#), Message::Notification { .. }));
        assert!(matches!(parse(br#"{"method":"event","id":null}"#), Message::Notification { .. }));
        assert!(matches!(parse(br#"{"method":"request","id":7}"#), Message::Request { id: "7", .. }));
        assert!(matches!(
            parse(br#"{"id":null,"error":{"code":-32700,"message":"x","data":null}}"#),
            Message::Response { id: None, outcome: Err(RpcFailure { code: -32700, data: None, .. }) }
        ));
    }

    #[test]
    fn depth_is_counted_outside_of_texts() {
        let nested = |depth: usize, inside: &str| format!("{}{inside}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_too_deep(&nested(MAX_DEPTH, "")));
        assert!(is_too_deep(&nested(MAX_DEPTH + 1, "")));
        assert!(is_too_deep(&"{\"a\":".repeat(MAX_DEPTH + 1)));
        assert!(!is_too_deep(&nested(MAX_DEPTH - 1, &format!("[\"\\\"{}\"]", "[".repeat(1000)))));
        assert!(!is_too_deep(&"[],".repeat(1000)));
        let error = format!(r#"{{"id":"1","error":{{"code":1,"message":"m","data":{}}}}}"#, nested(100_000, ""));
        let Message::Response { outcome: Err(failure), .. } = parse(error.as_bytes()) else { panic!("no error") };
        assert_eq!(failure, RpcFailure { code: 1, message: "m".to_owned(), data: None });
    }

    #[test]
    fn an_answer_carries_the_id_as_it_came() {
        let written = answer("7", &serde_json::json!({"ok": true}));
        assert_eq!(written, b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"ok\":true}}\n");
        let text = answer("\"a\\u0062\"", &());
        assert_eq!(text, b"{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0062\",\"result\":null}\n");
    }
}
