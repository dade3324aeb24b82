//! The lines between the driver and the gateway: calls of the driver, their answers, and frames.

use std::time::Duration;

use kimi_agent_protocol::json::{Key, borrowed, object, rewritten};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::jsonrpc::{self, Message, RpcFailure};

/// The code of a call that failed without an answer from the server.
pub(super) const NO_ANSWER: i64 = -32010;
/// The limit of an unreadable answer in errors.
const SHOWN: usize = 200;

/// A call of the driver. Its id is JSON text.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) kind: Kind,
}

#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    Http {
        method: hyper::Method,
        path: String,
        body: Option<String>,
    },
    Upload {
        path: String,
        file: Upload,
    },
    /// A frame of the WebSocket. The server acknowledges it.
    Frame {
        kind: String,
        payload: String,
    },
}

/// A file for the server.
#[derive(Debug, Deserialize, PartialEq)]
pub(super) struct Upload {
    pub(super) media_type: String,
    pub(super) name: String,
    /// In base64.
    pub(super) data: String,
}

impl Call {
    /// Reads a line. The error describes the problem, with the id of the call if it has one.
    pub(super) fn read(line: &[u8]) -> Result<Self, (Option<String>, String)> {
        let (id, method, params) = match jsonrpc::parse(line) {
            Message::Request { id, method, params } => (id, method, params),
            Message::Notification { method, .. } => return Err((None, format!("`{method}` has no id"))),
            Message::Response { .. } => return Err((None, "an answer to nothing".to_owned())),
            Message::Invalid(reason) => return Err((None, reason)),
        };
        let failed = |reason: String| (Some(id.to_owned()), reason);
        let (verb, rest) = method.split_once(' ').unwrap_or((&method, ""));
        let payload = Some(params.get()).filter(|text| *text != "null").map(str::to_owned);
        let kind = match verb {
            "WS" => Kind::Frame { kind: rest.to_owned(), payload: payload.unwrap_or_else(|| "{}".to_owned()) },
            _ if !rest.starts_with('/') => return Err(failed(format!("`{method}` names no path"))),
            "UPLOAD" => {
                let file = object(params.get()).map_err(|error| failed(format!("the file can't be read: {error}")))?;
                Kind::Upload { path: rest.to_owned(), file }
            }
            "GET" => Kind::Http { method: hyper::Method::GET, path: rest.to_owned(), body: None },
            "POST" | "DELETE" => {
                let method = if verb == "POST" { hyper::Method::POST } else { hyper::Method::DELETE };
                Kind::Http { method, path: rest.to_owned(), body: payload }
            }
            _ => return Err(failed(format!("`{method}` is no call of the gateway"))),
        };
        Ok(Self { id: id.to_owned(), kind })
    }
}

/// The bodies of the server's answers, and its acknowledgements.
#[derive(Deserialize)]
struct Envelope<'a> {
    code: i64,
    #[serde(default)]
    msg: String,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
}

/// Makes the answer to a call: the body, or the acknowledgement, that the server sent with this HTTP status.
pub(super) fn answer(id: &str, status: u16, body: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(body);
    let again = if borrowed::<Envelope<'_>>(&text).is_err() { rewritten(body) } else { None };
    let text = again.map_or(text, Into::into);
    let Ok(envelope) = borrowed::<Envelope<'_>>(&text) else {
        let end = (0..=SHOWN.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        return failure(id, &format!("the server answered with HTTP status {status}: {}", &text[..end]));
    };
    let data = envelope.data.or(envelope.payload).filter(|data| data.get() != "null");
    if envelope.code == 0 {
        let result = data.map_or("null", RawValue::get);
        return one_line(&["{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"result\":", result, "}"]);
    }
    let (code, message) = (envelope.code.to_string(), quoted(&envelope.msg));
    let (name, data) = data.map_or(("", ""), |data| (",\"data\":", data.get()));
    let head = ["{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"error\":{\"code\":", &code, ",\"message\":", &message];
    one_line(&[&head[..], &[name, data, "}}"]].concat())
}

/// Makes the answer to a call that the server did not answer.
pub(super) fn failure(id: &str, reason: &str) -> Vec<u8> {
    jsonrpc::refusal(id, &RpcFailure { code: NO_ANSWER, message: reason.to_owned(), data: None })
}

/// A frame of the server.
#[derive(Debug, PartialEq)]
pub(super) enum Frame<'a> {
    /// A ping, with its answer.
    Ping(String),
    /// An acknowledgement, with the id of its frame as JSON text.
    Ack(String),
    Hello {
        protocol_version: Option<i64>,
        /// The time between two pings, if the server names it.
        heartbeat: Option<Duration>,
    },
    /// Any other frame, with its type.
    Event(std::borrow::Cow<'a, str>),
}

impl<'a> Frame<'a> {
    /// Reads a frame. `None` if it is not an object with a type.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Typed<'a> {
            #[serde(borrow, rename = "type")]
            kind: Key<'a>,
            #[serde(borrow, default)]
            id: Option<Key<'a>>,
            #[serde(borrow, default)]
            payload: Option<&'a RawValue>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Hello {
            protocol_version: Option<i64>,
            heartbeat_ms: Value,
        }
        let Typed { kind, id, payload } = borrowed(text).ok()?;
        Some(match (&*kind.0, id) {
            ("ping", _) => {
                Self::Ping(format!("{{\"type\":\"pong\",\"payload\":{}}}", payload.map_or("{}", RawValue::get)))
            }
            ("ack", Some(id)) => Self::Ack(id.0.into_owned()),
            ("ack", None) => return None,
            ("server_hello", _) => {
                let hello: Hello = payload.and_then(|payload| object(payload.get()).ok()).unwrap_or_default();
                let heartbeat = hello.heartbeat_ms.as_u64().map(Duration::from_millis);
                Self::Hello { protocol_version: hello.protocol_version, heartbeat }
            }
            _ => Self::Event(kind.0),
        })
    }
}

