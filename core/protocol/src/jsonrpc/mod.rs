//! JSON-RPC 2.0: reads a line as a message that borrows from it, and writes requests, answers and refusals.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::lenient::{self, Huge};
use crate::json::scan::{self, NotJson, Scanner};
use crate::json::{Json, object};

pub mod framing;
mod noise;
pub mod relayed;

pub use noise::{for_each_of_batch, split};

/// A message of JSON-RPC, borrowed from its line. Parameters and results are slices of the line, not yet decoded.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// A call without an answer.
    Notification {
        /// The name of the method.
        method: Cow<'a, str>,
        /// The parameters.
        params: Params<'a>,
    },
    /// A request. Its id is kept as JSON text, because the answer must repeat it unchanged.
    Request {
        /// The id, as JSON text.
        id: &'a str,
        /// The name of the method.
        method: Cow<'a, str>,
        /// The parameters.
        params: Params<'a>,
    },
    /// An answer to a call. `id` is `None` if the agent answers a line that it could not read.
    Response {
        /// The id of the call. `None` if it is null or invalid.
        id: Option<Cow<'a, str>>,
        /// The result, or the error.
        outcome: Result<&'a RawValue, RpcFailure>,
    },
    /// The line is not a JSON-RPC message; the reason is for the log.
    Invalid(String),
}

/// Stands for the code of a failure that has none: the agent reports it without a JSON-RPC error, or its code can't be read.
pub const NO_CODE: i64 = 0;
/// The first capacity of the buffer of a line, in bytes.
const LINE: usize = 256;

/// An error object of JSON-RPC.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct RpcFailure {
    /// The number of the error. [`NO_CODE`] if it has none.
    pub code: i64,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// Further data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

impl RpcFailure {
    /// Returns the number of the error, if it has one.
    pub fn given_code(&self) -> Option<i64> {
        Some(self.code).filter(|code| *code != NO_CODE)
    }
}

/// The message and the number.
impl fmt::Display for RpcFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.given_code().map_or(Ok(()), |code| write!(f, " ({code})"))
    }
}

/// Returns whether a line can be a request or an answer. Without decoding, so that some other lines count, too.
pub fn may_have_id(line: &[u8]) -> bool {
    memchr::memmem::find(line, b"\"id\"").is_some()
}

/// The limit of nesting in JSON that is passed to programs. Parsers have limits of their own: 128 in serde, the stack
/// in Python.
pub const MAX_DEPTH: usize = 100;

/// Returns whether the nesting of JSON exceeds the limit for programs. The text must be JSON.
pub fn is_too_deep(text: &str) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    // Each level needs two brackets. Most JSON has fewer brackets than the limit, and counting them is much faster.
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

/// The members of a JSON-RPC message, as JSON text. A missing member differs from null.
#[derive(Default)]
struct Members<'a> {
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<Params<'a>>,
    result: Option<&'a str>,
    error: Option<&'a str>,
    /// Whether it says that it is a message of JSON-RPC.
    has_version: bool,
    /// Whether it has other members, which no message of JSON-RPC has.
    has_others: bool,
    /// Whether a part can only be read leniently.
    is_odd: bool,
}

impl<'a> Members<'a> {
    fn scan(text: &'a str) -> Result<Self, NotJson> {
        Self::scan_named(text, |_| {})
    }

    /// Scans an object. `named` gets the name of each member.
    fn scan_named(text: &'a str, mut named: impl FnMut(&str)) -> Result<Self, NotJson> {
        let mut members = Self::default();
        let mut scanner = Scanner::new(text);
        scanner.object(|name, scanner| {
            let name = name.decode();
            named(name.as_deref().unwrap_or_default());
            let slot = match name.as_deref() {
                Some("id") => &mut members.id,
                Some("method") => &mut members.method,
                Some("result") => &mut members.result,
                Some("error") => &mut members.error,
                Some("params") => {
                    members.params = Some(Params::scan(scanner)?);
                    return Ok(());
                }
                // A name with half of a surrogate pair is refused, as serde does.
                Some(name) => {
                    let slot = if name == "jsonrpc" { &mut members.has_version } else { &mut members.has_others };
                    *slot = true;
                    return scanner.value().map(drop);
                }
                None => return Err(NotJson),
            };
            // Of members with the same name, the last one counts, as in most parsers.
            *slot = Some(scanner.value()?);
            Ok(())
        })?;
        scanner.end()?;
        members.is_odd = scanner.is_odd;
        Ok(members)
    }
}

