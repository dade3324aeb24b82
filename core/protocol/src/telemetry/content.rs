//! Messages as JSON, in the layout of the conventions. They are attributes only if the program allows content.

use serde_json::{Value, json};

use crate::messages::{Content, ContentPart};

/// The limit of the text in an attribute, in bytes.
pub(super) const MAX_TEXT: usize = 256 << 10;

/// Returns the value of `gen_ai.input.messages` for a prompt.
pub(super) fn input_messages(input: &Content) -> String {
    json!([{"role": "user", "parts": parts(input)}]).to_string()
}

/// Returns the value of `gen_ai.output.messages`.
pub(super) fn output_messages(parts: &[Value], finish_reason: &str) -> String {
    json!([{"role": "assistant", "parts": parts, "finish_reason": finish_reason}]).to_string()
}

/// Returns a part that is text.
pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "text", "content": cut(text)})
}

/// Returns a part that is a tool call.
pub(super) fn call_part(id: &str, name: &str) -> Value {
    json!({"type": "tool_call", "id": id, "name": name})
}

/// Returns the beginning of a text, up to the limit.
pub(super) fn cut(text: &str) -> &str {
    cut_at(text, MAX_TEXT)
}

/// Returns the beginning of a text that has at most this many bytes.
pub(crate) fn cut_at(text: &str, size: usize) -> &str {
    let end = (0..=size.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[..end]
}

fn parts(content: &Content) -> Vec<Value> {
    match content {
        Content::Text(text) => vec![text_part(text)],
        Content::Parts(parts) => parts.iter().map(part).collect(),
    }
}

fn part(part: &ContentPart) -> Value {
    match part {
        ContentPart::Text(part) => text_part(&part.text),
        ContentPart::Think(part) => json!({"type": "reasoning", "content": cut(&part.think)}),
        ContentPart::ImageUrl(part) => media("image", &part.image_url.url),
        ContentPart::AudioUrl(part) => media("audio", &part.audio_url.url),
        ContentPart::VideoUrl(part) => media("video", &part.video_url.url),
        ContentPart::Resource(part) => match part.as_text() {
            Some(text) => text_part(&text),
            None => media("document", &part.uri),
        },
        ContentPart::Unknown(part) => json!({"type": part.kind}),
    }
}

/// Returns the part of a file. Its bytes are left out.
fn media(modality: &str, url: &str) -> Value {
    match url.starts_with("data:") {
        true => json!({"type": modality}),
        false => json!({"type": "uri", "modality": modality, "uri": cut(url)}),
    }
}
