//! Cuts JSON text into slices without building values. Every byte is looked at once; what is accepted is what `serde_json`
//! accepts.

use std::borrow::Cow;

/// Values nested deeper than this are left to `serde_json`, which needs no stack for them.
const MAX_RECURSION: usize = 64;

/// The text is not JSON. `serde_json` says better than this why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

/// A position in JSON text.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

/// A string as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawText<'a> {
    quoted: &'a str,
    pub(crate) has_escapes: bool,
}

impl<'a> RawText<'a> {
    /// What stands between the quotes.
    #[inline]
    pub(crate) fn written(self) -> &'a str {
        self.quoted.get(1..self.quoted.len() - 1).unwrap_or_default()
    }

    /// The string itself; `None` if it has half of a surrogate pair.
    pub(crate) fn decode(self) -> Option<Cow<'a, str>> {
        if !self.has_escapes {
            return Some(Cow::Borrowed(self.written()));
        }
        serde_json::from_str(self.quoted).ok().map(Cow::Owned)
    }
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    /// The next byte that is not a space.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.as_bytes().get(self.at) {
            match byte {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                other => return Some(*other),
            }
        }
        None
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        if self.peek() != Some(byte) {
            return Err(NotJson);
        }
        self.at += 1;
        Ok(())
    }

    /// Nothing but spaces may follow.
    pub(crate) fn end(&mut self) -> Result<(), NotJson> {
        if self.peek().is_none() { Ok(()) } else { Err(NotJson) }
    }

    /// Walks over an object. `member` is given each name and must walk over the value.
    #[inline]
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(RawText<'a>, &mut Self) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        self.expect(b'{')?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.expect(b':')?;
            member(name, self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(NotJson),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// The same, and gives the object's text.
    #[inline]
    pub(crate) fn object_text(
        &mut self,
        member: impl FnMut(RawText<'a>, &mut Self) -> Result<(), NotJson>,
    ) -> Result<&'a str, NotJson> {
        self.peek();
        let start = self.at;
        self.object(member)?;
        self.text.get(start..self.at).ok_or(NotJson)
    }

    /// Walks over a string.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<RawText<'a>, NotJson> {
        self.expect(b'"')?;
        let (start, mut has_escapes) = (self.at - 1, false);
        loop {
            self.at += plain_run(self.rest());
            match self.rest() {
                [b'"', ..] => break,
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => self.at += 2,
                [b'\\', b'u', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) => {
                    self.at += 6;
                }
                _ => return Err(NotJson),
            }
            has_escapes = true;
        }
        self.at += 1;
        let quoted = self.text.get(start..self.at).ok_or(NotJson)?;
        Ok(RawText { quoted, has_escapes })
    }

    /// Walks over any value, and gives its text.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<&'a str, NotJson> {
        self.peek();
        let start = self.at;
        self.skip(0)?;
        self.text.get(start..self.at).ok_or(NotJson)
    }

    fn skip(&mut self, depth: usize) -> Result<(), NotJson> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
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
        let rest = self.text.get(self.at..).ok_or(NotJson)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<serde::de::IgnoredAny>();
        values.next().and_then(Result::ok).ok_or(NotJson)?;
        self.at += values.byte_offset();
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), NotJson> {
        self.expect(b'[')?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.skip(depth + 1)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(NotJson),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), NotJson> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(NotJson);
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), NotJson> {
        self.take_if(|byte| byte == b'-');
        let first = self.rest().first().copied();
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
        let taken = self.rest().first().is_some_and(|byte| accept(*byte));
        self.at += usize::from(taken);
        taken
    }

    /// At least one digit.
    fn digits(&mut self) -> Result<usize, NotJson> {
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(NotJson) } else { Ok(count) }
    }
}

/// How many bytes in front stand for themselves in a JSON string: no control character, quote or backslash.
#[inline]
fn plain_run(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let mut at = 0;
    // Eight at a time: the lowest mark in a word is exact, those above it need not be.
    while let Some(eight) = bytes[at..].first_chunk() {
        let word = u64::from_le_bytes(*eight);
        let below = |limit: u64, word: u64| word.wrapping_sub(ONES * limit) & !word;
        let equal = |byte: u8| below(1, word ^ (ONES * u64::from(byte)));
        let marks = (below(0x20, word) | equal(b'"') | equal(b'\\')) & HIGH;
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + bytes[at..].iter().take_while(|byte| !matches!(**byte, 0..0x20 | b'"' | b'\\')).count()
}

/// The members of an object, or nothing if the text is not an object.
pub(crate) fn for_each_member<'a>(
    object: &'a str,
    mut each: impl FnMut(RawText<'a>, &'a str) -> Result<(), NotJson>,
) -> Result<(), NotJson> {
    Scanner::new(object).object(|name, scanner| each(name, scanner.value()?))
}

/// The text in quotes that is a whole JSON value; `None` if the value is not a string.
pub(crate) fn text_of(value: &str) -> Option<Cow<'_, str>> {
    if value.len() < 2 || !value.starts_with('"') {
        return None;
    }
    RawText { quoted: value, has_escapes: memchr::memchr(b'\\', value.as_bytes()).is_some() }.decode()
}

/// The text of `{"type": "text", "text": …}`, in any order and spacing; `None` if there is anything else in it.
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
    fn scanner_accepts_what_serde_accepts() {
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
    fn plain_text_part_takes_texts_and_nothing_else() {
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
        fn plain_runs_end_where_a_byte_is_not_plain(
            bytes in proptest::collection::vec(prop_oneof![6 => 0x1eu8..=0x80, 1 => any::<u8>()], 0..40),
        ) {
            let plain = |byte: &u8| *byte >= 0x20 && !b"\"\\".contains(byte);
            let expected = bytes.iter().position(|byte| !plain(byte)).unwrap_or(bytes.len());
            prop_assert_eq!(plain_run(&bytes), expected);
        }

        #[test]
        fn damaged_json_is_accepted_only_if_serde_accepts_it(
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
