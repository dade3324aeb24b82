//! What agents, their plug-ins and the shells around them write into lines beside messages.

use crate::json::scan::Scanner;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;

/// Returns a line without codes for a terminal before and after its message: titles of windows, colours, hidden cursors.
pub(super) fn without_terminal_codes(line: &[u8]) -> &[u8] {
    // Nearly all lines.
    if line.first() == Some(&b'{') && line.last() == Some(&b'}') {
        return line;
    }
    let mut rest = line.trim_ascii_start();
    while let Some(length) = code_length(rest) {
        rest = rest[length..].trim_ascii_start();
    }
    // In JSON, an escape character after the last bracket is in no text.
    match memchr::memrchr(b'}', rest) {
        Some(end) if rest.starts_with(b"{") && is_only_codes(&rest[end + 1..]) => &rest[..=end],
        _ => rest,
    }
}

fn is_only_codes(text: &[u8]) -> bool {
    let mut rest = text.trim_ascii_start();
    while let Some(length) = code_length(rest) {
        rest = rest[length..].trim_ascii_start();
    }
    rest.is_empty()
}

/// Returns the length of the code that the text begins with (ECMA-48: a control sequence, a control string, or an escape
/// sequence). `None` if there is none, or if it has no end.
fn code_length(text: &[u8]) -> Option<usize> {
    let [ESCAPE, kind, rest @ ..] = text else { return (text.first() == Some(&BELL)).then_some(1) };
    match kind {
        b'[' => {
            let end = rest.iter().position(|byte| !(0x20..=0x3f).contains(byte))?;
            (0x40..=0x7e).contains(&rest[end]).then_some(end + 3)
        }
        b']' | b'P' | b'X' | b'^' | b'_' => {
            let end = memchr::memchr2(BELL, ESCAPE, rest)?;
            if rest[end] == BELL {
                return Some(end + 3);
            }
            (rest.get(end + 1) == Some(&b'\\')).then_some(end + 4)
        }
        0x20..=0x2f => {
            let end = rest.iter().position(|byte| !(0x20..=0x2f).contains(byte))?;
            (0x30..=0x7e).contains(&rest[end]).then_some(end + 3)
        }
        0x30..=0x7e => Some(2),
        _ => None,
    }
}

/// Splits a line with more than one message after the first one. Threads that share a pipe write such lines. `None` if the line is
/// one message, or begins with none.
pub fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = std::str::from_utf8(line).ok()?;
    let mut scanner = Scanner::new(text);
    if scanner.peek() != Some(b'{') {
        return None;
    }
    scanner.value().ok()?;
    if scanner.peek() != Some(b'{') {
        return None;
    }
    Some(line.split_at(line.len() - scanner.rest().len()))
}

/// Calls `found` with each object of a batch, which is a list of messages. Returns whether the line is a batch with a message.
pub fn for_each_of_batch(line: &[u8], mut found: impl FnMut(&[u8])) -> bool {
    let Ok(text) = std::str::from_utf8(line) else { return false };
    let each = |found: &mut dyn FnMut(&str)| {
        let mut scanner = Scanner::new(text);
        scanner.peek() == Some(b'[')
            && scanner
                .items(|scanner| {
                    found(scanner.value()?);
                    Ok(())
                })
                .is_ok()
            && scanner.end().is_ok()
    };
    // A line that is malformed behind its first messages is not a batch.
    let mut has_message = false;
    each(&mut |item| has_message |= item.starts_with('{'))
        && has_message
        && each(&mut |item| {
            if item.starts_with('{') {
                found(item.as_bytes());
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn codes_around_message_are_left_out() {
        for (before, after) in [
            ("\x1b]0;agent: ready\x07", ""),
            ("\x1b]0;agent: ready\x1b\\", "\x1b[0m"),
            ("\x1b[32m\x1b[1;4;38:5:9m", "\x1b[0m\x1b[?25h \r"),
            ("\x1b(B\x1b7\x07 ", "\x07"),
            ("", "\r"),
            ("\x1bP1$r{}\x1b\\", ""),
        ] {
            let line = format!("{before}{{\"a\":\"}}\\u001b[0m\"}}{after}");
            let cleaned = without_terminal_codes(line.as_bytes());
            assert_eq!(std::str::from_utf8(cleaned).expect("text").trim_end(), "{\"a\":\"}\\u001b[0m\"}", "{line:?}");
        }
    }

    #[test]
    fn what_is_no_code_stays() {
        for line in ["[info] {}", "\x1b]0;no end{}", "\x1b[999", "\x1b", "{} and more", "", "{}\x1b[0mx", "menu:"] {
            assert_eq!(without_terminal_codes(line.as_bytes()), line.as_bytes());
        }
    }

    #[test]
    fn line_with_two_messages_is_split() {
        let text =
            |(first, rest): (&[u8], &[u8])| [first, rest].map(|part| String::from_utf8(part.to_vec()).expect("text"));
        let split = |line: &str| split(line.as_bytes()).map(&text);
        assert_eq!(split(r#"{"a":"}{"}{"b":1}{"c":1}"#), Some([r#"{"a":"}{"}"#.into(), r#"{"b":1}{"c":1}"#.into()]));
        assert_eq!(split(r#" {"a":1} {"b":1} "#), Some([r#" {"a":1} "#.into(), r#"{"b":1} "#.into()]));
        for line in [r#"{"a":1}"#, r#"{"a":1} x"#, r#"{"a":1"#, "{}[]", "[]{}", "1{}", ""] {
            assert_eq!(split(line), None, "{line}");
        }
    }

    #[test]
    fn batch_has_messages() {
        let batch = |line: &str| {
            let mut found = Vec::new();
            let is_batch =
                for_each_of_batch(line.as_bytes(), |item| found.push(String::from_utf8_lossy(item).into_owned()));
            is_batch.then_some(found)
        };
        assert_eq!(
            batch(r#" [{"a":"]"}, {"b":[1]},2,[{}]] "#),
            Some(vec![r#"{"a":"]"}"#.into(), r#"{"b":[1]}"#.into()])
        );
        for line in ["[]", "[1]", "{}", "[{},", "[{}]x", "", "[info] started"] {
            assert_eq!(batch(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn cleaned_line_is_part_of_line(line in "(\\x1b[\\[\\]P(7].{0,3}|\\x07|[{}a ]){0,12}") {
            let cleaned = without_terminal_codes(line.as_bytes());
            prop_assert!(memchr::memmem::find(line.as_bytes(), cleaned).is_some());
            prop_assert_eq!(without_terminal_codes(cleaned), cleaned);
        }
    }
}
