//! Conversion of a tool's result to MCP.

use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};

use crate::messages::{Content, ContentPart, ToolReturnValue};

/// Converts a tool's result: its message first, as agents of Wire show it to the model, then its output. MCP has no
/// counterpart of display blocks.
pub(super) fn result(value: ToolReturnValue) -> CallToolResult {
    let mut content = Vec::new();
    if !value.message.is_empty() {
        content.push(ContentBlock::text(value.message));
    }
    match value.output {
        // An empty result is one empty text, unless there is a message.
        Content::Text(text) if text.is_empty() && !content.is_empty() => {}
        Content::Text(text) => content.push(ContentBlock::text(text)),
        Content::Parts(parts) => content.extend(parts.into_iter().map(block)),
    }
    if value.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) }
}

fn block(part: ContentPart) -> ContentBlock {
    match part {
        ContentPart::Text(part) => ContentBlock::text(part.text),
        ContentPart::Think(part) => ContentBlock::text(part.think),
        ContentPart::ImageUrl(part) => media(part.image_url.url, "image"),
        ContentPart::AudioUrl(part) => media(part.audio_url.url, "audio"),
        ContentPart::VideoUrl(part) => media(part.video_url.url, "video"),
        // A part of an unknown type is passed on as JSON, which the model can read.
        part => ContentBlock::text(serde_json::to_string(&part).unwrap_or_default()),
    }
}

/// The bytes of a data URI are included. Any other address becomes a link.
fn media(url: String, kind: &str) -> ContentBlock {
    let Some((mime, data)) = inline(&url) else {
        let name = url.rsplit('/').find(|part| !part.is_empty()).unwrap_or(kind).to_owned();
        let mut link = Resource::new(url, name);
        link.mime_type = mime_of(&link.uri);
        return ContentBlock::resource_link(link);
    };
    let mime = if mime.is_empty() { format!("{kind}/*") } else { mime.to_owned() };
    let data = data.to_owned();
    match kind {
        "image" => ContentBlock::image(data, mime),
        "audio" => ContentBlock::audio(data, mime),
        // MCP has no content type for videos.
        _ => ContentBlock::resource(ResourceContents::blob(data, format!("tool:{kind}")).with_mime_type(mime)),
    }
}

/// Returns the media type and the bytes, in base64, of a data URI (`data:image/png;base64,…`).
fn inline(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let head = head.strip_suffix(";base64")?;
    Some((head.split(';').next().unwrap_or_default(), data))
}

/// Returns the media type of a link's target, by its name. Some agents ignore links without a media type.
fn mime_of(url: &str) -> Option<String> {
    let path = url.split(['?', '#']).next()?;
    let mime = match path.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "ogg" => "audio/ogg",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "mov" => "video/quicktime",
        _ => return None,
    };
    Some(mime.to_owned())
}