/// Makes a frame for the server.
pub(super) fn frame(id: &str, kind: &str, payload: &str) -> String {
    format!("{{\"type\":{},\"id\":{},\"payload\":{payload}}}", quoted(kind), quoted(id))
}

/// Makes a line from a frame for the driver.
pub(super) fn event(kind: &str, text: &str) -> Vec<u8> {
    one_line(&["{\"jsonrpc\":\"2.0\",\"method\":", &quoted(kind), ",\"params\":", text, "}"])
}

/// Makes the notification of a new connection, with the number of connections so far.
pub(super) fn connected(count: u64) -> Vec<u8> {
    event("gateway/connected", &format!("{{\"count\":{count}}}"))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Joins JSON texts to one line. Line ends in JSON are only between its values, where a space has the same meaning.
fn one_line(pieces: &[&str]) -> Vec<u8> {
    let mut line = pieces.concat().into_bytes();
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &line) {
        line[at] = b' ';
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: Vec<u8>) -> String {
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn calls_are_read_from_their_lines() {
        let read = |line: &str| Call::read(line.as_bytes()).unwrap().kind;
        let post = read(r#"{"jsonrpc":"2.0","id":7,"method":"POST /api/v1/sessions","params":{"a": 1}}"#);
        assert_eq!(
            post,
            Kind::Http {
                method: hyper::Method::POST,
                path: "/api/v1/sessions".into(),
                body: Some(r#"{"a": 1}"#.into())
            }
        );
        let get = read(r#"{"jsonrpc":"2.0","id":7,"method":"GET /api/v1/meta"}"#);
        assert_eq!(get, Kind::Http { method: hyper::Method::GET, path: "/api/v1/meta".into(), body: None });
        let frame = read(r#"{"jsonrpc":"2.0","id":8,"method":"WS subscribe","params":{"session_ids":["s"]}}"#);
        assert_eq!(frame, Kind::Frame { kind: "subscribe".into(), payload: r#"{"session_ids":["s"]}"#.into() });
        for (line, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"POST http://elsewhere/"}"#, Some("7")),
            (r#"{"jsonrpc":"2.0","id":7,"method":"TRACE /"}"#, Some("7")),
            (r#"{"jsonrpc":"2.0","id":7,"method":"UPLOAD /f","params":{}}"#, Some("7")),
            (r#"{"jsonrpc":"2.0","method":"GET /"}"#, None),
            ("{}", None),
        ] {
            assert_eq!(Call::read(line.as_bytes()).unwrap_err().0.as_deref(), id, "{line}");
        }
    }

    #[test]
    fn answers_lose_envelope_and_stack() {
        let ok = br#"{"code":0,"msg":"success","data":{"id": "s"},"request_id":"r"}"#;
        assert_eq!(text(answer("7", 200, ok)), "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"id\": \"s\"}}\n");
        let none = br#"{"code":0,"data":null}"#;
        assert_eq!(text(answer("7", 200, none)), "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":null}\n");
        let refused = br#"{"code":40401,"msg":"no \"s\"","data":null,"stack":"at /opt/kimi/x.js"}"#;
        assert_eq!(
            text(answer("7", 200, refused)),
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":40401,\"message\":\"no \\\"s\\\"\"}}\n"
        );
        let data = br#"{"type":"ack","id":"7","code":40901,"msg":"m","payload":[1]}"#;
        assert_eq!(
            text(answer("7", 200, data)),
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":40901,\"message\":\"m\",\"data\":[1]}}\n"
        );
        let other = text(answer("7", 404, "Not Found: é".repeat(100).as_bytes()));
        assert!(other.contains("-32010") && other.contains("HTTP status 404: Not Found"), "{other}");
    }

    #[test]
    fn frame_with_line_ends_becomes_one_line() {
        let line = text(event("a\"b", "{\n \"type\": \"a\"\r\n}"));
        assert_eq!(line, "{\"jsonrpc\":\"2.0\",\"method\":\"a\\\"b\",\"params\":{  \"type\": \"a\"  }}\n");
    }

    #[test]
    fn frames_are_parsed_by_type() {
        let pong = Frame::read(r#"{"type":"ping","payload":{"nonce":"n"}}"#);
        assert_eq!(pong, Some(Frame::Ping(r#"{"type":"pong","payload":{"nonce":"n"}}"#.into())));
        assert_eq!(Frame::read(r#"{"type":"ack","id":"7","code":0}"#), Some(Frame::Ack("7".into())));
        let hello = Frame::read(r#"{"type":"server_hello","payload":{"protocol_version":2,"heartbeat_ms":500}}"#);
        let heartbeat = Some(Duration::from_millis(500));
        assert_eq!(hello, Some(Frame::Hello { protocol_version: Some(2), heartbeat }));
        let unclear = Frame::read(r#"{"type":"server_hello","payload":{"protocol_version":2,"heartbeat_ms":"1 s"}}"#);
        assert_eq!(unclear, Some(Frame::Hello { protocol_version: Some(2), heartbeat: None }));
        assert_eq!(Frame::read(r#"{"type":"turn.started"}"#), Some(Frame::Event("turn.started".into())));
        for invalid in ["", "[]", "{", "{\"type\":1}", "{\"type\":\"ack\"}", "{\"type\":\"a\"} x"] {
            assert_eq!(Frame::read(invalid), None, "{invalid}");
        }
    }
}