/// The number of parameters whose slices are stored. The methods of the supported protocols have two or three.
const FEW: usize = 4;

/// Parameters: their text, and slices of it for the members.
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    text: &'a str,
    members: [(&'a str, &'a str); FEW],
    count: usize,
    /// `members` are all members, and their names have no escapes.
    is_complete: bool,
    /// Whether only a lenient parser accepted the line, so that U+FFFD can stand for what the agent wrote.
    is_rewritten: bool,
}

impl<'a> Params<'a> {
    const NULL: Self =
        Self { text: "null", members: [("", ""); FEW], count: 0, is_complete: true, is_rewritten: false };

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

    /// Returns whether a text of the parameters may differ from that of the agent: it had half of a surrogate pair, or bytes that
    /// are not UTF-8.
    pub fn may_have_lost(&self, text: &str) -> bool {
        self.is_rewritten && text.contains(char::REPLACEMENT_CHARACTER)
    }

    /// Returns the parameters' text.
    pub fn get(&self) -> &'a str {
        self.text
    }

    /// Returns the parameters' text, for types that keep it.
    pub fn raw(&self) -> &'a RawValue {
        serde_json::from_str(self.text).unwrap_or(RawValue::NULL)
    }

    /// Returns a copy for programs; `null` if the nesting is too deep.
    pub fn to_json(self) -> Json {
        if is_too_deep(self.text) { Json::null() } else { Json::from_text(self.text) }
    }

    /// Returns a member as JSON text; `None` if it is missing.
    ///
    /// # Errors
    /// Returns a problem if the parameters are not an object.
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
        let mut found = None;
        let read = scan::for_each_member(self.text, |other, value| {
            if other.decode().as_deref() == Some(name) {
                found = Some(value);
            }
            Ok(())
        });
        read.map(|()| found).map_err(|NotJson| "not JSON".to_owned())
    }

    /// Returns a member that is an id: a string, or a number as text.
    ///
    /// # Errors
    /// Returns a problem if the member is missing or neither.
    pub fn id(&self, name: &str) -> Result<Cow<'a, str>, String> {
        match self.member(name)? {
            Some(number) if number.starts_with(|first: char| first.is_ascii_digit()) => Ok(plain_id(number)),
            _ => self.text(name),
        }
    }

    /// Returns a member that is a string.
    ///
    /// # Errors
    /// Returns a problem if the member is missing or not a string.
    pub fn text(&self, name: &str) -> Result<Cow<'a, str>, String> {
        let value = self.member(name)?.ok_or_else(|| format!("missing field `{name}`"))?;
        scan::text_of(value).ok_or_else(|| format!("{name}: not a string"))
    }
}

/// Reads a line of strict JSON.
pub fn parse(line: &[u8]) -> Message<'_> {
    parse_strictly(line).0
}

/// Reads a line of an agent. If only a lenient parser accepts the line, `rewritten` gets it as strict JSON, from which the
/// message borrows.
pub fn read<'a>(line: &'a [u8], rewritten: &'a mut Option<String>) -> Message<'a> {
    let line = noise::without_terminal_codes(line);
    let (message, is_odd) = parse_strictly(line);
    let read = if is_odd { lenient::rewrite(line, Huge::Kept) } else { None };
    match read {
        Some(read) => {
            tracing::debug!("a line that is not strict JSON was read leniently");
            let mut message = parse(rewritten.insert(read.text).as_bytes());
            if let Message::Request { params, .. } | Message::Notification { params, .. } = &mut message {
                params.is_rewritten = true;
            }
            message
        }
        None => message,
    }
}

/// Reads a line. Returns whether a lenient parser may find more in it.
fn parse_strictly(line: &[u8]) -> (Message<'_>, bool) {
    let text = match std::str::from_utf8(line) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let reason = format!("not UTF-8 at byte {}", error.valid_up_to());
            return (Message::Invalid(reason), line.trim_ascii_start().starts_with(b"{"));
        }
    };
    match Scanner::new(text).peek() {
        Some(b'{') => {}
        Some(b'[') => return (Message::Invalid("a batch".to_owned()), false),
        _ => return (Message::Invalid("not a JSON object".to_owned()), false),
    }
    match Members::scan(text) {
        Ok(members) => {
            let is_odd = members.is_odd;
            (message(members), is_odd)
        }
        Err(NotJson) => {
            let reason = serde_json::from_str::<HashMap<String, IgnoredAny>>(text).err();
            let reason = reason.map_or_else(|| "not JSON".to_owned(), |reason| reason.to_string());
            (Message::Invalid(reason), true)
        }
    }
}

