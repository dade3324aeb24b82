//! The bounds of a match in JSON: of words, and of escapes around them.

use super::Match;

/// The beginning of a command to a terminal.
const ESCAPE: &[u8] = b"\\u001b[";

/// Returns the byte in front of a place in a text of JSON, unless it is the end of an escape such as `\n` or of a colour
/// of a terminal. For `\u` and a number it returns the character of ASCII with this number, if there is one.
pub(super) fn before(text: &[u8], at: usize) -> Option<u8> {
    let (byte, rest) = text[..at].split_last()?;
    if rest.ends_with(b"\\") && matches!(byte, b'b' | b'f' | b'n' | b'r' | b't') {
        return None;
    }
    if let Some([b'\\', b'u', digits @ ..]) = text[..at].last_chunk::<6>()
        && digits.iter().all(u8::is_ascii_hexdigit)
    {
        let number = std::str::from_utf8(digits).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok())?;
        return u8::try_from(number).ok().filter(u8::is_ascii);
    }
    let is_colour = || {
        let parameters = rest.iter().rev().take_while(|byte| matches!(byte, b'0'..=b'9' | b';')).count();
        rest[..rest.len() - parameters].last_chunk::<7>().is_some_and(|found| found.eq_ignore_ascii_case(ESCAPE))
    };
    // The parameters are measured only behind an `m`: a long number has many places.
    Some(*byte).filter(|byte| *byte != b'm' || !is_colour())
}

/// Returns whether no character is around a place in a text.
pub(in super::super) fn is_boundary(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| byte & 0xC0 != 0x80)
}

/// Returns the beginning of the escape that a place in a text of JSON is within: after its first byte.
pub(in super::super) fn escape_around(text: &[u8], at: usize) -> Option<usize> {
    let is_escape = |start: usize| {
        let backslashes = text[..=start].iter().rev().take_while(|byte| **byte == b'\\').count();
        backslashes % 2 == 1
    };
    if at.checked_sub(1).is_some_and(is_escape) {
        return Some(at - 1);
    }
    // `\u` and four digits.
    let digits = text[..at].iter().rev().take(3).take_while(|byte| byte.is_ascii_hexdigit()).count();
    (2..=digits + 2).filter_map(|back| at.checked_sub(back)).find(|start| text[start + 1] == b'u' && is_escape(*start))
}

/// Returns the end of the escape that begins here.
pub(super) fn end_of_escape(text: &[u8], start: usize) -> usize {
    let length = if text.get(start + 1) == Some(&b'u') { 6 } else { 2 };
    text.len().min(start + length)
}

/// Extends the match of a pattern to the escapes that it begins or ends within, also if two escapes are one character.
/// The rest of one would not be JSON.
pub(super) fn with_whole_escapes(found: &mut Match<'_>, text: &[u8]) {
    let range = &mut found.range;
    if let Some(start) = escape_around(text, range.start) {
        range.start = start;
    }
    if let Some(start) = escape_around(text, range.end) {
        range.end = end_of_escape(text, start);
    }
    if is_surrogate(&text[range.start..], b"cdef") && is_surrogate(&text[range.start.saturating_sub(6)..], b"89ab") {
        range.start -= 6;
    }
    if is_surrogate(&text[range.end..], b"cdef") && is_surrogate(&text[range.end.saturating_sub(6)..], b"89ab") {
        range.end += 6;
    }
    found.begin = found.begin.min(found.range.start);
}

/// Returns whether a text begins with the escape of a half of a character: the first one has a digit of `89ab`, the
/// second one of `cdef`.
pub(super) fn is_surrogate(text: &[u8], digits: &[u8]) -> bool {
    matches!(text, [b'\\', b'u', b'd' | b'D', digit, _, _, ..] if digits.contains(&digit.to_ascii_lowercase()))
}

/// Returns the index of the quotation mark that ends a text, or the length of the line.
pub(in super::super) fn end_of_text(line: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr::memchr2(b'"', b'\\', line.get(at..).unwrap_or_default()) {
        match line[at + found] {
            b'"' => return at + found,
            _ => at += found + 2,
        }
    }
    line.len()
}
