//! Reads what is nearly JSON, as other parsers do, and writes it as strict JSON.
//!
//! [`rewrite`] is linear, needs no stack, and is called only after a strict parser has failed. It accepts what Python's or
//! Node's parser accepts, and what agents in other languages have sent:
//!
//! | in the text | becomes |
//! | --- | --- |
//! | half of a surrogate pair | U+FFFD, or the character if the next part of the same list begins with the other half |
//! | invalid UTF-8 | U+FFFD |
//! | a control character in a string | its escape |
//! | an unknown escape | a backslash and the character |
//! | a member that occurs twice | the last one |
//! | nesting below [`MAX_DEPTH`] levels | a string with the JSON |
//! | `NaN`, `Infinity` | strings |

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

/// The levels of nesting that stay as they are. `serde_json` reads 127, and the value can become part of others.
pub(crate) const MAX_DEPTH: usize = 100;

/// What becomes of a number that a double cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Huge {
    /// It stays, because it is valid JSON.
    Kept,
    /// It becomes a string with its digits, for types that hold parsed numbers.
    Text,
}

/// The halves of surrogate pairs at the ends of the strings in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Halves {
    /// The first low half that begins a string.
    pub(crate) leading: Option<u16>,
    /// The last high half that ends a string.
    pub(crate) trailing: Option<u16>,
}

/// Strict JSON, and the halves of surrogate pairs that it has lost.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rewritten {
    pub(crate) text: String,
    pub(crate) halves: Halves,
}

/// Rewrites a line as strict JSON. `None` if it is not JSON in this wider sense either.
pub(crate) fn rewrite(line: &[u8], huge: Huge) -> Option<Rewritten> {
    let text = text(line);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut rewriter = Rewriter::new(text.as_bytes(), huge);
    rewriter.document()?;
    let halves = rewriter.halves;
    Some(Rewritten { text: rewriter.finish()?, halves })
}

/// Parses nearly-JSON. `None` if it is not JSON in this wider sense.
pub(crate) fn value(text: &str) -> Option<Value> {
    serde_json::from_str(&rewrite(text.as_bytes(), Huge::Text)?.text).ok()
}

/// Decodes UTF-8. The halves of surrogate pairs that Python writes with `surrogatepass` become escapes.
fn text(line: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(line) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = memchr::memchr(0xed, rest) {
        let (plain, half) = rest.split_at(at);
        bytes.extend_from_slice(plain);
        match half {
            [_, high @ 0xa0..=0xbf, low @ 0x80..=0xbf, after @ ..] => {
                let unit = 0xd000 | u16::from(high & 0x3f) << 6 | u16::from(low & 0x3f);
                bytes.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                rest = after;
            }
            [first, after @ ..] => {
                bytes.push(*first);
                rest = after;
            }
            [] => break,
        }
    }
    bytes.extend_from_slice(rest);
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// An object or a list that is being read.
#[derive(Default)]
struct Open {
    /// The places of an object's members in the output, with their commas. `None` for a list.
    members: Option<HashMap<Name, Range<usize>>>,
    /// The name of the member that is being read, or of the member that the list is in.
    name: Name,
}

/// The number of a name: names are compared often, and can be long.
type Name = usize;

struct Rewriter<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
    open: Vec<Open>,
    names: HashMap<Vec<u8>, Name>,
    huge: Huge,
    halves: Halves,
    /// Places in the output that are replaced at the end, in any order.
    edits: Vec<(Range<usize>, String)>,
    /// The high half at the end of the last string: its place, and the name of the string's member.
    pending: Option<(usize, u16, Name)>,
}

/// The escape that replaces half of a surrogate pair.
const REPLACEMENT: &[u8; 6] = b"\\ufffd";

impl<'a> Rewriter<'a> {
    fn new(text: &'a [u8], huge: Huge) -> Self {
        let (out, open, names) = (Vec::with_capacity(text.len() + 16), Vec::new(), HashMap::new());
        Self { text, at: 0, out, open, names, huge, halves: Halves::default(), edits: Vec::new(), pending: None }
    }

