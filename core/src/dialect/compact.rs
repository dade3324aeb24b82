//! The fast path: a message as real agents spell it is cut apart by comparing, not by parsing.
//!
//! It assumes, to the byte, `{"jsonrpc":"2.0","method":"event","params":{"type":"T","payload":P}}`, or the same of a
//! request with `"id":"I",` before its `params`; T is a type that is known. Anything else, however slightly, is left to
//! the general way, which it must agree with on whatever it takes: the tests below, and a fuzzing target, hold the two
//! against each other. A line that it does not take costs two comparisons.
//!
//! The payloads of the commonest events are read here, too, if all their fields are there, in the agents' order; others
//! are given to serde. What the former cost is mostly the allocation of what is delivered.

use std::string::FromUtf8Error;

use memchr::memmem;

use crate::wire::envelope::is_too_deep;
use crate::wire::{
    ApprovalRequest, ApprovalSource, Content, ContentPart, Event, FunctionCall, Parcel, StatusUpdate, ThinkPart,
    TokenUsage, ToolCall, ToolCallPart, ToolResult, ToolReturnValue,
};

const EVENT: &str = r#"{"jsonrpc":"2.0","method":"event","params":{"type":""#;
/// By far the most frequent of them; the text follows.
const TEXT: &str =
    r#"{"jsonrpc":"2.0","method":"event","params":{"type":"ContentPart","payload":{"type":"text","text":"#;
const REQUEST: &str = r#"{"jsonrpc":"2.0","method":"request","id":"#;
const PARAMS: &str = r#","params":{"type":""#;
const PAYLOAD: &str = r#"","payload":"#;
const TAIL: &str = "}}";
/// Longer than any type's name.
const LONGEST_NAME: usize = 32;

/// The event, if the line is spelled as assumed.
// Inlined, so that a text is moved no more often than must be: that is a good part of what it costs.
#[inline]
pub(super) fn event(line: &[u8]) -> Option<Parcel> {
    if let Some(text) = Rest(line).text() {
        return Some(Parcel::Text(text));
    }
    other_event(line)
}

fn other_event(line: &[u8]) -> Option<Parcel> {
    let mut rest = Rest(line);
    rest.skip(EVENT)?;
    let known = rest.think().or_else(|| rest.tool_call_part()).or_else(|| rest.tool_call());
    let known = known.or_else(|| rest.tool_result()).or_else(|| rest.status());
    known.or_else(|| decode(rest.0)).map(Parcel::from)
}

/// The request and the id of its envelope, as JSON text, if the line is spelled as assumed.
pub(super) fn request(line: &[u8]) -> Option<(String, Event)> {
    let mut rest = Rest(line);
    rest.skip(REQUEST)?;
    let quoted = rest.0;
    rest.plain_string()?;
    let id = std::str::from_utf8(&quoted[..quoted.len() - rest.0.len()]).ok()?;
    rest.skip(PARAMS)?;
    let request = rest.approval().or_else(|| decode(rest.0))?;
    Some((id.to_owned(), request))
}