fn message(members: Members<'_>) -> Message<'_> {
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
    // A line of a log can have an ID and an error, too.
    let is_foreign = members.has_others && !members.has_version && members.result.is_none();
    let outcome = match (members.error, members.result) {
        _ if is_foreign => return Message::Invalid("neither method nor result, and members of no message".to_owned()),
        (Some(error), _) if !matches!(error, "null" | "false") => {
            let failure = object(error).ok().filter(|failure: &RpcFailure| !failure.message.is_empty());
            let failure = failure.unwrap_or_else(|| unreadable_failure(error));
            Err(RpcFailure { data: failure.data.filter(|data| !is_too_deep(data.get())), ..failure })
        }
        (_, Some(result)) => match serde_json::from_str(result) {
            Ok(result) => Ok(result),
            Err(reason) => return Message::Invalid(format!("result: {reason}")),
        },
        // JavaScript leaves out a result that is undefined. The call must end.
        _ if id.is_some() && !members.has_others => Ok(RawValue::NULL),
        _ => return Message::Invalid("neither method, result nor error".to_owned()),
    };
    let id = id.map(|id| scan::text_of(id).unwrap_or_else(|| plain_id(id)));
    Message::Response { id, outcome }
}

/// Returns an id that is not a text, as JSON text. Libraries that read all numbers as floating-point ones repeat `2` as `2.0`.
fn plain_id(id: &str) -> Cow<'_, str> {
    let whole = id.split_once('.').filter(|(_, fraction)| fraction.bytes().all(|digit| digit == b'0'));
    Cow::Borrowed(whole.map_or(id, |(whole, _)| whole))
}

/// Makes the failure for an error without a readable code or message. The call has failed, so it must end.
fn unreadable_failure(error: &str) -> RpcFailure {
    #[derive(Default, Deserialize)]
    struct Partial {
        code: Option<Value>,
        message: Option<Json>,
        data: Option<Json>,
    }
    // Libraries that read all numbers as floating-point ones write `429.0`. Others write numbers as texts.
    let whole = |code: Value| {
        let number = code.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e15);
        let written = || code.as_str().and_then(|code| code.trim().parse().ok());
        code.as_i64().or_else(|| number.map(|number| number as i64)).or_else(written)
    };
    let Partial { code, message, data } = object(error).unwrap_or_default();
    let text = |message: Json| match message.to_value() {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let message = message.map(text).or_else(|| scan::text_of(error).map(Cow::into_owned));
    RpcFailure {
        code: code.and_then(whole).unwrap_or(NO_CODE),
        message: message.filter(|text| !text.is_empty()).unwrap_or_else(|| "an error without a message".to_owned()),
        data: data.or_else(|| Some(Json::from_text(error))),
    }
}

/// Encodes a request: one line with its end.
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

/// Encodes a request whose id is a number.
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

/// Encodes a request without parameters, whose id is a number.
pub fn bare_request(id: impl Serialize, method: &str) -> Vec<u8> {
    line(&serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method}))
}

/// Encodes a notification.
pub fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a P,
    }
    line(&Notification { jsonrpc: "2.0", method, params })
}

/// Encodes an answer to a request of the agent. `id` is JSON text.
pub fn answer(id: &str, result: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Answer<'a, R> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        result: &'a R,
    }
    line(&Answer { jsonrpc: "2.0", id: raw_id(id), result })
}