    fn finish(mut self) -> Option<String> {
        self.edits.sort_by_key(|(place, _)| (place.start, std::cmp::Reverse(place.end)));
        let mut text = Vec::with_capacity(self.out.len());
        let mut done = 0;
        for (place, with) in self.edits {
            if place.start < done {
                continue;
            }
            text.extend_from_slice(&self.out[done..place.start]);
            text.extend_from_slice(with.as_bytes());
            done = place.end;
        }
        text.extend_from_slice(&self.out[done..]);
        String::from_utf8(text).ok()
    }

    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn document(&mut self) -> Option<()> {
        self.value()?;
        while !self.open.is_empty() {
            self.after_value()?;
        }
        self.peek().is_none().then_some(())
    }

    /// Reads what follows a value in an object or a list: its end, or the next value.
    fn after_value(&mut self) -> Option<()> {
        let byte = self.peek()?;
        let open = self.open.last_mut()?;
        self.at += 1;
        match (byte, open.members.is_some()) {
            (b'}', true) | (b']', false) => {
                self.out.push(byte);
                self.open.pop();
                Some(())
            }
            (b',', is_object) => {
                self.out.push(byte);
                if let Some(place) = open.members.as_mut().and_then(|members| members.get_mut(&open.name)) {
                    place.end = self.out.len();
                }
                if is_object { self.member() } else { self.value() }
            }
            _ => None,
        }
    }

    /// Reads the name of a member, and begins its value.
    fn member(&mut self) -> Option<()> {
        let begins = self.out.len();
        (self.peek()? == b'"').then_some(())?;
        self.string(false)?;
        let name = self.out[begins..].to_vec();
        let name = match name.get(1..name.len() - 1) {
            Some(plain) if !plain.contains(&b'\\') => plain.to_vec(),
            _ => serde_json::from_slice::<String>(&name).ok()?.into(),
        };
        (self.peek()? == b':').then_some(())?;
        self.at += 1;
        self.out.push(b':');
        // The number 0 is for values without a name.
        let next = self.names.len() + 1;
        let name = *self.names.entry(name).or_insert(next);
        let open = self.open.last_mut()?;
        let earlier = open.members.as_mut()?.insert(name, begins..begins);
        open.name = name;
        self.edits.extend(earlier.map(|place| (place, String::new())));
        self.value()
    }