/// The text of a large line that is nothing else, in the line's own memory. Otherwise the line, as it was.
pub(super) fn large_text(line: Vec<u8>) -> Result<Parcel, Vec<u8>> {
    let mut line = String::from_utf8(line).map_err(FromUtf8Error::into_bytes)?;
    let text = line.strip_prefix(TEXT).and_then(|rest| rest.strip_prefix('"')?.strip_suffix(r#""}}}"#));
    // All bytes in any case: without a way out, many are compared at once.
    let plain = |all: bool, byte: u8| all & (byte != b'"') & (byte != b'\\') & (byte >= 0x20);
    let Some(size) = text.filter(|text| text.bytes().fold(true, plain)).map(str::len) else {
        return Err(line.into_bytes());
    };
    line.drain(..=TEXT.len());
    line.truncate(size);
    line.shrink_to_fit();
    Ok(Parcel::Text(line))
}

/// What follows on the quote before a type's name, by serde.
fn decode(rest: &[u8]) -> Option<Event> {
    let rest = std::str::from_utf8(rest.strip_suffix(TAIL.as_bytes())?).ok()?;
    let window = &rest.as_bytes()[..rest.len().min(LONGEST_NAME + PAYLOAD.len())];
    let at = memmem::find(window, PAYLOAD.as_bytes())?;
    let (kind, payload) = (&rest[..at], &rest[at + PAYLOAD.len()..]);
    if is_too_deep(payload) {
        return None;
    }
    // A payload with something behind it is no JSON, so what is decoded here was all there is.
    Event::decode_known(kind, payload)
}

/// What is left of a line. What reads more than one thing starts from a copy: it takes all, or nothing.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    #[inline]
    fn text(mut self) -> Option<String> {
        self.skip(TEXT)?;
        let text = self.string()?;
        self.ends_with("}}}")?;
        Some(text)
    }

    fn think(mut self) -> Option<Event> {
        self.skip(r#"ContentPart","payload":{"type":"think","think":"#)?;
        let think = self.string()?;
        self.ends_with(r#","encrypted":null}}}"#)?;
        Some(ContentPart::Think(ThinkPart { think, encrypted: None, extra: Default::default() }).into())
    }

    fn tool_call_part(mut self) -> Option<Event> {
        self.skip(r#"ToolCallPart","payload":{"arguments_part":"#)?;
        let arguments_part = self.nullable(Self::string)?;
        self.ends_with("}}}")?;
        Some(ToolCallPart { arguments_part, extra: Default::default() }.into())
    }

    fn tool_call(mut self) -> Option<Event> {
        self.skip(r#"ToolCall","payload":{"type":"function","id":"#)?;
        let id = self.string()?;
        self.skip(r#","function":{"name":"#)?;
        let name = self.string()?;
        self.skip(r#","arguments":"#)?;
        let arguments = self.nullable(Self::string)?;
        self.ends_with(r#"},"extras":null}}}"#)?;
        let function = FunctionCall { name, arguments, extra: Default::default() };
        Some(ToolCall { id, function, extras: None, extra: Default::default() }.into())
    }

    /// With plain output, and nothing to display.
    fn tool_result(mut self) -> Option<Event> {
        self.skip(r#"ToolResult","payload":{"tool_call_id":"#)?;
        let tool_call_id = self.string()?;
        self.skip(r#","return_value":{"is_error":"#)?;
        let is_error = self.boolean()?;
        self.skip(r#","output":"#)?;
        let output = Content::Text(self.string()?);
        self.skip(r#","message":"#)?;
        let message = self.string()?;
        self.ends_with(r#","display":[],"extras":null}}}}"#)?;
        let extra = Default::default();
        let return_value = ToolReturnValue { is_error, output, message, display: Vec::new(), extras: None, extra };
        Some(ToolResult { tool_call_id, return_value, extra: Default::default(), tool_call: Default::default() }.into())
    }

    fn status(mut self) -> Option<Event> {
        self.skip(r#"StatusUpdate","payload":{"context_usage":"#)?;
        let context_usage = self.nullable(Self::number)?;
        self.skip(r#","context_tokens":"#)?;
        let context_tokens = self.nullable(Self::count)?;
        self.skip(r#","max_context_tokens":"#)?;
        let max_context_tokens = self.nullable(Self::count)?;
        self.skip(r#","token_usage":"#)?;
        let token_usage = self.nullable(Self::token_usage)?;
        self.skip(r#","message_id":"#)?;
        let message_id = self.nullable(Self::string)?;
        self.skip(r#","plan_mode":"#)?;
        let plan_mode = self.nullable(Self::boolean)?;
        self.ends_with(r#","mcp_status":null}}}"#)?;
        let update = StatusUpdate {
            context_usage,
            context_tokens,
            max_context_tokens,
            token_usage,
            message_id,
            plan_mode,
            ..StatusUpdate::unchanged()
        };
        Some(update.into())
    }

    /// What is to be displayed is left to serde.
    fn approval(mut self) -> Option<Event> {
        self.skip(r#"ApprovalRequest","payload":"#)?;
        let payload = std::str::from_utf8(self.0.strip_suffix(TAIL.as_bytes())?).ok()?;
        if is_too_deep(payload) {
            return None;
        }
        self.skip(r#"{"id":"#)?;
        let id = self.string()?;
        self.skip(r#","tool_call_id":"#)?;
        let tool_call_id = self.string()?;
        self.skip(r#","sender":"#)?;
        let sender = self.string()?;
        self.skip(r#","action":"#)?;
        let action = self.string()?;
        self.skip(r#","description":"#)?;
        let description = self.string()?;
        self.skip(r#","source_kind":"#)?;
        let source_kind = self.nullable(Self::string)?.map(|word| ApprovalSource::from(&*word));
        self.skip(r#","source_id":"#)?;
        let source_id = self.nullable(Self::string)?;
        self.skip(r#","agent_id":"#)?;
        let agent_id = self.nullable(Self::string)?;
        self.skip(r#","subagent_type":"#)?;
        let subagent_type = self.nullable(Self::string)?;
        self.skip(r#","source_description":"#)?;
        let source_description = self.nullable(Self::string)?;
        self.skip(r#","display":"#)?;
        let display = serde_json::from_slice(self.0.strip_suffix(b"}}}")?).ok()?;
        let request = ApprovalRequest {
            id,
            tool_call_id,
            sender,
            action,
            description,
            source_kind,
            source_id,
            agent_id,
            subagent_type,
            source_description,
            display,
            extra: Default::default(),
            tool_call: Default::default(),
        };
        Some(request.into())
    }

    fn token_usage(&mut self) -> Option<TokenUsage> {
        self.skip(r#"{"input_other":"#)?;
        let input_other = self.count()?;
        self.skip(r#","output":"#)?;
        let output = self.count()?;
        self.skip(r#","input_cache_read":"#)?;
        let input_cache_read = self.count()?;
        self.skip(r#","input_cache_creation":"#)?;
        let input_cache_creation = self.count()?;
        self.skip("}")?;
        Some(TokenUsage { input_other, output, input_cache_read, input_cache_creation, extra: Default::default() })
    }

    fn skip(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(text.as_bytes())?;
        Some(())
    }

    fn ends_with(self, text: &str) -> Option<()> {
        (self.0 == text.as_bytes()).then_some(())
    }

    fn nullable<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.skip("null").is_some() { Some(None) } else { read(self).map(Some) }
    }

    fn boolean(&mut self) -> Option<bool> {
        let value = self.0.starts_with(b"true");
        self.skip(if value { "true" } else { "false" })?;
        Some(value)
    }

    /// Digits that any whole number has room for. What is none after all, as 1.5, fails at what follows.
    fn count(&mut self) -> Option<i64> {
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.0.split_at(digits);
        if digits == 0 || digits > 18 || digits > 1 && number[0] == b'0' {
            return None;
        }
        self.0 = rest;
        Some(number.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
    }

    fn number(&mut self) -> Option<f64> {
        let is_part = |byte: &&u8| matches!(**byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let (number, rest) = self.0.split_at(self.0.iter().take_while(is_part).count());
        self.0 = rest;
        serde_json::from_slice(number).ok()
    }

    /// A string without escapes and of ASCII only.
    #[inline]
    fn plain_string(&mut self) -> Option<&'a str> {
        let text = self.0.strip_prefix(b"\"")?;
        let (text, rest) = text.split_at(plain_run(text));
        self.0 = rest.strip_prefix(b"\"")?;
        // SAFETY: a plain run is ASCII.
        Some(unsafe { std::str::from_utf8_unchecked(text) })
    }

    /// A string.
    #[inline]
    fn string(&mut self) -> Option<String> {
        let whole = *self;
        match self.plain_string() {
            Some(text) => Some(text.to_owned()),
            None => {
                *self = whole;
                self.any_string()
            }
        }
    }

    /// Of escapes those of one letter, others are left to a parser.
    fn any_string(&mut self) -> Option<String> {
        let mut rest = self.0.strip_prefix(b"\"")?;
        let mut text = Vec::with_capacity(rest.len().min(SHORT));
        loop {
            let size = memchr::memchr2(b'"', b'\\', rest)?;
            let (piece, [stop, then @ ..]) = rest.split_at(size) else { return None };
            if piece.iter().any(|byte| *byte < 0x20) {
                return None;
            }
            text.extend_from_slice(piece);
            if *stop == b'"' {
                self.0 = then;
                return String::from_utf8(text).ok();
            }
            let (letter, then) = then.split_first()?;
            text.push(match letter {
                b'n' => b'\n',
                b'"' | b'\\' | b'/' => *letter,
                b't' => b'\t',
                b'r' => b'\r',
                b'b' => 0x08,
                b'f' => 0x0c,
                _ => return None,
            });
            rest = then;
        }
    }
}

/// What a string with escapes has room for at first.
const SHORT: usize = 256;

/// How many bytes in front are ASCII that stands for itself in a JSON string: no control character, quote or backslash.
fn plain_run(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let mut at = 0;
    // Eight at a time: the lowest mark in a word is exact, those above it need not be.
    while let Some(eight) = bytes[at..].first_chunk() {
        let word = u64::from_le_bytes(*eight);
        let below = |limit: u64, word: u64| word.wrapping_sub(ONES * limit) & !word;
        let equal = |byte: u8| below(1, word ^ (ONES * u64::from(byte)));
        let marks = (below(0x20, word) | equal(b'"') | equal(b'\\') | word) & HIGH;
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let plain = |byte: &&u8| matches!(**byte, 0x20..=0x7f if **byte != b'"' && **byte != b'\\');
    at + bytes[at..].iter().take_while(plain).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Incoming;
    use super::super::wire::read_generally;
    use super::*;

    /// Whatever the fast path takes, it reads as the general way does.
    fn agree(line: &[u8]) -> bool {
        let fast = event(line);
        let message = fast.clone().map(Incoming::Event).or_else(|| {
            request(line).map(|(rpc_id, request)| Incoming::Request { rpc_id, request: Box::new(request) })
        });
        if let Some(message) = &message {
            assert_eq!(
                format!("{message:?}"),
                format!("{:?}", read_generally(line)),
                "{}",
                String::from_utf8_lossy(line)
            );
        }
        match large_text(line.to_vec()) {
            Ok(text) => assert_eq!(Some(text), fast),
            Err(same) => assert_eq!(same, line),
        }
        message.is_some()
    }

    fn line(kind: &str, payload: &str) -> String {
        format!("{EVENT}{kind}{PAYLOAD}{payload}{TAIL}")
    }

    fn asked(id: &str, kind: &str, payload: &str) -> String {
        format!("{REQUEST}{id}{PARAMS}{kind}{PAYLOAD}{payload}{TAIL}")
    }

    const CALL: &str =
        r#"{"type":"function","id":"tc_1","function":{"name":"Shell","arguments":"{\"a\":"},"extras":null}"#;
    const RESULT: &str = r#"{"tool_call_id":"t","return_value":{"is_error":false,"output":"a\n","message":"m","display":[],"extras":null}}"#;
    const SHOWN: &str = r#"{"tool_call_id":"t","return_value":{"is_error":true,"output":"o","message":"m","display":[{"type":"brief","text":"b"}],"extras":null}}"#;
    const STATUS: &str = r#"{"context_usage":0.25,"context_tokens":10,"max_context_tokens":100,"token_usage":{"input_other":1,"output":2,"input_cache_read":3,"input_cache_creation":0},"message_id":"m","plan_mode":false,"mcp_status":null}"#;
    const APPROVAL: &str = r#"{"id":"r","tool_call_id":"t","sender":"Shell","action":"run","description":"`ls`","source_kind":"foreground_turn","source_id":"s","agent_id":null,"subagent_type":null,"source_description":null,"display":[{"type":"shell","language":"bash","command":"ls"}]}"#;
    const TOOL: &str = r#"{"id":"r","name":"look_up","arguments":"{\"item\":\"tea\"}"}"#;

    #[test]
    fn events_of_real_agents_are_taken() {
        for (kind, payload) in [
            ("ContentPart", r#"{"type":"text","text":"Hel"}"#),
            ("ContentPart", r#"{"type":"text","text":""}"#),
            ("ContentPart", r#"{"type":"text","text":"a \"b\"\n\u00e9\ud83d\ude00 é"}"#),
            ("ContentPart", r#"{"type":"think","think":"Let me ","encrypted":null}"#),
            ("ToolCallPart", r#"{"arguments_part":"{\"a\":"}"#),
            ("ToolCallPart", r#"{"arguments_part":"ls"}"#),
            ("ToolCallPart", r#"{"arguments_part":null}"#),
            ("ToolCall", CALL),
            ("ToolCall", &CALL.replace(r#""{\"a\":""#, "null")),
            ("ToolResult", RESULT),
            ("ToolResult", SHOWN),
            ("StatusUpdate", STATUS),
            ("StatusUpdate", r#"{"context_usage":0.25,"token_usage":null,"message_id":"m"}"#),
            ("TurnEnd", "{}"),
            ("StepBegin", r#"{"n":1}"#),
        ] {
            assert!(agree(line(kind, payload).as_bytes()), "{kind} {payload}");
        }
        assert!(agree(asked(r#""r""#, "ToolCallRequest", TOOL).as_bytes()));
        assert!(agree(asked(r#""r""#, "ApprovalRequest", APPROVAL).as_bytes()));
    }

    #[test]
    fn the_commonest_payloads_need_no_parser() {
        fn is_read<'a>(line: &'a str, head: &str, read: impl FnOnce(Rest<'a>) -> Option<Event>) -> bool {
            read(Rest(&line.as_bytes()[head.len()..])).is_some()
        }
        assert!(is_read(&line("ToolCall", CALL), EVENT, Rest::tool_call));
        assert!(is_read(&line("ToolCallPart", r#"{"arguments_part":"\"ls\"}"}"#), EVENT, Rest::tool_call_part));
        assert!(is_read(&line("ToolResult", RESULT), EVENT, Rest::tool_result));
        assert!(!is_read(&line("ToolResult", SHOWN), EVENT, Rest::tool_result));
        assert!(is_read(&line("StatusUpdate", STATUS), EVENT, Rest::status));
        let head = format!("{REQUEST}{PARAMS}");
        assert!(is_read(&asked("", "ApprovalRequest", APPROVAL), &head, Rest::approval));
    }

    #[test]
    fn what_is_spelled_otherwise_is_left_to_the_general_way() {
        let deep = format!(r#"{{"type":"text","text":"a","more":{}{}}}"#, "[".repeat(110), "]".repeat(110));
        for text in [
            line("ContentPart", &deep),
            line("ToolCallPart", r#"{"arguments_part":"a","arguments_part":"b"}"#),
            line("ContentPart", r#"{"type":"text","text":"a","text":"b"}"#),
            line("ContentPart", r#"{"type":"text","text":"a","more":"b"}"#),
            line("ContentPart", r#"{"type":"text","text":"\ud800"}"#),
            line("ContentPart", "{\"type\":\"text\",\"text\":\"a\tb\"}"),
            line("ContentPart", r#"{"type":"text","text":"a"}},"x":{"y":"z"}"#),
            line("StepBegin", r#"{"n":1},"payload":{"n":2}"#),
            line("StepBegin", r#"{"n":1},"type":"TurnEnd""#),
            line("StepBegin", r#"{"n":"one"}"#),
            line("Weather", r#"{"degrees":1}"#),
            line("StepBegin", r#"{"n":1}"#).replace(':', ": "),
            line("StepBegin", r#"{"n":1}"#) + "\r",
            line("StepBegin", r#"{"n":1}"#).replace("event", "request"),
        ] {
            agree(text.as_bytes());
        }
        assert!(event(line("ContentPart", &deep).as_bytes()).is_none());
        assert!(event(line("ContentPart", "{\"type\":\"text\",\"text\":\"a\tb\"}").as_bytes()).is_none());
        assert!(
            event(&[line("ContentPart", r#"{"type":"text","text":""#).as_bytes(), b"\xff\"}}}"].concat()).is_none()
        );
    }

    proptest! {
        #[test]
        fn plain_runs_end_where_a_byte_is_not_plain(
            bytes in proptest::collection::vec(prop_oneof![6 => 0x1eu8..=0x80, 1 => any::<u8>()], 0..40),
        ) {
            let plain = |byte: &u8| byte.is_ascii() && *byte >= 0x20 && !b"\"\\".contains(byte);
            let expected = bytes.iter().position(|byte| !plain(byte)).unwrap_or(bytes.len());
            prop_assert_eq!(plain_run(&bytes), expected);
        }

        /// Any bytes put into, taken out of or written over a line that is taken.
        #[test]
        fn the_two_ways_agree_on_damaged_lines(
            which in 0usize..10,
            at in any::<prop::sample::Index>(),
            cut in 0usize..6,
            put in prop_oneof![
                "[\"{}\\[\\]:,\\\\a-z0-9 \u{e9}\t]{0,6}".prop_map(String::into_bytes),
                "[-+.eE0-9]{1,20}".prop_map(String::into_bytes),
                proptest::collection::vec(any::<u8>(), 0..4),
                Just(br#"","text":""#.to_vec()),
                Just(br#"},"payload":{"#.to_vec()),
                Just(br#"\u"#.to_vec()),
            ],
        ) {
            let mut bytes = match which {
                0 => line("ContentPart", r#"{"type":"text","text":"some words"}"#),
                1 => line("ContentPart", r#"{"type":"think","think":"some \"words\"","encrypted":null}"#),
                2 => line("ToolResult", RESULT),
                5 => line("ToolCall", CALL),
                6 => line("StatusUpdate", STATUS),
                8 => asked(r#""r""#, "ApprovalRequest", APPROVAL),
                7 => asked(r#""r""#, "ToolCallRequest", TOOL),
                3 => line("StepBegin", r#"{"n":1}"#),
                4 => line("ToolCallPart", r#"{"arguments_part":"some words"}"#),
                _ => line("SubagentEvent", r#"{"parent_tool_call_id":"t","event":{"type":"StepBegin","payload":{"n":1}}}"#),
            }.into_bytes();
            let at = at.index(bytes.len() + 1);
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, put);
            agree(&bytes);
        }
    }
}
