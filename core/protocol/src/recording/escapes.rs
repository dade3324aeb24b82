//! Needless escapes of JSON. An agent can write each character of a secret as an escape.

use std::borrow::Cow;

/// The place of escapes: in the texts of a line, or in JSON that is a text in the line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Line,
    Text,
}

impl Level {
    /// Returns whether so many backslashes end with that of an escape of this level.
    fn has_escape(self, run: usize) -> bool {
        run % (2 * self.length()) == self.length()
    }

    /// Returns the number of backslashes of an escape.
    fn length(self) -> usize {
        match self {
            Self::Line => 1,
            Self::Text => 2,
        }
    }
}

/// Returns the line with characters in place of escapes that JSON does not need, such as `\u0061`. Only lines with an escaped
/// character of ASCII, or with escaped and other characters beyond ASCII, are changed.
pub(super) fn plain(line: &[u8], level: Level) -> Cow<'_, [u8]> {
    let mut at = 0;
    let mut has_escape = false;
    let mut is_needless = false;
    while let Some(found) = memchr::memchr(b'\\', &line[at..]) {
        at += found;
        let run = line[at..].iter().take_while(|byte| **byte == b'\\').count();
        at += run;
        if let Some(unit) = unit(&line[at..]).filter(|_| level.has_escape(run)) {
            has_escape |= unit >= 0x80;
            is_needless |= is_plain(unit);
        }
    }
    if is_needless || has_escape && !line.is_ascii() { replaced(line, level) } else { Cow::Borrowed(line) }
}

/// Returns the number of an escape behind its backslash.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|_| digits[0] != b'+')
}

/// Returns whether a text of JSON can have the character as it is.
fn is_plain(unit: u16) -> bool {
    (0x20..0x7f).contains(&unit) && unit != u16::from(b'"') && unit != u16::from(b'\\')
}

fn replaced(line: &[u8], level: Level) -> Cow<'_, [u8]> {
    let mut out = Vec::with_capacity(line.len());
    let mut at = 0;
    while at < line.len() {
        let run = line[at..].iter().take_while(|byte| **byte == b'\\').count();
        if run == 0 {
            let next = memchr::memchr(b'\\', &line[at..]).map_or(line.len(), |found| at + found);
            out.extend_from_slice(&line[at..next]);
            at = next;
            continue;
        }
        let after = at + run;
        let found = unit(&line[after..]).filter(|_| level.has_escape(run));
        let (letter, length) = match found {
            Some(unit) if is_plain(unit) => (char::from_u32(u32::from(unit)), 5),
            Some(high) if high >= 0x80 => {
                let next = after + 5;
                let length = level.length();
                let is_pair = line[next..].iter().take_while(|byte| **byte == b'\\').count() == length;
                let low = if is_pair { line.get(next + length..).and_then(unit) } else { None };
                match char::decode_utf16([high].into_iter().chain(low)).next() {
                    Some(Ok(letter)) if letter.len_utf16() == 2 => (Some(letter), 10 + length),
                    Some(Ok(letter)) => (Some(letter), 5),
                    _ => (None, 0),
                }
            }
            _ => (None, 0),
        };
        match letter.filter(|letter| !letter.is_control()) {
            Some(letter) => {
                out.extend_from_slice(&line[at..after - level.length()]);
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                at = after + length;
            }
            None => {
                out.extend_from_slice(&line[at..after]);
                at = after;
            }
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn shown(line: &str, level: Level) -> String {
        String::from_utf8(plain(line.as_bytes(), level).into_owned()).unwrap()
    }

    #[test]
    fn needless_escapes_become_characters() {
        assert_eq!(shown(r#"["c\u0061n\u0041ry\\\u0075"]"#, Level::Line), r#"["canAry\\u"]"#);
        assert_eq!(shown(r#"["{\"a\":\"c\\u0061n\"}"]"#, Level::Text), r#"["{\"a\":\"can\"}"]"#);
        assert_eq!(shown(r#"["é\u00fc\ud83d\uDE00 \ud800x"]"#, Level::Line), r#"["éü😀 \ud800x"]"#);
        for kept in
            [r#"["\u0022\u005c\u000a\u001b"]"#, r#"["\u00fc"]"#, r#"["\\\u"]"#, r#"["é"]"#, "\\u00", "\\", "\\u+0061"]
        {
            assert!(matches!(plain(kept.as_bytes(), Level::Line), Cow::Borrowed(_)), "{kept}");
        }
    }

    proptest! {
        #[test]
        fn value_stays_the_same(text in any::<String>(), which in prop::collection::vec(any::<bool>(), 64)) {
            let escape = |(at, letter): (usize, char)| -> String {
                let mut units = [0; 2];
                if letter == '\\' && !which[at % which.len()] {
                    return r"\\".to_owned();
                }
                if letter.is_control() || matches!(letter, '"' | '\\') || which[at % which.len()] {
                    return letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect();
                }
                letter.to_string()
            };
            let line = format!("[\"{}\"]", text.chars().enumerate().map(escape).collect::<String>());
            let value: Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&shown(&line, Level::Line)).unwrap(), value);
        }

        #[test]
        fn any_bytes_are_read(line in "[\\\\u0-9a-fé]{0,60}") {
            drop(plain(line.as_bytes(), Level::Line));
            drop(plain(line.as_bytes(), Level::Text));
        }
    }
}
