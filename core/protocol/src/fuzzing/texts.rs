//! Texts of agents and files: the values in an answer, the redaction of lines, recordings, and what is shown to people.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::output::{OutputPlan, OutputRun, OutputSpec};
use crate::printable::{printable, printable_line, unambiguous};
use crate::recording::{Place, Recording, Redactor};

const SECRET: &str = "canary/é\\1";

pub(super) fn check(data: &[u8]) {
    check_redaction(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    drop(Recording::read(text));
    let schema = OutputSpec::new(json!({"type": "object", "required": ["a"]}));
    if let Ok(plan) = OutputPlan::new(&schema) {
        let read = OutputRun::new(Arc::new(plan), false).read_answer(text);
        assert!(read.is_err() || read.is_ok_and(|value| value.get("a").is_some()));
    }
    let shown = unambiguous(text);
    assert_eq!(printable(&shown), shown);
    assert!(!printable_line(text).contains('\n'));
    let blanks = |text: &str| text.chars().filter(|letter| letter.is_whitespace()).count();
    let words = |text: &str| text.chars().filter(|letter| letter.is_alphanumeric()).count();
    assert!(blanks(&shown) <= blanks(text) + 2 * text.len() && words(&shown) >= words(text), "{text:?}");
}

/// A line of JSON stays JSON, and no text of it has the secret any more.
fn check_redaction(line: &[u8]) {
    let place = Place { name: "home", path: "/home/canary".to_owned() };
    let Ok(redactor) = Redactor::new(&[place], [Cow::Borrowed(SECRET)], &[]) else { return };
    let redacted = redactor.redacted(line);
    if serde_json::from_slice::<IgnoredAny>(line).is_err() {
        return;
    }
    assert!(serde_json::from_slice::<IgnoredAny>(&redacted).is_ok(), "{}", String::from_utf8_lossy(&redacted));
    if let Ok(value) = serde_json::from_slice::<Value>(&redacted) {
        assert!(!has_secret(&value), "{value}");
    }
}

fn has_secret(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(SECRET),
        Value::Array(items) => items.iter().any(has_secret),
        Value::Object(map) => map.iter().any(|(name, value)| name.contains(SECRET) || has_secret(value)),
        _ => false,
    }
}