/// Encodes a refusal of a request of the agent. `id` is JSON text.
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
    // Most lines fit, so that the buffer need not grow.
    let mut line = Vec::with_capacity(LINE);
    // Only maps with keys that are not strings can fail, and no message has such a map.
    if serde_json::to_writer(&mut line, message).is_err() {
        line.clear();
    }
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
    fn malformed_lines_are_invalid() {
        let nested = "[".repeat(100_000);
        for line in
            ["null", "[]", "[{\"method\":\"event\"}]", "1", "\"text\"", "{", "{}", "{\"id\":null}", nested.as_str()]
        {
            assert!(invalid(line), "{line:.60}");
        }
        assert!(matches!(parse(b"{\"method\":\"\xff\"}"), Message::Invalid(_)));
        assert!(invalid(&format!("{{\"params\":{nested}")));
    }

    #[test]
    fn error_without_code_fails_its_call() {
        for (error, message) in [
            (r#"{"message":"no"}"#, "no"),
            (r#"{"code":"x","message":"no"}"#, "no"),
            (r#""no""#, "no"),
            ("[1]", "an error without a message"),
        ] {
            let line = format!(r#"{{"id":"1","error":{error}}}"#);
            let Message::Response { outcome: Err(failure), .. } = parse(line.as_bytes()) else { panic!("no error") };
            assert_eq!((failure.code, &*failure.message), (NO_CODE, message), "{error}");
        }
        for (code, read) in [
            ("429.0", 429),
            ("-32603.0", -32603),
            ("429.5", NO_CODE),
            ("1e30", NO_CODE),
            (r#""-32003""#, -32003),
            (r#"" 429 ""#, 429),
            (r#""4x""#, NO_CODE),
            ("null", NO_CODE),
        ] {
            let line = format!(r#"{{"id":"1","error":{{"code":{code},"message":"no"}}}}"#);
            let Message::Response { outcome: Err(failure), .. } = parse(line.as_bytes()) else { panic!("{code}") };
            assert_eq!(failure.code, read, "{code}");
        }
        let line = br#"{"id":"1","error":{"code":5,"message":null,"data":1}}"#;
        let Message::Response { outcome: Err(failure), .. } = parse(line) else { panic!("no error") };
        assert_eq!((failure.code, &*failure.message), (5, "an error without a message"));
        let line = br#"{"id":"1","error":{"code":-32000,"message":{"text":"no"}}}"#;
        let Message::Response { outcome: Err(failure), .. } = parse(line) else { panic!("no error") };
        assert_eq!((failure.code, &*failure.message), (-32000, r#"{"text":"no"}"#));
    }

    #[test]
    fn lines_of_logs_are_no_answers() {
        for line in [
            r#"{"level":30,"pid":7,"id":2,"msg":"tool started"}"#,
            r#"{"level":50,"id":2,"msg":"tool failed","error":"no"}"#,
            r#"{"jsonrpc":"2.0","level":30,"id":2}"#,
        ] {
            assert!(invalid(line), "{line}");
        }
        for line in [
            r#"{"id":2,"error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":2,"error":"no","more":1}"#,
            r#"{"type":"response","id":2,"result":{}}"#,
        ] {
            assert!(matches!(parse(line.as_bytes()), Message::Response { id: Some(_), .. }), "{line}");
        }
    }

    #[test]
    fn answers_in_odd_forms_are_answers() {
        for (line, id, result) in [
            (r#"{"id":2.0,"result":1}"#, "2", "1"),
            (r#"{"id":2.50,"result":1}"#, "2.50", "1"),
            (r#"{"id":"2.0","result":1}"#, "2.0", "1"),
            (r#"{"id":2}"#, "2", "null"),
            (r#"{"id":2,"error":null}"#, "2", "null"),
            (r#"{"id":2,"error":false,"result":{}}"#, "2", "{}"),
        ] {
            let Message::Response { id: Some(read), outcome: Ok(outcome) } = parse(line.as_bytes()) else {
                panic!("{line}")
            };
            assert_eq!((&*read, outcome.get()), (id, result), "{line}");
        }
    }

    #[test]
    fn lenient_reader_finds_the_message() {
        for (line, text) in [
            (&br#"{"method":"m","params":{"text":"a\ud83d"}}"#[..], "a\u{fffd}"),
            (b"{\"method\":\"m\",\"params\":{\"text\":\"a\tb\xff\"}}", "a\tb\u{fffd}"),
            (br#"{"method":"x","params":{"text":"a","text":"b","n":1e999},"method":"m"}"#, "b"),
            (br#"{"method":"m","params":{"n":NaN,"text":"b"}}"#, "b"),
            (br#"{"method":"m","params":{"\ud83d":1,"text":"b"}}"#, "b"),
        ] {
            let mut rewritten = None;
            let Message::Notification { method, params } = read(line, &mut rewritten) else { panic!("no message") };
            assert_eq!((&*method, params.text("text").as_deref()), ("m", Ok(text)));
        }
        for line in [&b"{\"method\":\"m\""[..], b"\xff", b"{log}"] {
            assert!(matches!(read(line, &mut None), Message::Invalid(_)));
        }
    }

    #[test]
    fn missing_or_null_id_is_not_request() {
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
    fn answer_carries_id_as_it_came() {
        let written = answer("7", &serde_json::json!({"ok": true}));
        assert_eq!(written, b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"ok\":true}}\n");
        let text = answer("\"a\\u0062\"", &());
        assert_eq!(text, b"{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0062\",\"result\":null}\n");
    }
}
