//! Fuzzing of JSON-RPC messages, compared with a plain JSON parser.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::jsonrpc::{Message, NO_CODE, Params, is_too_deep, parse};

/// The reference model of a line, with all its values parsed.
#[derive(Debug, PartialEq)]
enum Kind {
    Notification { method: String, params: Value },
    Request { id: Value, method: String, params: Value },
    Response { id: Option<String>, outcome: Result<Value, (i64, String, Option<Value>)> },
    Malformed,
}

/// JSON-RPC's rules, over a parsed object.
fn expected(value: &Value) -> Kind {
    let Value::Object(members) = value else { return Kind::Malformed };
    let member = |name: &str| members.get(name);
    let present = |name: &str| member(name).filter(|value| !value.is_null()).cloned();
    match member("method") {
        None | Some(Value::Null) => {}
        Some(Value::String(method)) => {
            let (method, params) = (method.clone(), member("params").cloned().unwrap_or_default());
            return match present("id") {
                Some(id) => Kind::Request { id, method, params },
                None => Kind::Notification { method, params },
            };
        }
        Some(_) => return Kind::Malformed,
    }
    let known = ["jsonrpc", "id", "method", "params", "result", "error"];
    let has_others = members.keys().any(|name| !known.contains(&&**name));
    let outcome = match (present("error").filter(|error| *error != false), member("result")) {
        (_, None) if has_others && member("jsonrpc").is_none() => return Kind::Malformed,
        (Some(error), _) => {
            let given = |name: &str| error.get(name).filter(|value| !value.is_null());
            let message = match given("message") {
                Some(Value::String(text)) => Some(text.clone()),
                Some(other) => Some(other.to_string()),
                None => error.as_str().map(str::to_owned),
            };
            let message = message.filter(|text| !text.is_empty());
            let code = error.get("code").and_then(Value::as_i64);
            let is_readable = code.is_some() && message.is_some() && error["message"].is_string();
            let data = given("data").cloned().or_else(|| (!is_readable).then(|| error.clone()));
            let message = message.unwrap_or_else(|| "an error without a message".to_owned());
            // Some libraries write `429.0`, others a text.
            let written = || error.get("code")?.as_str()?.trim().parse().ok();
            let whole =
                error.get("code").and_then(Value::as_f64).filter(|code| code.fract() == 0.0 && code.abs() < 1e15);
            Err((
                code.or(whole.map(|code| code as i64)).or_else(written).unwrap_or(NO_CODE),
                message,
                data.filter(|data| !is_too_deep(&data.to_string())),
            ))
        }
        (None, Some(result)) => Ok(result.clone()),
        (None, None) if present("id").is_some() && !has_others => Ok(Value::Null),
        (None, None) => return Kind::Malformed,
    };
    Kind::Response { id: present("id").map(id_text), outcome }
}

/// Returns an id as text. A whole number has no fraction.
fn id_text(id: Value) -> String {
    match id {
        Value::String(id) => id,
        other => {
            let text = other.to_string();
            text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
        }
    }
}

fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).expect("a part of what could be read")
}

fn found(envelope: Message<'_>) -> Kind {
    match envelope {
        Message::Notification { method, params } => {
            Kind::Notification { method: method.into_owned(), params: value(params.raw()) }
        }
        Message::Request { id, method, params } => Kind::Request {
            id: serde_json::from_str(id).expect("JSON"),
            method: method.into_owned(),
            params: value(params.raw()),
        },
        Message::Response { id, outcome } => Kind::Response {
            // An id that is no string is never one of ours: only its text is known.
            id: id.map(|id| match serde_json::from_str::<Value>(&id) {
                Ok(value) if !value.is_string() => id_text(value),
                _ => id.into_owned(),
            }),
            outcome: outcome
                .map(value)
                .map_err(|failure| (failure.code, failure.message, failure.data.map(|data| data.to_value()))),
        },
        Message::Invalid(reason) => {
            assert!(!reason.is_empty());
            Kind::Malformed
        }
    }
}

/// If a parser of values takes the last of several equal members, the envelope may reject the line.
fn repeats_a_member(text: &str) -> bool {
    struct Names(bool);
    impl<'de> serde::Deserialize<'de> for Names {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Names;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                    let mut seen = std::collections::HashSet::new();
                    let mut repeats = false;
                    while let Some(name) = map.next_key::<String>()? {
                        let value = map.next_value::<Box<RawValue>>()?;
                        // The error object has members of its own.
                        repeats |= serde_json::from_str::<Names>(value.get()).is_ok_and(|inner| inner.0);
                        repeats |= !seen.insert(name);
                    }
                    Ok(Names(repeats))
                }
            }
            deserializer.deserialize_map(Visitor)
        }
    }
    serde_json::from_str::<Names>(text).is_ok_and(|names| names.0)
}

/// Each member of the parameters is found by its name, and no other.
fn members_are_those(params: &Params<'_>, value: &Value) {
    let Value::Object(members) = value else {
        return assert!(params.member("type").is_err());
    };
    for (name, value) in members {
        let text = params.member(name).expect("an object").expect("a member");
        assert_eq!(serde_json::from_str::<Value>(text).ok().as_ref(), Some(value));
    }
    assert_eq!(params.member("no such name"), Ok(None));
}

pub(super) fn check(line: &[u8]) {
    let envelope = parse(line);
    let Ok(text) = std::str::from_utf8(line) else {
        return assert!(matches!(envelope, Message::Invalid(_)), "not UTF-8: {envelope:?}");
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if serde_json::from_str::<&RawValue>(text).is_err() {
        return assert!(matches!(envelope, Message::Invalid(_)), "not JSON: {envelope:?}");
    }
    // Text that no value can hold (half a surrogate pair, a number beyond all measure) may be inside a message.
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    if repeats_a_member(text) {
        return;
    }
    if let Message::Notification { params, .. } | Message::Request { params, .. } = &envelope {
        members_are_those(params, &value["params"]);
    }
    assert_eq!(found(envelope), expected(&value));
}
