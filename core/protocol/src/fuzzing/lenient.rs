//! Fuzzing of the lenient reader of JSON.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::lenient::{Huge, rewrite};
use crate::jsonrpc::is_too_deep;

pub(super) fn check(line: &[u8]) {
    let strict = serde_json::from_slice::<Value>(line).ok();
    for huge in [Huge::Kept, Huge::Text] {
        let Some(read) = rewrite(line, huge) else {
            assert!(strict.is_none(), "JSON is refused");
            continue;
        };
        let text = &read.text;
        assert!(serde_json::from_str::<&RawValue>(text).is_ok(), "not JSON: {text}");
        assert!(text.len() <= 6 * line.len() + 16, "longer than the input allows");
        let value = serde_json::from_str::<Value>(text);
        assert!(value.is_ok() || huge == Huge::Kept, "no value: {text}");
        let is_deep = std::str::from_utf8(line).is_ok_and(is_too_deep);
        if let Some(strict) = strict.as_ref().filter(|_| !is_deep) {
            assert_eq!(value.ok().as_ref(), Some(strict));
        }
        let again = rewrite(text.as_bytes(), huge).expect("strict JSON");
        assert_eq!(again.text, *text);
    }
}
