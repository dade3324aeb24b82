//! Cuts JSON text into slices without building values. It reads each byte once, and accepts the same texts as
//! `serde_json`.

use std::borrow::Cow;

/// Values with deeper nesting are read by `serde_json`, which does not need stack for them.
const MAX_RECURSION: usize = 64;

/// The text is not JSON. `serde_json` has the better error message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

/// A position in JSON text.
pub(crate) struct Scanner<'a> {
    rest: &'a str,
    /// Whether a string has half of a surrogate pair, or the nesting is deep. Both are JSON that most parsers refuse.
    pub(crate) is_odd: bool,
}

/// A string in its JSON form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawText<'a> {
    quoted: &'a str,
    pub(crate) has_escapes: bool,
}

impl<'a> RawText<'a> {
    /// Returns the text between the quotes.
    #[inline]
    pub(crate) fn written(self) -> &'a str {
        self.quoted.get(1..self.quoted.len() - 1).unwrap_or_default()
    }

    /// Returns the decoded string; `None` if it has half of a surrogate pair.
    pub(crate) fn decode(self) -> Option<Cow<'a, str>> {
        if !self.has_escapes {
            return Some(Cow::Borrowed(self.written()));
        }
        serde_json::from_str(self.quoted).ok().map(Cow::Owned)
    }
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { rest: text, is_odd: false }
    }

    /// Returns what follows.
    pub(crate) fn rest(&self) -> &'a str {
        self.rest
    }

    /// Skips this many bytes, and returns them.
    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a str, NotJson> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(NotJson)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Returns the next byte that is not whitespace.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        match self.rest.as_bytes().first() {
            Some(0..=b' ') => self.peek_after_spaces(),
            first => first.copied(),
        }
    }

    #[cold]
    fn peek_after_spaces(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_start_matches([' ', '\n', '\t', '\r']);
        self.rest.as_bytes().first().copied()
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        if self.peek() != Some(byte) {
            return Err(NotJson);
        }
        self.take(1).map(drop)
    }

    /// Checks that only whitespace follows.
    pub(crate) fn end(&mut self) -> Result<(), NotJson> {
        if self.peek().is_none() { Ok(()) } else { Err(NotJson) }
    }

    /// Returns whether another item follows in an object or a list that ends with `close`.
    #[inline]
    fn has_next(&mut self, close: u8) -> Result<bool, NotJson> {
        let byte = self.peek();
        if byte != Some(b',') && byte != Some(close) {
            return Err(NotJson);
        }
        self.take(1)?;
        Ok(byte != Some(close))
    }

    /// Reads an object. `member` gets each name, and must read the value.
    #[inline]
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(RawText<'a>, &mut Self) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        self.expect(b'{')?;
        if self.peek() == Some(b'}') {
            return self.expect(b'}');
        }
        loop {
            let name = self.string()?;
            self.expect(b':')?;
            member(name, self)?;
            if !self.has_next(b'}')? {
                return Ok(());
            }
        }
    }

    /// Reads an object, and returns the object's text.
    #[inline]
    pub(crate) fn object_text(
        &mut self,
        member: impl FnMut(RawText<'a>, &mut Self) -> Result<(), NotJson>,
    ) -> Result<&'a str, NotJson> {
        self.text_of_walk(|scanner| scanner.object(member))
    }

    /// Skips a string.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<RawText<'a>, NotJson> {
        let (length, has_escapes) = self.string_length()?;
        Ok(RawText { quoted: self.take(length)?, has_escapes })
    }

    /// Returns the length of a string with its quotes, and whether it has escapes.
    #[inline]
    fn string_length(&mut self) -> Result<(usize, bool), NotJson> {
        self.peek();
        let [b'"', inner @ ..] = self.rest.as_bytes() else { return Err(NotJson) };
        let run = plain_run(inner);
        if inner.get(run) == Some(&b'"') {
            return Ok((run + 2, false));
        }
        let (length, has_half) = escaped_run(inner, run)?;
        self.is_odd |= has_half;
        Ok((length + 2, true))
    }

    /// Skips any value, and returns its text.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<&'a str, NotJson> {
        if self.peek() == Some(b'"') {
            return self.string().map(|text| text.quoted);
        }
        self.text_of_walk(|scanner| scanner.skip(0))
    }

    #[inline]
    fn text_of_walk(&mut self, walk: impl FnOnce(&mut Self) -> Result<(), NotJson>) -> Result<&'a str, NotJson> {
        self.peek();
        let text = self.rest;
        walk(self)?;
        text.get(..text.len() - self.rest.len()).ok_or(NotJson)
    }

    fn skip(&mut self, depth: usize) -> Result<(), NotJson> {
        match self.peek() {
            Some(b'"') => {
                let (length, _) = self.string_length()?;
                self.take(length).map(drop)
            }
            Some(b'{' | b'[') if depth == MAX_RECURSION => self.skip_nested(),
            Some(b'{') => self.object(|_, scanner| scanner.skip(depth + 1)),
            Some(b'[') => self.array(depth),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => self.number(),
        }
    }

    fn skip_nested(&mut self) -> Result<(), NotJson> {
        self.is_odd = true;
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<serde::de::IgnoredAny>();
        values.next().and_then(Result::ok).ok_or(NotJson)?;
        self.take(values.byte_offset()).map(drop)
    }

    fn array(&mut self, depth: usize) -> Result<(), NotJson> {
        self.items(|scanner| scanner.skip(depth + 1))
    }

    /// Reads a list. `item` must read each value.
    #[inline]
    pub(crate) fn items(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), NotJson>) -> Result<(), NotJson> {
        self.expect(b'[')?;
        if self.peek() == Some(b']') {
            return self.expect(b']');
        }
        loop {
            item(self)?;
            if !self.has_next(b']')? {
                return Ok(());
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), NotJson> {
        self.rest = self.rest.strip_prefix(word).ok_or(NotJson)?;
        Ok(())
    }

    fn number(&mut self) -> Result<(), NotJson> {
        self.take_if(|byte| byte == b'-');
        let first = self.rest.as_bytes().first().copied();
        let digits = self.digits()?;
        if first == Some(b'0') && digits > 1 {
            return Err(NotJson);
        }
        if self.take_if(|byte| byte == b'.') {
            self.digits()?;
        }
        if self.take_if(|byte| matches!(byte, b'e' | b'E')) {
            self.take_if(|byte| matches!(byte, b'+' | b'-'));
            self.digits()?;
        }
        Ok(())
    }

    fn take_if(&mut self, accept: impl Fn(u8) -> bool) -> bool {
        self.rest.as_bytes().first().is_some_and(|byte| accept(*byte)) && self.take(1).is_ok()
    }

    /// Skips digits. At least one is required.
    fn digits(&mut self) -> Result<usize, NotJson> {
        let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        self.take(count)?;
        if count == 0 { Err(NotJson) } else { Ok(count) }
    }
}

/// Returns the length of a string's content, without its last quote, and whether it has half of a surrogate pair. The first
/// escape is at `at`.
fn escaped_run(inner: &[u8], mut at: usize) -> Result<(usize, bool), NotJson> {
    let mut has_half = false;
    loop {
        match &inner[at..] {
            [b'"', ..] => return Ok((at, has_half)),
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => at += 2,
            [b'\\', b'u', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) => {
                at += 6;
                if let [b'd' | b'D', second @ (b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F'), ..] = digits {
                    let is_high = matches!(second, b'8' | b'9' | b'a' | b'b' | b'A' | b'B');
                    let is_pair = is_high
                        && matches!(digits[4..], [b'\\', b'u', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', a, b, ..]
                            if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
                    has_half |= !is_pair;
                    at += if is_pair { 6 } else { 0 };
                }
            }
            _ => return Err(NotJson),
        }
        at += plain_run(&inner[at..]);
    }
}

/// Returns the number of leading bytes that are plain in a JSON string: no control character, quote or backslash.
#[inline]
fn plain_run(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let mut at = 0;
    // Eight bytes at a time. The lowest mark in a word is exact; higher marks may be wrong.
    let marks = |eight: [u8; 8]| {
        let word = u64::from_le_bytes(eight);
        let below = |limit: u64, word: u64| word.wrapping_sub(ONES * limit) & !word;
        // With one bit changed, the quote is the successor of the control characters, whose values stay below it.
        let quote_or_control = below(0x21, word ^ (ONES * 0x02));
        (quote_or_control | below(1, word ^ (ONES * u64::from(b'\\')))) & HIGH
    };
    let first = |marks: u64| marks.trailing_zeros() as usize / 8;
    while let Some(eight) = bytes[at..].first_chunk() {
        let marks = marks(*eight);
        if marks != 0 {
            return at + first(marks);
        }
        at += 8;
    }
    let rest = &bytes[at..];
    let mut eight = [b' '; 8];
    eight[..rest.len()].copy_from_slice(rest);
    at + first(marks(eight)).min(rest.len())
}

/// Returns the length of the string that a text begins with, with its quotes.
pub(crate) fn quoted_length(text: &[u8]) -> Option<usize> {
    let inner = text.strip_prefix(b"\"")?;
    escaped_run(inner, plain_run(inner)).ok().map(|(length, _)| length + 2)
}

/// Decodes a string of strict JSON, in its quotes. `None` if it is not one.
pub(crate) fn strict_text(quoted: &[u8]) -> Option<Cow<'_, str>> {
    let [b'"', inner @ .., b'"'] = quoted else { return None };
    if plain_run(inner) == inner.len() {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice(quoted).ok().map(Cow::Owned)
}

/// Returns the members of an object. Empty if the text is not an object.
pub(crate) fn for_each_member<'a>(
    object: &'a str,
    mut each: impl FnMut(RawText<'a>, &'a str) -> Result<(), NotJson>,
) -> Result<(), NotJson> {
    Scanner::new(object).object(|name, scanner| each(name, scanner.value()?))
}

/// Returns the string if the text is a JSON string; `None` for any other value.
pub(crate) fn text_of(value: &str) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    RawText { quoted: value, has_escapes: plain_run(inner.as_bytes()) < inner.len() }.decode()
}

/// Returns the text of `{"type": "text", "text": …}`, with any order and whitespace; `None` if it has other members.
pub(crate) fn plain_text_part(object: &str) -> Option<String> {
    let (mut is_text, mut text) = (false, None);
    Scanner::new(object)
        .object(|name, scanner| {
            let value = scanner.string()?;
            match name.written() {
                "type" if !is_text && value.written() == "text" => is_text = true,
                "text" if text.is_none() => text = Some(value),
                _ => return Err(NotJson),
            }
            Ok(())
        })
        .ok()?;
    text.filter(|_| is_text)?.decode().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    fn is_json(text: &str) -> bool {
        let mut scanner = Scanner::new(text);
        scanner.value().and_then(|_| scanner.end()).is_ok()
    }

    fn agrees(text: &str) -> Result<(), TestCaseError> {
        let accepted = serde_json::from_str::<&RawValue>(text).is_ok();
        prop_assert_eq!(is_json(text), accepted, "{}", text);
        if accepted {
            prop_assert_eq!(Scanner::new(text).value(), Ok(text.trim_matches([' ', '\n', '\t', '\r'])));
        }
        Ok(())
    }

    #[test]
    fn scanner_agrees_with_serde() {
        let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        for text in [
            "0",
            "-0",
            "01",
            "-",
            "1.",
            ".5",
            "1.5e",
            "1e+9",
            "1E-9",
            "1e400",
            "+1",
            "tru",
            "true",
            "nul",
            "null",
            "",
            " ",
            "{}",
            "{ }",
            "[ ]",
            "[1,]",
            "[,]",
            "{\"a\"}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\" : [ 1 , \"b\" ] }",
            r#""\ud800""#,
            r#""\u12""#,
            r#""\u12g4""#,
            r#""\x""#,
            "\"a\tb\"",
            "\"é\u{2028}\"",
            "\"",
            "\"\\",
            "1 2",
            "]",
            "{\"a\":1]",
            "[1}",
            "\u{feff}1",
            "\"\u{7f}\"",
        ] {
            agrees(text).expect(text);
        }
        for depth in [63, 64, 65, 66, 500] {
            agrees(&deep(depth)).expect("deep");
            agrees(&deep(depth)[1..]).expect("deep and unbalanced");
        }
        assert!(is_json(&deep(100_000)));
    }

    #[test]
    fn plain_text_part_accepts_only_text_parts() {
        let plain = |json: &str| plain_text_part(json);
        assert_eq!(plain(r#"{"type":"text","text":"a"}"#).as_deref(), Some("a"));
        assert_eq!(plain(r#" { "text" : "a\n\u00e9" , "type" : "text" }"#).as_deref(), Some("a\né"));
        for other in [
            r#"{"type":"text","text":"\ud800"}"#,
            r#"{"type":"text","text":"a","more":"b"}"#,
            r#"{"type":"text","text":"a","text":"b"}"#,
            r#"{"type":"text"}"#,
            r#"{"text":"a"}"#,
            r#"{"type":"think","text":"a"}"#,
            r#"{"type":"text","text":null}"#,
            "[]",
            "null",
        ] {
            assert_eq!(plain(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn plain_run_ends_at_special_byte(
            bytes in proptest::collection::vec(prop_oneof![6 => 0x1eu8..=0x80, 1 => any::<u8>()], 0..40),
        ) {
            let plain = |byte: &u8| *byte >= 0x20 && !b"\"\\".contains(byte);
            let expected = bytes.iter().position(|byte| !plain(byte)).unwrap_or(bytes.len());
            prop_assert_eq!(plain_run(&bytes), expected);
        }

        #[test]
        fn damaged_json_agrees_with_serde(
            which in 0usize..3,
            at in any::<prop::sample::Index>(),
            removed in 0usize..4,
            put in "[-+.eE0-9\"{}\\[\\]:,\\\\a-z \u{e9}\t]{0,5}",
        ) {
            let json = [
                r#"{"jsonrpc":"2.0","id":17,"params":{"a":[1.5e-3,true,null,"é\n\u00e9"],"b":{}}}"#,
                r#" [ { "a" : -0.25 , "b" : [ [ ] , { } ] } , "x\\\"y" ] "#,
                r#""text \ud83d\ude00 with / and \/ ""#,
            ][which];
            let mut chars: Vec<char> = json.chars().collect();
            let at = at.index(chars.len() + 1);
            let end = (at + removed).min(chars.len());
            chars.splice(at..end, put.chars());
            agrees(&chars.into_iter().collect::<String>())?;
        }
    }
}
