//! Messages and outputs: text, or parts with images and audio.

use kimi_agent_protocol::messages::{Content, ContentPart};
use serde_json::{Value, json};

const IMAGES: [(&str, &str); 5] =
    [("jpeg", "image/jpeg"), ("jpg", "image/jpeg"), ("png", "image/png"), ("gif", "image/gif"), ("webp", "image/webp")];
const AUDIO: [(&str, &str); 8] = [
    ("wav", "audio/wav"),
    ("mp3", "audio/mpeg"),
    ("mpeg", "audio/mpeg"),
    ("m4a", "audio/mp4"),
    ("ogg", "audio/ogg"),
    ("flac", "audio/flac"),
    ("aac", "audio/aac"),
    ("webm", "audio/webm"),
];

/// Returns content in the format: text if it is only text, else parts.
pub(super) fn of(content: &Content) -> Value {
    match content {
        Content::Text(text) => text.clone().into(),
        Content::Parts(parts) if parts.iter().all(|part| matches!(part, ContentPart::Text(_))) => content.text().into(),
        Content::Parts(parts) => parts.iter().map(part).collect(),
    }
}

/// Returns a part. A kind that the format lacks becomes a text.
pub(super) fn part(part: &ContentPart) -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    match part {
        ContentPart::Text(part) => text(&part.text),
        ContentPart::Think(part) => text(&part.think),
        ContentPart::ImageUrl(part) => media("image", &part.image_url.url, &IMAGES),
        ContentPart::AudioUrl(part) => media("audio", &part.audio_url.url, &AUDIO),
        ContentPart::VideoUrl(part) => text(&format!("[video: {}]", shown(&part.video_url.url))),
        ContentPart::Resource(part) => {
            text(&part.as_text().unwrap_or_else(|| format!("[resource: {}]", shown(&part.uri))))
        }
        _ => text("[content of an unknown kind]"),
    }
}

fn media(kind: &str, url: &str, types: &[(&str, &'static str)]) -> Value {
    let known = types.iter().find(|(ending, media)| has_type(url, ending, media));
    match known {
        Some((_, media)) => json!({"type": kind, "source": {"media_type": media, "path": url}}),
        None => json!({"type": "text", "text": format!("[{kind}: {}]", shown(url))}),
    }
}

/// Returns whether the address names this type: in `data:`, or by its ending.
fn has_type(url: &str, ending: &str, media: &str) -> bool {
    match url.strip_prefix("data:") {
        Some(data) => data.split([';', ',']).next().is_some_and(|kind| {
            kind.eq_ignore_ascii_case(media) || kind.split_once('/').is_some_and(|(_, name)| name == ending)
        }),
        None => {
            let path = url.split(['?', '#']).next().unwrap_or_default();
            path.rsplit_once('.').is_some_and(|(_, name)| name.eq_ignore_ascii_case(ending))
        }
    }
}

/// Returns an address without the data in it.
fn shown(url: &str) -> &str {
    if url.starts_with("data:") { url.split(',').next().unwrap_or_default() } else { url }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_has_known_type() {
        let image = |url: &str| part(&ContentPart::image_url(url));
        assert_eq!(
            image("data:image/png;base64,AA=="),
            json!({"type": "image", "source": {"media_type": "image/png", "path": "data:image/png;base64,AA=="}})
        );
        assert_eq!(image("https://example.com/a.JPG?x=1")["source"]["media_type"], "image/jpeg");
        assert_eq!(image("data:image/svg+xml,<svg/>"), json!({"type": "text", "text": "[image: data:image/svg+xml]"}));
    }
}
