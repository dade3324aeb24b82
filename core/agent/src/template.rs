//! The templates `{{…}}` in the texts of a script, which stand for values that the agent has received.

use std::borrow::Cow;

use serde_json::Value;

/// The longest name of a template, in bytes.
const LONGEST: usize = 256;

/// Fills the templates in a text. A template that `look_up` does not know stays unchanged.
pub(crate) fn fill<'a>(text: &'a str, look_up: &dyn Fn(&str) -> Option<String>) -> Cow<'a, str> {
    if !text.contains("{{") {
        return Cow::Borrowed(text);
    }
    let mut filled = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        // A text of many braces would be searched again for each of them.
        let length = rest.as_bytes()[start + 2..].windows(2).take(LONGEST).position(|end| end == b"}}");
        filled.push_str(&rest[..start]);
        let found = length.and_then(|length| {
            let end = start + 2 + length;
            Some((look_up(rest[start + 2..end].trim())?, end + 2))
        });
        match found {
            Some((value, end)) => {
                filled.push_str(&value);
                rest = &rest[end..];
            }
            None => {
                // `{{{prompt}}` has its template one character later.
                filled.push('{');
                rest = &rest[start + 1..];
            }
        }
    }
    filled.push_str(rest);
    Cow::Owned(filled)
}

/// Fills the templates in all texts of a value. The names of fields stay unchanged.
pub(crate) fn fill_all(value: &mut Value, look_up: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(filled) = fill(text, look_up) {
                *text = filled;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|item| fill_all(item, look_up)),
        Value::Object(map) => map.values_mut().for_each(|item| fill_all(item, look_up)),
        _ => {}
    }
}

/// Returns a value inside another, by a path of names and positions such as `answers.0`. Text is returned unchanged,
/// other values as JSON.
pub(crate) fn at(mut value: &Value, path: &str) -> Option<String> {
    for name in path.split('.').filter(|name| !name.is_empty()) {
        value = match value {
            Value::Object(map) => map.get(name)?,
            Value::Array(list) => list.get(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn look_up(name: &str) -> Option<String> {
        match name {
            "prompt" => Some("hi {{prompt}}".to_owned()),
            "empty" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn template_fills_only_known_names_once() {
        for (text, filled) in [
            ("no template { }} {", "no template { }} {"),
            ("<{{prompt}}>", "<hi {{prompt}}>"),
            ("{{ prompt }}{{empty}}.", "hi {{prompt}}."),
            ("{{unknown}} {{prompt}}", "{{unknown}} hi {{prompt}}"),
            ("{{{empty}}}", "{}"),
            ("{{prompt", "{{prompt"),
            ("ü{{empty}}ü", "üü"),
        ] {
            assert_eq!(fill(text, &look_up), filled, "{text}");
        }
    }

    #[test]
    fn values_are_filled_at_any_depth() {
        let mut value = json!({"{{prompt}}": ["{{empty}}x", 1, {"a": "{{empty}}"}]});
        fill_all(&mut value, &look_up);
        assert_eq!(value, json!({"{{prompt}}": ["x", 1, {"a": ""}]}));
    }

    #[test]
    fn template_paths_reach_objects_and_lists() {
        let value = json!({"a": [{"b": "text"}, 2], "n": null});
        assert_eq!(at(&value, "a.0.b").as_deref(), Some("text"));
        assert_eq!(at(&value, "a.1").as_deref(), Some("2"));
        assert_eq!(at(&value, "n").as_deref(), Some(""));
        assert_eq!(at(&value, "").as_deref(), Some(r#"{"a":[{"b":"text"},2],"n":null}"#));
        assert_eq!(at(&value, "a.x"), None);
    }
}
