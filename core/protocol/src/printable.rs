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

/// The longest run of blanks that [`unambiguous`] shows as it is.
const MAX_BLANKS: usize = 16;

/// Returns the text so that a person who decides about it sees all of it, in lines. Also characters that are invisible or look
/// like a blank are escapes, and a long run of blanks or of empty lines is its length, such as `[190 blanks]`.
///
/// # Examples
/// ```
/// use kimi_agent_protocol::printable::unambiguous;
/// let command = format!("git status{}; rm\u{200b} x", " ".repeat(190));
/// assert_eq!(unambiguous(&command), r"git status[190 blanks]; rm\u200b x");
/// ```
pub fn unambiguous(text: &str) -> String {
    let text = printable(text);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if !matches!(c, ' ' | '\t' | '\n') {
            if is_invisible(c) {
                let _ = write!(shown, "\\u{:04x}", u32::from(c));
            } else {
                shown.push(c);
            }
            continue;
        }
        let (mut run, mut lines) = (c.to_string(), usize::from(c == '\n'));
        while let Some(next) = rest.next_if(|next| matches!(next, ' ' | '\t' | '\n')) {
            lines += usize::from(next == '\n');
            run.push(next);
        }
        match lines {
            _ if run.len() <= MAX_BLANKS && lines < 4 => shown.push_str(&run),
            0 => drop(write!(shown, "[{} blanks]", run.len())),
            lines => drop(write!(shown, "\n[{} blanks in {lines} lines]\n", run.len())),
        }
    }
    shown
}

/// Returns the text as [`printable_line()`] does, with escapes for all characters that are invisible or look like a blank. For
/// names that are to be compared.
///
/// # Examples
/// ```
/// use kimi_agent_protocol::printable::visible_line;
/// assert_eq!(visible_line("KEY\u{200b}\n"), r"KEY\u200b\n");
/// ```
pub fn visible_line(text: &str) -> Cow<'_, str> {
    let line = printable_line(text);
    if !line.contains(is_invisible) {
        return line;
    }
    let mut shown = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        // Writing to a string does not fail.
        let _ = if is_invisible(c) { write!(shown, "\\u{:04x}", u32::from(c)) } else { shown.write_char(c) };
    }
    Cow::Owned(shown)
}

/// Returns the text as [`printable()`] does, with escapes for characters that can hide text. For answers, which are to be read.
///
/// Blanks of other scripts stay, and so do the characters that join or shape a letter or an emoji in front of them.
///
/// # Examples
/// ```
/// use kimi_agent_protocol::printable::visible;
/// assert_eq!(visible("a\u{200b}b\u{e0041}\n"), "a\\u200bb\\ue0041\n");
/// assert_eq!(visible("10\u{a0}€ ❤\u{fe0f}"), "10\u{a0}€ ❤\u{fe0f}");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    let text = printable(text);
    if !text.contains(is_invisible) {
        return text;
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut before = None;
    for c in text.chars() {
        let is_readable = match c {
            '\u{a0}' | '\u{202f}' | '\u{3000}' => true,
            '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' => {
                before.is_none_or(|before: char| !before.is_ascii_graphic() && !is_invisible(before) && before != ' ')
                    // An emoji can have its style before the joiner.
                    || c == '\u{200d}' && before == Some('\u{fe0f}')
            }
            c => !is_invisible(c),
        };
        // Writing to a string does not fail.
        let _ = if is_readable { shown.write_char(c) } else { write!(shown, "\\u{:04x}", u32::from(c)) };
        before = Some(c);
    }
    Cow::Owned(shown)
}

/// Returns JSON with the characters as escapes that control a terminal or are invisible. They occur only in its texts, which
/// stay the same.
///
/// # Examples
/// ```
/// use kimi_agent_protocol::printable::visible_json;
/// assert_eq!(visible_json("{\"a\":\"\u{200b}\u{e0041}\"}"), r#"{"a":"\u200b\udb40\udc41"}"#);
/// ```
pub fn visible_json(json: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| is_escaped(c) || is_invisible(c);
    if !json.contains(is_hidden) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if !is_hidden(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    Cow::Owned(shown)
}

/// Returns whether a character has no width, is part of another one, or looks like a blank. These are the format characters
/// of Unicode 17 (category Cf), the characters that renderers may ignore (`Default_Ignorable_Code_Point`), and blanks.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}')
        || matches!(
            c,
            '\u{890}' | '\u{891}' | '\u{8e2}' | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{17b4}' | '\u{17b5}'
        )
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}')
        || matches!(c, '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}')
        || matches!(c, '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}')
        || matches!(c, '\u{13430}'..='\u{1343f}' | '\u{16fe4}' | '\u{1bca0}'..='\u{1bca3}')
        || matches!(c, '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
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
    fn nothing_is_hidden_from_a_decision() {
        for (text, shown) in [
            ("ls -la\n\tnext", "ls -la\n\tnext".to_owned()),
            (&format!("a{}b", " ".repeat(17)), "a[17 blanks]b".to_owned()),
            (&format!("a{}b", "\t ".repeat(20)), "a[40 blanks]b".to_owned()),
            (&format!("a{}b", "\n".repeat(100)), "a\n[100 blanks in 100 lines]\nb".to_owned()),
            ("a\u{200b}b\u{3164}c\u{e0041}d\u{a0}e\u{2800}f", "a\\u200bb\\u3164c\\ue0041d\\u00a0e\\u2800f".to_owned()),
            ("\x1b[8m\rx\u{202e}", "\\x1b[8m\\rx\\u202e".to_owned()),
            ("\u{1bca0}\u{16fe4}\u{13430}\u{13438}", "\\u1bca0\\u16fe4\\u13430\\u13438".to_owned()),
            (
                "\u{600}\u{6dd}\u{70f}\u{890}\u{8e2}\u{110bd}\u{110cd}",
                "\\u0600\\u06dd\\u070f\\u0890\\u08e2\\u110bd\\u110cd".to_owned(),
            ),
        ] {
            assert_eq!(unambiguous(text), shown);
        }
    }

    #[test]
    fn answers_hide_no_text() {
        for text in [
            "naïve 日本語\u{3000}עברית",
            "👩\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈",
            "می\u{200c}خواهم",
            "10\u{202f}000\u{a0}€",
            "\u{200d}👧",
        ] {
            assert_eq!(visible(text), text);
        }
        for (text, shown) in [
            ("a\u{200b}b\u{e0041}c", r"a\u200bb\ue0041c"),
            ("a\u{200d}\u{200d}b \u{fe0f}", r"a\u200d\u200db \ufe0f"),
            ("日\u{200d}\u{200d}\u{200c}", "日\u{200d}\\u200d\\u200c"),
            ("a\u{2060}\u{ad}\u{3164}\u{feff}\u{e0100}\x1b", r"a\u2060\u00ad\u3164\ufeff\ue0100\x1b"),
        ] {
            assert_eq!(visible(text), shown);
        }
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
