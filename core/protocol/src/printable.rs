//! Makes text of unknown origin safe to show in a terminal or a log.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the text with control and bidirectional characters written as escapes, such as `\x1b` and `\u202e`.
///
/// Text from an agent (descriptions of approvals, outputs of tools, text) can contain what a model, a web page or a file made
/// up. Printed as it is, it can move the cursor, change the clipboard or show words in another order. Call this before
/// such text is shown in a terminal. The SDK does so for its own errors and log records.
///
/// Line breaks and tabs stay; `\r\n` becomes `\n`. Escaped are the other control characters (C0, DEL and C1, so also ESC),
/// U+061C, U+200E, U+200F, U+2028 to U+202E and U+2066 to U+206F. Backslashes are not escaped, so the
/// text cannot be recovered from the result.
///
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::printable;
/// assert_eq!(printable("ls\x1b[2J \u{202e}txt.exe"), "ls\\x1b[2J \\u202etxt.exe");
/// assert_eq!(printable("übung 🦀\n\tok"), "übung 🦀\n\tok");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(is_escaped) else { return Cow::Borrowed(text) };
    let mut shown = String::with_capacity(text.len() + 16);
    shown.push_str(&text[..first]);
    let mut rest = text[first..].chars().peekable();
    while let Some(c) = rest.next() {
        // Writing to a string does not fail.
        let _ = match c {
            '\r' if rest.peek() == Some(&'\n') => Ok(()),
            '\r' => shown.write_str("\\r"),
            c if !is_escaped(c) => shown.write_char(c),
            c if u32::from(c) < 0x100 => write!(shown, "\\x{:02x}", u32::from(c)),
            c => write!(shown, "\\u{:04x}", u32::from(c)),
        };
    }
    Cow::Owned(shown)
}

/// Returns the text as [`printable()`] does, in one line: line breaks and tabs are escaped as well. For log records.
///
/// # Examples
/// ```
/// use kimi_agent_protocol::printable::printable_line;
/// assert_eq!(printable_line("one\ntwo"), r"one\ntwo");
/// ```
pub fn printable_line(text: &str) -> Cow<'_, str> {
    match printable(text) {
        shown if !shown.contains(['\n', '\t']) => shown,
        shown => Cow::Owned(shown.replace('\n', "\\n").replace('\t', "\\t")),
    }
}

fn is_escaped(c: char) -> bool {
    let is_bidirectional =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}');
    is_bidirectional || (c.is_control() && !matches!(c, '\n' | '\t'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_and_bidirectional_characters_become_escapes() {
        for (text, shown) in [
            ("\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
            ("\u{9b}31m\u{7f}\0", "\\x9b31m\\x7f\\x00"),
            ("a\u{202e}b\u{2066}c\u{2069}d\u{200f}e\u{61c}", "a\\u202eb\\u2066c\\u2069d\\u200fe\\u061c"),
            ("one\u{2028}two\u{2029}", "one\\u2028two\\u2029"),
            ("over\rwritten\r\nnext", "over\\rwritten\nnext"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert_eq!(printable_line("a\nb\tc\x1b"), "a\\nb\\tc\\x1b");
    }

    #[test]
    fn ordinary_text_stays() {
        for text in [
            "",
            "tab\tand\nline",
            "naïve 日本語 עברית العربية",
            "👩‍👩‍👧 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
            "C:\\x1b is no escape",
            "zero\u{200d}width\u{200b}",
        ] {
            assert!(matches!(printable(text), Cow::Borrowed(shown) if shown == text), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn control_characters_are_removed(text in any::<String>()) {
            let shown = printable(&text);
            prop_assert!(!shown.contains(is_escaped), "{:?}", shown);
            prop_assert_eq!(printable(&shown), shown.as_ref());
            prop_assert!(!printable_line(&text).contains('\n'));
        }
    }
}
