//! Finds JSON values in the text of an answer. Every function takes linear time, whatever the model writes.

use serde_json::Value;

use crate::json::parsed;

/// The levels of wrapping that are undone.
const MAX_WRAPS: u32 = 2;
/// The keys of objects that models put around a value.
const WRAPS: [&str; 2] = ["output", "result"];
/// The limit of the parts of a value.
const MAX_PARTS: usize = 400_000;
/// How often the search for the last object begins anew after text that only resembles JSON.
const MAX_RESTARTS: u32 = 16;

/// The JSON values in an answer's text, as the caller tries them: the best first.
///
/// These are the whole text, the fenced blocks from the last to the first, and the last complete object or array.
pub(super) fn candidates(text: &str) -> impl Iterator<Item = Value> {
    let whole = std::iter::once_with(|| parse(text)).flatten();
    let fenced = std::iter::once_with(|| fenced_blocks(text)).flat_map(|blocks| blocks.into_iter().rev());
    let last = std::iter::once_with(|| last_complete(text)).flatten();
    whole.chain(fenced.filter_map(parse)).chain(last)
}

/// Returns the value, or the value within it, that `is_valid` accepts. Models put values into `{"output": …}` or
/// `{"result": …}`, and into text.
pub(super) fn unwrapped(value: &Value, is_valid: &mut dyn FnMut(&Value) -> bool) -> Option<Value> {
    unwrapped_within(value, MAX_WRAPS, is_valid)
}

fn unwrapped_within(value: &Value, levels: u32, is_valid: &mut dyn FnMut(&Value) -> bool) -> Option<Value> {
    if is_valid(value) {
        return Some(value.clone());
    }
    if levels == 0 {
        return None;
    }
    match value {
        Value::Object(map) if map.len() == 1 => {
            let inner = WRAPS.iter().find_map(|key| map.get(*key))?;
            unwrapped_within(inner, levels - 1, is_valid)
        }
        Value::String(text) => unwrapped_within(&parse(text)?, levels - 1, is_valid),
        _ => None,
    }
}

fn parse(text: &str) -> Option<Value> {
    Some(text.trim()).filter(|text| !has_many_parts(text)).and_then(|text| parsed(text).ok())
}

/// Returns whether JSON has more parts than are read. A part takes 72 bytes of memory, and can be 2 bytes of text.
pub(super) fn has_many_parts(text: &str) -> bool {
    memchr::memchr3_iter(b',', b'[', b'{', text.as_bytes()).nth(MAX_PARTS).is_some()
}

/// Returns the contents of the fenced blocks. A block without an end reaches to the end of the text.
fn fenced_blocks(text: &str) -> Vec<&str> {
    let mut blocks = Vec::new();
    let mut open: Option<(char, usize, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let begin = at;
        at += line.len();
        let line = line.trim();
        let Some(mark) = line.chars().next().filter(|c| matches!(c, '`' | '~')) else { continue };
        let length = line.chars().take_while(|c| *c == mark).count();
        match open {
            None if length >= 3 => open = Some((mark, length, at)),
            Some((of, least, from)) if mark == of && length >= least && length == line.len() => {
                blocks.push(&text[from..begin]);
                open = None;
            }
            _ => {}
        }
    }
    if let Some((.., from)) = open {
        blocks.push(&text[from..]);
    }
    blocks
}

/// Returns the last complete object or array that is not part of another one.
fn last_complete(text: &str) -> Option<Value> {
    let mut scanner = Scanner { text: text.as_bytes(), at: 0, open: Vec::new(), spans: Vec::new(), restarts: 0 };
    scanner.scan();
    // The spans do not overlap, so this takes linear time, too.
    scanner.spans.iter().rev().find_map(|&(begin, end)| parse(&text[begin..end]))
}

/// Finds balanced brackets, without those in strings.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// The open brackets, and their places.
    open: Vec<(u8, usize)>,
    /// The balanced spans so far, none within another.
    spans: Vec<(usize, usize)>,
    restarts: u32,
}

impl Scanner<'_> {
    fn scan(&mut self) {
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b'{' | b'[' => self.open.push((byte, self.at)),
                b'}' | b']' => self.close(byte),
                b'"' if !self.open.is_empty() => match string_end(self.text, self.at) {
                    Ok(end) => self.at = end,
                    Err(end) => self.skip_prose(end),
                },
                _ => {}
            }
            self.at += 1;
        }
    }

    /// A quote in prose looked like a string up to `end`: continues behind the bracket that the quote is in.
    fn skip_prose(&mut self, end: usize) {
        let begin = self.open.last().map_or(end, |(_, begin)| *begin);
        self.open.clear();
        if self.restarts == MAX_RESTARTS {
            self.at = end;
            return;
        }
        self.restarts += 1;
        self.at = begin;
        self.drop_spans_after(begin);
    }

    fn drop_spans_after(&mut self, begin: usize) {
        while self.spans.last().is_some_and(|(inner, _)| *inner > begin) {
            self.spans.pop();
        }
    }

    fn close(&mut self, byte: u8) {
        let Some((open, begin)) = self.open.pop() else { return };
        if (open == b'{') != (byte == b'}') {
            self.open.clear();
            return;
        }
        self.drop_spans_after(begin);
        self.spans.push((begin, self.at + 1));
    }
}

