//! The fast path: an event as real agents spell it is cut apart by comparing, not by parsing its envelope.
//!
//! It assumes `{"jsonrpc":"2.0","method":"event","params":{"type":"T","payload":P}}`, to the byte, with a type that is
//! known. Anything else, however slightly, is left to the general way, which it must agree with on whatever it takes:
//! the tests below, and a fuzzing target, hold the two against each other. A line that it does not take costs one
//! comparison. Pieces of the answer, most of what models send, take no parser at all; what they cost is their text's
//! allocation.

use memchr::memmem;

use crate::wire::envelope::is_too_deep;
use crate::wire::{ContentPart, Event, Parcel, ThinkPart, ToolCallPart};

const HEAD: &str = r#"{"jsonrpc":"2.0","method":"event","params":{"type":""#;
const PAYLOAD: &str = r#"","payload":"#;
const TAIL: &str = "}}";
/// By far the most frequent events: pieces of the answer. The text begins with the quote at the end.
const TEXT: &str = r#"ContentPart","payload":{"type":"text","text":""#;
const THINK: &str = r#"ContentPart","payload":{"type":"think","think":""#;
/// And of a tool call's arguments.
const ARGUMENTS: &str = r#"ToolCallPart","payload":{"arguments_part":""#;
/// Longer than any type's name.
const LONGEST_NAME: usize = 32;

/// The event, if the line is spelled as assumed.
pub(super) fn event(line: &[u8]) -> Option<Parcel> {
    let inner = line.strip_prefix(HEAD.as_bytes())?.strip_suffix(TAIL.as_bytes())?;
    if let Some(text) = string_after(inner, TEXT, "}") {
        return Some(Parcel::Text(text));
    }
    if let Some(think) = string_after(inner, THINK, r#","encrypted":null}"#) {
        let part = ContentPart::Think(ThinkPart { think, encrypted: None, extra: Default::default() });
        return Some(Event::from(part).into());
    }
    if let Some(arguments_part) = string_after(inner, ARGUMENTS, "}") {
        let arguments_part = Some(arguments_part);
        return Some(Event::from(ToolCallPart { arguments_part, extra: Default::default() }).into());
    }
    let inner = std::str::from_utf8(inner).ok()?;
    let window = &inner.as_bytes()[..inner.len().min(LONGEST_NAME + PAYLOAD.len())];
    let at = memmem::find(window, PAYLOAD.as_bytes())?;
    let (kind, payload) = (&inner[..at], &inner[at + PAYLOAD.len()..]);
    if is_too_deep(payload) {
        return None;
    }
    // A payload with something behind it is no JSON, so what is decoded here was all there is.
    Event::decode_known(kind, payload).map(Parcel::from)
}

/// The string between `head`, which ends with its quote, and `tail`, which begins behind its other quote.
fn string_after(inner: &[u8], head: &str, tail: &str) -> Option<String> {
    if !inner.starts_with(head.as_bytes()) {
        return None;
    }
    let quoted = inner[head.len() - 1..].strip_suffix(tail.as_bytes())?;
    let text = quoted[1..].strip_suffix(b"\"")?;
    // Escapes, an earlier end of the string, and bytes that JSON forbids in it need a parser.
    let plain = |all: bool, &byte: &u8| all & (byte != b'"') & (byte != b'\\') & (byte >= 0x20);
    // To its end in any case: without a way out, many bytes are compared at once.
    if !text.iter().fold(true, plain) {
        return serde_json::from_slice(quoted).ok();
    }
    std::str::from_utf8(text).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Incoming;
    use super::super::wire::read_generally;
    use super::*;

    fn general(line: &[u8]) -> Option<Parcel> {
        match read_generally(line) {
            Incoming::Event(event) => Some(event),
            _ => None,
        }
    }

    /// Whatever the fast path takes, it reads as the general way does.
    fn agree(line: &[u8]) -> bool {
        let fast = event(line);
        if let Some(fast) = &fast {
            // Compared as text, too: equality forgives what the wire would not.
            let slow = general(line).expect("the general way reads it, too");
            assert_eq!(fast, &slow, "{}", String::from_utf8_lossy(line));
            assert_eq!(format!("{fast:?}"), format!("{slow:?}"));
        }
        fast.is_some()
    }

    fn line(kind: &str, payload: &str) -> String {
        format!(r#"{HEAD}{kind}{PAYLOAD}{payload}{TAIL}"#)
    }

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
            (
                "ToolCall",
                r#"{"type":"function","id":"tc_1","function":{"name":"Shell","arguments":null},"extras":null}"#,
            ),
            ("StatusUpdate", r#"{"context_usage":0.25,"token_usage":null,"message_id":"m"}"#),
            ("TurnEnd", "{}"),
            ("StepBegin", r#"{"n":1}"#),
        ] {
            assert!(agree(line(kind, payload).as_bytes()), "{kind} {payload}");
        }
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
        /// Any bytes put into, taken out of or written over a line that is taken.
        #[test]
        fn the_two_ways_agree_on_damaged_lines(
            which in 0usize..6,
            at in any::<prop::sample::Index>(),
            cut in 0usize..6,
            put in prop_oneof![
                "[\"{}\\[\\]:,\\\\a-z0-9 \u{e9}\t]{0,6}".prop_map(String::into_bytes),
                proptest::collection::vec(any::<u8>(), 0..4),
                Just(br#"","text":""#.to_vec()),
                Just(br#"},"payload":{"#.to_vec()),
                Just(br#"\u"#.to_vec()),
            ],
        ) {
            let mut bytes = match which {
                0 => line("ContentPart", r#"{"type":"text","text":"some words"}"#),
                1 => line("ContentPart", r#"{"type":"think","think":"some \"words\"","encrypted":null}"#),
                2 => line("ToolResult", r#"{"tool_call_id":"t","return_value":{"is_error":false,"output":"o","message":"m","display":[]}}"#),
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