    fn value(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string(true),
            b'{' | b'[' if self.open.len() >= MAX_DEPTH => self.nested_text(),
            bracket @ (b'{' | b'[') => {
                self.at += 1;
                self.out.push(bracket);
                let is_object = bracket == b'{';
                // A string in a list belongs to the member that has the list.
                let name = self.open.last().map(|open| open.name).unwrap_or_default();
                self.open.push(Open { members: is_object.then(HashMap::new), name });
                if self.peek()? == if is_object { b'}' } else { b']' } {
                    return Some(());
                }
                if is_object { self.member() } else { self.value() }
            }
            _ => self.scalar(),
        }
    }

    /// Writes an object or a list that is nested too deeply as a string with its text.
    fn nested_text(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        let length = balanced(rest)?;
        let nested = String::from_utf8_lossy(&rest[..length]);
        self.out.extend(serde_json::to_vec(&nested).ok()?);
        self.at += length;
        Some(())
    }

    /// Writes a number or a word.
    fn scalar(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = rest.iter().take_while(is_part).count();
        let word = std::str::from_utf8(&rest[..length]).ok()?;
        self.at += length;
        match word {
            "true" | "false" | "null" => self.out.extend_from_slice(word.as_bytes()),
            "NaN" | "Infinity" | "-Infinity" => self.quoted(word),
            _ if !is_number(word) => return None,
            _ if self.huge == Huge::Text && word.parse::<f64>().is_ok_and(f64::is_infinite) => self.quoted(word),
            _ => self.out.extend_from_slice(word.as_bytes()),
        }
        Some(())
    }

    fn quoted(&mut self, word: &str) {
        self.out.push(b'"');
        self.out.extend_from_slice(word.as_bytes());
        self.out.push(b'"');
    }

    /// Writes a string. `is_value` is false for the name of a member.
    fn string(&mut self, is_value: bool) -> Option<()> {
        self.at += 1;
        self.out.push(b'"');
        // Pieces of one text are members of the same name.
        let name = self.open.last().map(|open| open.name);
        let before = self.pending.take_if(|(.., of)| is_value && Some(*of) == name);
        let mut joins = before.map(|(place, high, _)| (place, high));
        let mut is_start = is_value;
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.iter().take_while(|byte| !matches!(byte, 0..0x20 | b'"' | b'\\')).count();
            self.out.extend_from_slice(&rest[..plain]);
            self.at += plain;
            is_start &= plain == 0;
            match rest[plain..] {
                [] => return None,
                [b'"', ..] => {
                    self.at += 1;
                    self.out.push(b'"');
                    return Some(());
                }
                [b'\\', ref escape @ ..] => self.escape(escape, is_value, is_start, joins.take()),
                [control, ..] => {
                    self.at += 1;
                    let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
                    self.out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(control >> 4), digit(control & 15)]);
                }
            }
            is_start = false;
            joins = None;
        }
    }

    /// Writes an escape, without its backslash in `escape`.
    fn escape(&mut self, escape: &[u8], is_value: bool, is_start: bool, joins: Option<(usize, u16)>) {
        self.at += 1;
        let Some(unit) = escape.strip_prefix(b"u").and_then(code_unit) else {
            self.out.push(b'\\');
            match escape.first() {
                Some(simple @ (b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => {
                    self.out.push(*simple);
                    self.at += 1;
                }
                // The character itself is read as any other.
                _ => self.out.push(b'\\'),
            }
            return;
        };
        self.at += 5;
        let rest = &escape[5..];
        let low = rest.strip_prefix(b"\\u").and_then(code_unit).filter(|unit| is_low(*unit));
        match unit {
            0xd800..=0xdbff if low.is_some() => {
                self.out.push(b'\\');
                self.out.extend_from_slice(&escape[..11]);
                self.at += 6;
            }
            0xd800..=0xdbff => {
                if is_value && rest.first() == Some(&b'"') {
                    self.halves.trailing = Some(unit);
                    let name = self.open.last().map(|open| open.name).unwrap_or_default();
                    self.pending = Some((self.out.len(), unit, name));
                }
                self.out.extend_from_slice(REPLACEMENT);
            }
            low if is_low(low) => match joins.filter(|_| is_start) {
                Some((place, high)) => {
                    self.edits.push((place..place + REPLACEMENT.len(), format!("\\u{high:04x}\\u{low:04x}")));
                    self.halves.trailing = None;
                }
                None => {
                    if is_start {
                        self.halves.leading = self.halves.leading.or(Some(low));
                    }
                    self.out.extend_from_slice(REPLACEMENT);
                }
            },
            _ => {
                self.out.push(b'\\');
                self.out.extend_from_slice(&escape[..5]);
            }
        }
    }
}

fn is_low(unit: u16) -> bool {
    (0xdc00..=0xdfff).contains(&unit)
}

/// Returns the code unit of an escape's four digits.
fn code_unit(digits: &[u8]) -> Option<u16> {
    let digits = digits.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn is_number(word: &str) -> bool {
    word.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && serde_json::from_str::<&serde_json::value::RawValue>(word).is_ok()
}

/// Returns the length of the object or list that a text begins with.
fn balanced(text: &[u8]) -> Option<usize> {
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    text.iter()
        .position(|byte| {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_text => is_escaped = true,
                b'"' => is_text = !is_text,
                b'[' | b'{' if !is_text => depth += 1,
                b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
        .map(|last| last + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rewritten(line: impl AsRef<[u8]>) -> String {
        rewrite(line.as_ref(), Huge::Kept).map_or_else(|| "invalid".to_owned(), |rewritten| rewritten.text)
    }

    /// With quadratic time or memory the test would not end: 8 MB of names and values would be terabytes.
    #[test]
    fn long_names_take_linear_memory() {
        let name = "a".repeat(4 << 20);
        let many = |value: &str| value.repeat((4 << 20) / value.len());
        for line in [
            format!(r#"{{"{name}":[{}"\ud83d"]}}"#, many("[],")),
            format!(r#"{{"{name}":[{}1]}}"#, many(r#""\ud83d","#)),
            format!(r#"{{"{name}b":["\ud83d"],"{name}c":[{}"x"]}}"#, many(r#""x","#)),
        ] {
            let strict = rewritten(&line);
            assert!(strict.len() > 4 << 20 && strict.contains("\\ufffd"), "{}", strict.len());
        }
    }

    #[test]
    fn foreign_json_becomes_strict() {
        for (line, strict) in [
            (r#"{"a": "x\ud83d"}"#, r#"{"a":"x\ufffd"}"#),
            (r#"{"a": "\ude80x"}"#, r#"{"a":"\ufffdx"}"#),
            (r#"{"a": "\ud83d\ud83d\ude80"}"#, r#"{"a":"\ufffd\ud83d\ude80"}"#),
            (r#"{"\ud83d": 1}"#, r#"{"\ufffd":1}"#),
            (r#""\ud83dx\ude80""#, r#""\ufffdx\ufffd""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            ("\u{feff}[\"a\tb\u{1}\"]", r#"["a\u0009b\u0001"]"#),
            (r#"["\x41\u12", "\'"]"#, r#"["\\x41\\u12","\\'"]"#),
            (r#"{"a":1,"b":{"a":2},"\u0061":{"x":[3]},"a":4}"#, r#"{"b":{"a":2},"a":4}"#),
            (r#"[NaN, -Infinity, 1e999, -0.5]"#, r#"["NaN","-Infinity",1e999,-0.5]"#),
            ("[]", "[]"),
            (r#" {"a" : {} , "b" : [ ] } "#, r#"{"a":{},"b":[]}"#),
        ] {
            assert_eq!(rewritten(line), strict, "{line}");
        }
        assert_eq!(rewritten(b"\"a\xffb\""), "\"a\u{fffd}b\"");
        assert_eq!(rewritten(b"\"\xed\xa0\xbd\xed\xba\x80 \xed\xa0\xbd\""), r#""\ud83d\ude80 \ufffd""#);
        for invalid in
            ["", "{", "{]", "[1,]", "[01]", "[+1]", "[1 2]", r#"{"a"}"#, r#"{a:1}"#, "\"", "nul", "[1]x", r#"["\"#]
        {
            assert_eq!(rewritten(invalid), "invalid", "{invalid}");
        }
    }

    #[test]
    fn halves_in_one_line_join() {
        let parts = r#"[{"type":"text","text":"a\ud83d"},{"type":"text","text":"\ude80b"}]"#;
        assert_eq!(rewritten(parts), r#"[{"type":"text","text":"a\ud83d\ude80"},{"type":"text","text":"b"}]"#);
        let others = r#"[{"text":"a\ud83d"},{"title":"\ude80b"},{"text":"x"},{"text":"\ude80"}]"#;
        assert_eq!(rewritten(others), r#"[{"text":"a\ufffd"},{"title":"\ufffdb"},{"text":"x"},{"text":"\ufffd"}]"#);
    }

    #[test]
    fn halves_at_ends_are_reported() {
        let halves = |line: &str| rewrite(line.as_bytes(), Huge::Kept).expect("JSON").halves;
        assert_eq!(halves(r#"{"a":"\ude80x\ud83d"}"#), Halves { leading: Some(0xde80), trailing: Some(0xd83d) });
        assert_eq!(halves(r#"{"a":"x\ude80x\ud83dx","\ude80":1}"#), Halves::default());
    }

    #[test]
    fn deep_nesting_becomes_text() {
        for levels in [MAX_DEPTH, MAX_DEPTH + 1, 130, 100_000] {
            let nested = format!("{}\"]\"{}", "[".repeat(levels), "]".repeat(levels));
            let text = rewritten(format!(r#"{{"a":{nested},"b":1}}"#));
            let value: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(value["b"], 1);
            let whole = text.replace("\\\"", "\"").replace("\"[", "[").replace("]\"", "]");
            assert_eq!(whole.matches('[').count(), levels);
        }
    }

    #[test]
    fn huge_numbers_become_text_for_values() {
        let digits = "7".repeat(400);
        assert_eq!(value(&format!("[{digits},1e999,1]")), Some(serde_json::json!([digits, "1e999", 1])));
        assert_eq!(value("{"), None);
    }

    proptest! {
        #[test]
        fn result_is_strict_json(bytes in r#"([\[\]{}:," \\udDaAbB0-9eE.xN-]|\\u[dD][89a-fA-F][0-9a-f]{2}){0,60}"#) {
            crate::fuzzing::lenient(bytes.as_bytes());
        }
    }
}