/// Returns the place of a string's closing quote. A string of JSON has no line breaks: the error is the place of a line
/// break, or the end of the text.
fn string_end(text: &[u8], begin: usize) -> Result<usize, usize> {
    let mut at = begin + 1;
    loop {
        match text.get(at) {
            Some(b'"') => return Ok(at),
            None | Some(b'\n') => return Err(at),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn found(text: &str) -> Vec<Value> {
        candidates(text).collect()
    }

    #[test]
    fn plain_json_is_found_first() {
        assert_eq!(found(" {\"a\": 1}\n")[0], json!({"a": 1}));
        assert_eq!(found("42"), [json!(42)]);
        assert_eq!(found("\"text\""), [json!("text")]);
        assert!(found("The answer is 42.").is_empty());
    }

    #[test]
    fn fenced_blocks_come_last_first() {
        let text = "First:\n```json\n{\"a\": 1}\n```\nThen:\n~~~\n[2]\n~~~\n```\nnot JSON\n```\n";
        assert_eq!(found(text)[..2], [json!([2]), json!({"a": 1})]);
        assert_eq!(found("See:\n````json\n\"```\"\n````\n")[0], json!("```"));
        assert_eq!(found("Cut:\n```json\n{\"a\": 1}")[0], json!({"a": 1}));
    }

    #[test]
    fn last_complete_object_is_found() {
        for (text, expected) in [
            ("It is {\"a\": {\"b\": [1, 2]}}, as asked.", json!({"a": {"b": [1, 2]}})),
            ("Not {\"a\": 1} but {\"a\": 2}.", json!({"a": 2})),
            ("Braces {like these} do not count: [1, {\"x\": \"}\"}] {really}", json!([1, {"x": "}"}])),
            ("An open { brace, then {\"a\": \"\\\"}\"}", json!({"a": "\"}"})),
            ("Prose { with a \" quote\nand {\"a\": 1}", json!({"a": 1})),
            ("] } {\"a\": 1} } ]", json!({"a": 1})),
        ] {
            assert_eq!(last_complete(text), Some(expected), "{text}");
        }
        assert_eq!(last_complete("{\"a\": 1"), None);
        assert_eq!(last_complete("{a: 1}"), None);
    }

    #[test]
    fn value_is_unwrapped_if_valid() {
        let is_object = |value: &Value| value.get("a").is_some();
        let unwrap = |value: Value| unwrapped(&value, &mut |value| is_object(value));
        let plain = Some(json!({"a": 1}));
        assert_eq!(unwrap(json!({"a": 1})), plain);
        assert_eq!(unwrap(json!({"output": {"a": 1}})), plain);
        assert_eq!(unwrap(json!({"result": "{\"a\": 1}"})), plain);
        assert_eq!(unwrap(json!("{\"output\": {\"a\": 1}}")), plain);
        assert_eq!(unwrap(json!({"value": {"a": 1}})), None);
        assert_eq!(unwrap(json!({"output": {"a": 1}, "more": 1})), None);
        assert_eq!(unwrap(json!({"output": {"output": {"output": {"a": 1}}}})), None);
        // A valid value is never unwrapped.
        let wrapped = json!({"output": {"a": 1}});
        assert_eq!(unwrapped(&wrapped, &mut |_| true), Some(wrapped.clone()));
    }

    #[test]
    fn hostile_text_takes_linear_time() {
        for piece in
            ["{", "[", "[{\"", "{\"a\":", "[1,", "{\"", "\"", "{}", "[\\", "```\n", "[\"\n", "{]", "`", "[\"[\\"]
        {
            let text = piece.repeat((1 << 20) / piece.len());
            // With quadratic time the test would not end.
            drop(found(&text));
        }
    }

    #[test]
    fn value_of_many_parts_is_not_read() {
        let list = |length: usize| format!("[{}1]", "1,".repeat(length));
        assert!(!found(&list(300_000)).is_empty());
        assert!(found(&list(500_000)).is_empty());
        // Commas of a long text are counted, too.
        assert!(!found(&format!("[\"{}\"]", ",".repeat(300_000))).is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_searched(text in "\\PC*") {
            drop(found(&text));
        }

        #[test]
        fn json_like_text_is_searched(text in "[\\[\\]{}\":,\\\\`~a1é \n]{0,200}") {
            drop(found(&text));
        }

        #[test]
        fn object_in_prose_is_found(before in "[a-z .\n]{0,50}", after in "[a-z .\n]{0,50}", n in any::<i64>()) {
            let value = json!({"n": n, "list": [{"x": "} ] \""}]});
            prop_assert_eq!(last_complete(&format!("{before}{value}{after}")), Some(value));
        }

        #[test]
        fn unwrapped_value_is_valid(text in "[\\[\\]{}\":,a1]{0,40}") {
            let is_valid = |value: &Value| value.is_array();
            for value in found(&text) {
                let found = unwrapped(&value, &mut |value| is_valid(value));
                prop_assert!(found.is_none_or(|found| is_valid(&found)));
            }
        }
    }
}
