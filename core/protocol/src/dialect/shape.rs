//! Reads a line that differs from an earlier line only in its text.
//!
//! Most lines of a turn are pieces of the same text: they begin with the same bytes, end with the same bytes, and have one
//! string between them. The general decoder reads the first two such lines. If they make the same event with different
//! texts, the string between is the text, and each further line of this shape is that event with another text. No
//! protocol, spelling or release is known here. The general decoder defines what a line means.

use std::borrow::Cow;

use crate::json::scan;
use crate::messages::{ContentPart, Event, TextPart};

/// The number of shapes that are remembered. Answers, thoughts and arguments alternate, also those of subagents.
const MAX_SHAPES: usize = 4;
/// The limit of the bytes around the text. Comparing them costs more than it saves if there are many.
const MAX_AROUND: usize = 1024;

/// Some bytes around a text, and the event that a line with these bytes makes.
#[derive(Debug)]
struct Shape {
    before: Vec<u8>,
    after: Vec<u8>,
    /// The event, with an empty text.
    event: Event,
    /// The only text that was decoded so far. `None` once a second text has made the same event.
    only: Option<String>,
}

impl Shape {
    /// Returns the text of a line of this shape.
    fn text<'a>(&self, line: &'a [u8]) -> Option<Cow<'a, str>> {
        let quoted = line.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        let text = scan::strict_text(quoted)?;
        self.only.as_ref().is_none_or(|only| *only == text).then_some(text)
    }
}

/// A piece of a text.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    /// A part of the answer that has nothing but its text.
    Answer(Cow<'a, str>),
    /// Another event.
    Other(Box<Event>),
}

impl Piece<'_> {
    pub(crate) fn into_event(self) -> Box<Event> {
        match self {
            Self::Answer(text) => Box::new(ContentPart::text(text.into_owned()).into()),
            Self::Other(event) => event,
        }
    }
}

/// The most recent shapes of a turn, the newest first.
#[derive(Debug, Default)]
pub(crate) struct Shapes(Vec<Shape>);

impl Shapes {
    /// Reads a line of a known shape. `None`: the general decoder has to read the line.
    pub(crate) fn read<'a>(&mut self, line: &'a [u8]) -> Option<Piece<'a>> {
        let (place, text) = self.0.iter().enumerate().find_map(|(place, shape)| Some((place, shape.text(line)?)))?;
        if place > 0 {
            self.0.swap(0, place);
        }
        let event = &self.0.first()?.event;
        if let Event::ContentPart(ContentPart::Text(TextPart { message_id: None, extra, .. })) = event
            && extra.is_empty()
        {
            return Some(Piece::Answer(text));
        }
        let mut event = Box::new(event.clone());
        *event.piece_mut()? = text.into_owned();
        Some(Piece::Other(event))
    }

    /// Remembers the shape of a line that the general decoder has read as this event. Call it only if the event depends
    /// on nothing but the line.
    pub(crate) fn learn(&mut self, line: &[u8], event: &mut Event) {
        let is_call = matches!(event, Event::ToolCall(_));
        // The first piece of a call comes with the call's id, which no other line has.
        let piece = event.piece_mut().filter(|_| !is_call).map(std::mem::take);
        let Some(text) = piece else { return };
        if let Some((before, after)) = around(line, &text)
            && before.len() + after.len() <= MAX_AROUND
        {
            self.add(before, after, event, &text);
        }
        if let Some(piece) = event.piece_mut() {
            *piece = text;
        }
    }

    fn add(&mut self, before: &[u8], after: &[u8], event: &Event, text: &str) {
        let known = self.0.iter_mut().find(|shape| shape.before == before && shape.after == after);
        match known {
            Some(shape) if shape.event == *event => {
                shape.only.take_if(|only| only != text);
            }
            // More than the text differs.
            Some(shape) => {
                shape.event = event.clone();
                shape.only = Some(text.to_owned());
            }
            None => {
                self.0.truncate(MAX_SHAPES - 1);
                let (before, after) = (before.to_owned(), after.to_owned());
                self.0.insert(0, Shape { before, after, event: event.clone(), only: Some(text.to_owned()) });
            }
        }
    }
}

