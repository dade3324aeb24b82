//! The comparison of JSON values with those of a recording, whose secrets are masked.

use std::fmt;

use serde_json::{Map, Value};

use super::redact::MASK;

/// How much of a value errors show, in characters.
const SHOWN: usize = 200;
/// How much of two equal beginnings errors show before the first difference.
const BEFORE: usize = 40;

/// The first difference between two values.
#[derive(Debug, PartialEq)]
pub struct Difference {
    /// The place, as a JSON Pointer.
    pub pointer: String,
    /// The value in the recording. `None` if the recording has no value there.
    pub expected: Option<Value>,
    /// The other value. `None` if the place has no other value.
    pub got: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pointer, expected, got } = self;
        let [expected, got] = [expected, got].map(|value| value.as_ref().map(Value::to_string));
        let equal = match (&expected, &got) {
            (Some(expected), Some(got)) => {
                expected.chars().zip(got.chars()).take_while(|(one, other)| one == other).count()
            }
            _ => 0,
        };
        // Two long texts with one beginning are shown from shortly before their difference on.
        let from = if equal > SHOWN / 2 { equal - BEFORE } else { 0 };
        write!(f, "expected {}, got {}", shown(expected, from), shown(got, from))?;
        if !pointer.is_empty() {
            write!(f, " at {pointer}")?;
        }
        // The first character is the quotation mark of the text.
        if from > 0 { write!(f, ", from character {equal} on") } else { Ok(()) }
    }
}

fn shown(text: Option<String>, from: usize) -> String {
    let Some(text) = text else { return "nothing".to_owned() };
    let mut shown: String = text.chars().skip(from).take(SHOWN).collect();
    if from > 0 {
        shown.insert(0, '…');
    }
    if text.chars().count() > from + SHOWN {
        shown.push('…');
    }
    shown
}

/// Returns the first difference between a value of the recording and a value.
pub fn difference(expected: &Value, got: &Value) -> Option<Difference> {
    let mut pointer = String::new();
    let (expected, got) = first(expected, got, &mut pointer)?;
    Some(Difference { pointer, expected: expected.cloned(), got: got.cloned() })
}

type Pair<'a> = (Option<&'a Value>, Option<&'a Value>);

fn first<'a>(expected: &'a Value, got: &'a Value, pointer: &mut String) -> Option<Pair<'a>> {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => first_of_maps(expected, got, pointer),
        (Value::Array(expected), Value::Array(got)) => {
            for at in 0..expected.len().max(got.len()) {
                let length = pointer.len();
                pointer.push_str(&format!("/{at}"));
                let found = match (expected.get(at), got.get(at)) {
                    (Some(expected), Some(got)) => first(expected, got, pointer),
                    one => Some(one),
                };
                if found.is_some() {
                    return found;
                }
                pointer.truncate(length);
            }
            None
        }
        (Value::String(pattern), Value::String(text)) if matches(pattern, text) => None,
        // A number that is a secret is masked, too.
        (Value::String(mask), Value::Number(_)) if mask == MASK => None,
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => None,
        _ if expected == got => None,
        _ => Some((Some(expected), Some(got))),
    }
}

fn first_of_maps<'a>(
    expected: &'a Map<String, Value>,
    got: &'a Map<String, Value>,
    pointer: &mut String,
) -> Option<Pair<'a>> {
    let is_match = |name: &str, other: &str| name.contains(MASK) && matches(name, other);
    let counterpart = |name: &str| {
        got.get(name).or_else(|| {
            let mut others = got.iter().filter(|(other, _)| !expected.contains_key(*other));
            others.find(|(other, _)| is_match(name, other)).map(|(_, value)| value)
        })
    };
    let is_known = |name: &str| expected.contains_key(name) || expected.keys().any(|known| is_match(known, name));
    let length = pointer.len();
    for (name, value) in expected {
        push(pointer, name);
        let found = match counterpart(name) {
            Some(other) => first(value, other, pointer),
            None => Some((Some(value), None)),
        };
        if found.is_some() {
            return found;
        }
        pointer.truncate(length);
    }
    let (name, value) = got.iter().find(|(name, _)| !is_known(name))?;
    push(pointer, name);
    Some((None, Some(value)))
}

fn push(pointer: &mut String, name: &str) {
    pointer.push('/');
    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
}

/// Returns whether a text matches, in whose recorded form each mask stands for any text.
fn matches(recorded: &str, text: &str) -> bool {
    let mut parts = recorded.split(MASK);
    let Some(mut rest) = parts.next().and_then(|begin| text.strip_prefix(begin)) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(end) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn first_difference_has_pointer() {
        let equal = json!({"a": [1, {"b": "x"}], "n": 1});
        assert_eq!(difference(&equal, &json!({"n": 1.0, "a": [1, {"b": "x"}]})), None);
        for (got, shown) in [
            (json!({"a": [1, {"b": "y"}], "n": 1}), r#"expected "x", got "y" at /a/1/b"#),
            (json!({"a": [1], "n": 1}), r#"expected {"b":"x"}, got nothing at /a/1"#),
            (json!({"a": [1, {"b": "x"}], "n": 1, "c/d": 2}), "expected nothing, got 2 at /c~1d"),
            (json!(null), r#"expected {"a":[1,{"b":"x"}],"n":1}, got null"#),
        ] {
            assert_eq!(difference(&equal, &got).unwrap().to_string(), shown);
        }
        let long = difference(&json!("x"), &json!("y".repeat(1000))).unwrap().to_string();
        assert!(long.len() < 300 && long.ends_with('…'), "{long}");
        let [one, other] = ["end", "eNd"].map(|end| json!(format!("{}{end}", "x".repeat(300))));
        let text = difference(&one, &other).unwrap().to_string();
        let xs = "x".repeat(38);
        assert_eq!(text, format!("expected …x{xs}end\", got …x{xs}eNd\", from character 302 on"));
    }

    #[test]
    fn mask_matches_any_text() {
        for (recorded, text) in
            [("***", ""), ("a *** c", "a b c"), ("***/***", "x/y/z"), ("plain", "plain"), ("***", "***")]
        {
            assert_eq!(difference(&json!(recorded), &json!(text)), None, "{recorded}");
        }
        for (recorded, text) in [("a *** c", "a c"), ("***x", "y"), ("plain", "plainer"), ("a***b***c", "ac")] {
            assert!(difference(&json!(recorded), &json!(text)).is_some(), "{recorded}");
        }
        assert_eq!(difference(&json!({"***": "***"}), &json!({"key": 17})), None);
        for (recorded, other) in [(json!("***"), json!(null)), (json!("text"), json!("***")), (json!(1), json!("***"))]
        {
            assert!(difference(&recorded, &other).is_some(), "{recorded}");
        }
    }
}
