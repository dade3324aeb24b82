//! JSON-RPC 2.0: reads a line as a message that borrows from it, and writes requests, answers and refusals.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Json;
use super::scan::{self, NotJson, Scanner};
use super::value::object;

/// A message of JSON-RPC, borrowed from its line. Parameters and results are slices of the line, not yet decoded.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    Notification {
        method: Cow<'a, str>,
        params: Params<'a>,
    },
    /// The id is kept as JSON text: the answer must carry the very same.
    Request {
        id: &'a str,
        method: Cow<'a, str>,
        params: Params<'a>,
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

/// The members of an object that messages have, as they are written. A member may be missing, or null: two different things.
#[derive(Default)]
struct Members<'a> {
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<Params<'a>>,
    result: Option<&'a str>,
    error: Option<&'a str>,
    /// The first of these that occurs again.
    repeated: Option<&'static str>,
}

impl<'a> Members<'a> {
    fn scan(text: &'a str) -> Result<Self, NotJson> {
        let mut members = Self::default();
        let mut scanner = Scanner::new(text);
        scanner.object(|name, scanner| {
            let name = name.decode();
            let (slot, name) = match name.as_deref() {
                Some("id") => (&mut members.id, "id"),
                Some("method") => (&mut members.method, "method"),
                Some("result") => (&mut members.result, "result"),
                Some("error") => (&mut members.error, "error"),
                Some("params") => {
                    if members.params.replace(Params::scan(scanner)?).is_some() {
                        members.repeated = Some("params");
                    }
                    return Ok(());
                }
                // A name that is no text, with half of a surrogate pair, is refused as serde does it.
                Some(_) => return scanner.value().map(drop),
                None => return Err(NotJson),
            };
            if slot.replace(scanner.value()?).is_some() {
                members.repeated = Some(name);
            }
            Ok(())
        })?;
        scanner.end()?;
        Ok(members)
    }
}

/// How many members of parameters are noted in passing. The methods of our protocols have two or three.
const FEW: usize = 4;

/// Parameters: their text, and their members as slices of it.
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    text: &'a str,
    members: [(&'a str, &'a str); FEW],
    count: usize,
    /// `members` are all that there are, and their names have no escapes.
    is_complete: bool,
}

impl<'a> Params<'a> {
    const NULL: Self = Self { text: "null", members: [("", ""); FEW], count: 0, is_complete: true };

    fn scan(scanner: &mut Scanner<'a>) -> Result<Self, NotJson> {
        let mut params = Self::NULL;
        if scanner.peek() != Some(b'{') {
            params.text = scanner.value()?;
            return Ok(params);
        }
        params.text = scanner.object_text(|name, scanner| {
            let value = scanner.value()?;
            let known =
                name.has_escapes || params.members[..params.count].iter().any(|(other, _)| *other == name.written());
            match params.members.get_mut(params.count) {
                Some(member) if !known => {
                    *member = (name.written(), value);
                    params.count += 1;
                }
                _ => params.is_complete = false,
            }
            Ok(())
        })?;
        Ok(params)
    }

    /// Their text.
    pub fn get(&self) -> &'a str {
        self.text
    }

    /// Their text, for types that are made of it.
    pub fn raw(&self) -> &'a RawValue {
        serde_json::from_str(self.text).unwrap_or(RawValue::NULL)
    }

    /// A copy for programs; `null` if they are nested too deep.
    pub fn to_json(self) -> Json {
        if is_too_deep(self.text) { Json::null() } else { Json::from_text(self.text) }
    }

    /// One of them, as text; nothing if there is none.
    ///
    /// # Errors
    /// The parameters are not an object, or have the member several times.
    pub fn member(&self, name: &str) -> Result<Option<&'a str>, String> {
        if !self.text.starts_with('{') {
            return Err(format!(
                "{}, not an object",
                if self.text.starts_with('[') { "a list" } else { "a single value" }
            ));
        }
        if self.is_complete {
            let found = self.members[..self.count].iter().find(|(other, _)| *other == name);
            return Ok(found.map(|(_, value)| *value));
        }
        let (mut found, mut is_repeated) = (None, false);
        let read = scan::for_each_member(self.text, |other, value| {
            if other.decode().as_deref() == Some(name) {
                is_repeated |= found.replace(value).is_some();
            }
            Ok(())
        });
        match read {
            Ok(()) if !is_repeated => Ok(found),
            Ok(()) => Err(format!("duplicate field `{name}`")),
            Err(NotJson) => Err("not JSON".to_owned()),
        }
    }

    /// One of them that is a string.
    ///
    /// # Errors
    /// There is none, or it is not a string.
    pub fn text(&self, name: &str) -> Result<Cow<'a, str>, String> {
        let value = self.member(name)?.ok_or_else(|| format!("missing field `{name}`"))?;
        scan::text_of(value).ok_or_else(|| format!("{name}: not a string"))
    }
}

/// Reads a line.
pub fn parse(line: &[u8]) -> Message<'_> {
    let text = match std::str::from_utf8(line) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => return Message::Invalid(format!("not UTF-8 at byte {}", error.valid_up_to())),
    };
    match Scanner::new(text).peek() {
        Some(b'{') => {}
        Some(b'[') => return Message::Invalid("a batch".to_owned()),
        _ => return Message::Invalid("not a JSON object".to_owned()),
    }
    let Ok(members) = Members::scan(text) else {
        let reason = serde_json::from_str::<HashMap<String, IgnoredAny>>(text).err();
        return Message::Invalid(reason.map_or_else(|| "not JSON".to_owned(), |reason| reason.to_string()));
    };
    if let Some(name) = members.repeated {
        return Message::Invalid(format!("duplicate field `{name}`"));
    }
    let id = members.id.filter(|id| *id != "null");
    if let Some(method) = members.method.filter(|method| *method != "null") {
        let Some(method) = scan::text_of(method) else {
            return Message::Invalid("method: not a string".to_owned());
        };
        let params = members.params.unwrap_or(Params::NULL);
        return match id {
            Some(id) => Message::Request { id, method, params },
            None => Message::Notification { method, params },
        };
    }
    let outcome = match (members.error, members.result) {
        (Some(error), _) if error != "null" => match object::<RpcFailure>(error) {
            Ok(failure) => Err(RpcFailure { data: failure.data.filter(|data| !is_too_deep(data.get())), ..failure }),
            Err(reason) => return Message::Invalid(format!("error object: {reason}")),
        },
        (_, Some(result)) => match serde_json::from_str(result) {
            Ok(result) => Ok(result),
            Err(reason) => return Message::Invalid(format!("result: {reason}")),
        },
        _ => return Message::Invalid("neither method, result nor error".to_owned()),
    };
    // A number, for example, is kept as its text: it cannot be one of ours, whose ids are strings.
    let id = id.map(|id| scan::text_of(id).unwrap_or(Cow::Borrowed(id)));
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

/// The same with a number for an id.
pub fn numbered_request(id: u64, method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Request<'a, P> {
        jsonrpc: &'static str,
        id: u64,
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
