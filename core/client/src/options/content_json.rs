//! The content of prompts, as the bindings and the jobs of a batch pass it.

use kimi_agent_protocol::spelling::nearest;
use serde_json::Value;

use super::value::kind_of;
use crate::error::Result;
use crate::error::invalid_option;
use crate::messages::{Content, ContentPart};

const EXPECTED: &str = r#"text, a content part such as {"type": "text", "text": "…"}, or a list of these"#;

/// The types of content parts that have a URL, in a field of the same name.
const MEDIA: [&str; 3] = ["image_url", "audio_url", "video_url"];

/// The types of content parts that models know.
const KNOWN: [&str; 6] = ["text", "think", "image_url", "audio_url", "video_url", "resource"];

/// Types of other interfaces, and their names here.
const FOREIGN: [(&str, &str); 8] = [
    ("input_text", "text"),
    ("output_text", "text"),
    ("image", "image_url"),
    ("input_image", "image_url"),
    ("audio", "audio_url"),
    ("input_audio", "audio_url"),
    ("video", "video_url"),
    ("resource_link", "resource"),
];

/// Returns the type that a misspelt type means. `None`: the type is known, or it is new and the agent decides.
fn meant(given: &str) -> Option<&'static str> {
    if KNOWN.contains(&given) {
        return None;
    }
    let foreign = FOREIGN.iter().find(|(word, _)| *word == given).map(|(_, name)| *name);
    foreign.or_else(|| nearest(given, KNOWN.map(|name| (name, name))))
}

/// Reads the content of a prompt or a steer: text, a content part, or a list of both.
///
/// # Errors
/// Returns `InvalidOption` for `content`, with the place and the expected form.
pub fn parse_content(value: Value) -> Result<Content> {
    match value {
        Value::String(text) => Ok(Content::Text(text)),
        Value::Array(items) => {
            let parts = items.into_iter().enumerate().map(|(at, item)| part(&format!("content[{at}]"), item));
            parts.collect::<Result<Vec<_>>>().map(Content::Parts)
        }
        other => part("content", other).map(Content::from),
    }
}

fn part(place: &str, value: Value) -> Result<ContentPart> {
    let wrong = |problem: String| {
        let place = if place == "content" { String::new() } else { format!("{place}: ") };
        Err(invalid_option("content", format!("{place}{problem}")))
    };
    let fields = match value {
        Value::String(text) => return Ok(ContentPart::text(text)),
        Value::Object(fields) => fields,
        other => return wrong(format!("expected {EXPECTED}; got {}", kind_of(&other))),
    };
    if fields.contains_key("role") && !fields.contains_key("type") {
        return wrong(format!(
            "got a chat message with a `role`; the agent keeps the conversation itself, so pass only what the user says \
             now: {EXPECTED}"
        ));
    }
    if !fields.contains_key("type") {
        return wrong(format!("got an object without a `type`; expected {EXPECTED}"));
    }
    // For example `{"type": "image_url", "image_url": "picture.png"}`.
    let media = fields["type"].as_str().filter(|name| MEDIA.contains(name));
    if let Some(name) = media.filter(|name| fields.get(*name).is_some_and(Value::is_string)) {
        let remedy = if name == "image_url" { "; make the part of a file with `image(path)`" } else { "" };
        return wrong(format!(r#"`{name}` must be an object `{{"url": "…"}}`, got text{remedy}"#));
    }
    if let Some((given, meant)) = fields["type"].as_str().and_then(|given| Some((given, meant(given)?))) {
        return wrong(format!("a content part has no type `{given}`; did you mean `{meant}`? Expected {EXPECTED}"));
    }
    serde_json::from_value(Value::Object(fields)).or_else(|error| {
        wrong(format!("the content part cannot be read: {}; expected {EXPECTED}", without_place(&error)))
    })
}

/// Returns the text of an error without the place in the JSON, which the program has not written.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_parts_and_mixed_lists_are_content() {
        assert_eq!(parse_content(json!("a")), Ok("a".into()));
        let mixed = parse_content(json!(["a", {"type": "text", "text": "b"}, {"type": "new", "x": 1}])).unwrap();
        assert_eq!(mixed.text(), "ab");
        assert_eq!(parse_content(json!({"type": "text", "text": "c"})).unwrap().text(), "c");
    }

    #[test]
    fn wrong_content_is_named_with_its_place() {
        for (value, words) in [
            (json!(null), &["expected text", "got nothing"][..]),
            (json!(5), &["expected text", "got a number"]),
            (json!([[1]]), &["content[0]", "got a list"]),
            (json!([{"role": "user", "content": "x"}]), &["content[0]", "`role`", "only what the user says"]),
            (json!({"text": "x"}), &["without a `type`"]),
            (
                json!({"type": "image_url", "image_url": "p.png"}),
                &[r#"`image_url` must be an object `{"url": "…"}`"#, "image(path)"],
            ),
            (json!([{"type": "audio_url", "audio_url": "a.mp3"}]), &["content[0]: `audio_url` must be an object"]),
            (json!({"type": "image_url", "image_url": 5}), &["cannot be read"]),
            (json!({"type": "txt", "text": "x"}), &["no type `txt`", "did you mean `text`"]),
            (json!({"type": "imageUrl", "image_url": {"url": "data:,"}}), &["did you mean `image_url`"]),
            (json!(["a", {"type": "input_text", "text": "x"}]), &["content[1]", "did you mean `text`"]),
            (json!(["a", {"type": "text"}]), &["content[1]", "missing field `text`; expected"]),
        ] {
            let error = parse_content(value).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