/// Returns the bytes before and after the last string of a line that has this text.
fn around<'a>(line: &'a [u8], text: &str) -> Option<(&'a [u8], &'a [u8])> {
    let (mut found, mut at) = (None, 0);
    while let Some(quote) = memchr::memchr(b'"', &line[at..]) {
        let begin = at + quote;
        at = begin + scan::quoted_length(&line[begin..])?;
        // Only escapes make a string longer than its text.
        let quoted = &line[begin..at];
        if quoted.len() >= text.len() + 2 && scan::strict_text(quoted).is_some_and(|decoded| decoded == text) {
            found = Some((&line[..begin], &line[at..]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Acp, Call, Dialect, Incoming, Legacy, Wire, WireVersion};
    use crate::messages::ContentPart;

    /// The bytes around a text, as agents write them: the protocol, the bytes before, the bytes after.
    const AROUND: &[(&str, &str, &str)] = &[
        (
            "wire",
            r#"{"jsonrpc":"2.0","method":"event","params":{"type":"ContentPart","payload":{"type":"text","text":"#,
            "}}}",
        ),
        (
            "wire",
            r#" { "params" : { "payload" : { "text" : "#,
            r#" , "type" : "text" } , "type" : "ContentPart" } , "method" : "event" } "#,
        ),
        (
            "wire",
            r#"{"method":"event","params":{"type":"ContentPart","payload":{"type":"think","think":"#,
            r#","encrypted":null}}}"#,
        ),
        ("wire", r#"{"method":"event","params":{"type":"ToolCallPart","payload":{"arguments_part":"#, "}}}"),
        (
            "wire",
            r#"{"method":"event","params":{"type":"ContentPart","payload":{"type":"text","text":"x","more":[1,{"a":"\u00e9"}],"text":"#,
            "}}}",
        ),
        (
            "wire",
            concat!(
                r#"{"method":"event","params":{"type":"SubagentEvent","payload":{"agent_id":"a","event":{"type":"ContentPart","#,
                r#""payload":{"type":"text","text":"#
            ),
            "}}}}}",
        ),
        (
            "legacy",
            r#"{"jsonrpc":"2.0","method":"event","params":{"type":"content_part","payload":{"type":"text","text":"#,
            "}}}",
        ),
        (
            "acp",
            concat!(
                r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","#,
                r#""content":{"type":"text","text":"#
            ),
            "}}}}",
        ),
        (
            "acp",
            concat!(
                r#"{"method":"session/update","params":{"update":{"messageId":"m","sessionUpdate":"agent_thought_chunk","#,
                r#""content":{"type":"text","text":"#
            ),
            r#"},"_meta":{"a":{"b":"text"}}},"sessionId":"s"}}"#,
        ),
    ];

    fn dialect(name: &str) -> Box<dyn Dialect> {
        match name {
            "wire" => Box::new(Wire::new(WireVersion::LATEST)),
            "legacy" => Box::new(Legacy::new(None)),
            _ => {
                let mut acp = Acp::open("s");
                acp.call("prompt-1", &Call::Prompt("go".into())).expect("a prompt");
                // The first piece begins the step.
                let (_, before, after) = AROUND.iter().find(|(name, ..)| *name == "acp").expect("ACP");
                acp.read_line(format!("{before}\"\"{after}").as_bytes());
                Box::new(acp)
            }
        }
    }

    fn read(shapes: &mut Shapes, line: &[u8]) -> Option<Box<Event>> {
        shapes.read(line).map(Piece::into_event)
    }

    fn general(dialect: &mut dyn Dialect, line: &[u8]) -> Option<Box<Event>> {
        match dialect.read_line(line) {
            Incoming::Event(event) => Some(event),
            _ => None,
        }
    }

    fn line(before: &str, text: &str, after: &str) -> Vec<u8> {
        [before.as_bytes(), &serde_json::to_vec(text).expect("JSON"), after.as_bytes()].concat()
    }

    /// Learns from lines with these texts.
    fn learned(dialect: &mut dyn Dialect, (before, after): (&str, &str), texts: &[&str]) -> Shapes {
        let mut shapes = Shapes::default();
        for text in texts {
            assert!(dialect.is_text_stateless());
            let line = line(before, text, after);
            let mut event = general(dialect, &line).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&line)));
            shapes.learn(&line, &mut event);
            assert_eq!(event.piece_mut().map(|piece| &**piece), Some(*text), "the event stays as it was");
        }
        shapes
    }

    #[test]
    fn third_line_of_shape_is_read_without_decoder() {
        for (name, before, after) in AROUND {
            let mut dialect = dialect(name);
            let mut shapes = learned(&mut *dialect, (before, after), &["one"]);
            let third = line(before, "a\n\"é\u{1f600}", after);
            assert_eq!(read(&mut shapes, &third), None, "one line is not enough");
            assert!(read(&mut shapes, &line(before, "one", after)).is_some(), "the same line is the same event");
            let mut shapes = learned(&mut *dialect, (before, after), &["one", "another"]);
            assert_eq!(read(&mut shapes, &third), general(&mut *dialect, &third), "{before}");
            assert!(read(&mut shapes, &third).is_some(), "{before}");
            // The first text occurs in the line more than once.
            let mut shapes = learned(&mut *dialect, (before, after), &["text", "one", "another"]);
            assert_eq!(read(&mut shapes, &third), general(&mut *dialect, &third), "{before}");
        }
    }

    #[test]
    fn line_with_one_changed_byte_is_the_general_decoders_event() {
        for (name, before, after) in AROUND {
            let mut dialect = dialect(name);
            let mut shapes = learned(&mut *dialect, (before, after), &["one", "another"]);
            let whole = line(before, "a\u{e9}\n\u{1f600}", after);
            let bytes = *b"\"\\{}[]:,nu0d8\t \x00\x1f\x7f\x80\xc3\xed\xff";
            for at in 0..=whole.len() {
                for byte in bytes {
                    let [mut put, mut changed] = [whole.clone(), whole.clone()];
                    put.insert(at, byte);
                    changed.get_mut(at).into_iter().for_each(|old| *old = byte);
                    for other in [put, changed] {
                        if let Some(event) = read(&mut shapes, &other) {
                            let told = String::from_utf8_lossy(&other);
                            assert_eq!(general(&mut *dialect, &other), Some(event), "{told}");
                        }
                    }
                }
                let without = [&whole[..at], &whole[whole.len().min(at + 1)..]].concat();
                if let Some(event) = read(&mut shapes, &without) {
                    assert_eq!(general(&mut *dialect, &without), Some(event));
                }
            }
        }
    }

    #[test]
    fn text_that_is_not_strict_json_is_left_to_general_decoder() {
        let (_, before, after) = AROUND[0];
        let mut shapes = learned(&mut *dialect("wire"), (before, after), &["one", "another"]);
        for text in
            [&br#""\ud83d""#[..], b"\"\xff\"", b"\"\t\"", br#""\x""#, br#""a","b":"c""#, b"\"", b"null", b" \"a\""]
        {
            let line = [before.as_bytes(), text, after.as_bytes()].concat();
            assert_eq!(read(&mut shapes, &line), None, "{}", String::from_utf8_lossy(&line));
        }
    }

    #[test]
    fn line_in_which_more_than_text_differs_is_not_learned() {
        let (_, before, after) = AROUND[0];
        let mut shapes = learned(&mut *dialect("wire"), (before, after), &["one"]);
        let mut event = ContentPart::think("two").into();
        shapes.learn(&line(before, "two", after), &mut event);
        assert_eq!(read(&mut shapes, &line(before, "three", after)), None);
    }

    #[test]
    fn memory_of_shapes_is_bounded() {
        let mut dialect = dialect("wire");
        let mut shapes = Shapes::default();
        let (_, before, after) = AROUND[0];
        for n in 0..100 {
            let line = line(before, "text", &format!(r#","more":{n}{after}"#));
            let mut event = general(&mut *dialect, &line).expect("an event");
            shapes.learn(&line, &mut event);
        }
        assert_eq!(shapes.0.len(), MAX_SHAPES);
        let long = line(before, "text", &format!(r#","more":"{}"{after}"#, "x".repeat(MAX_AROUND)));
        let mut event = general(&mut *dialect, &long).expect("an event");
        shapes.learn(&long, &mut event);
        assert_eq!(read(&mut shapes, &long), None);
    }
}
