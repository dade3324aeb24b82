//! Conversion of the content of prompts, answers and tool outputs.

use agent_client_protocol_schema::v1::{self as acp, ContentBlock, ToolCallContent};
use serde_json::{Value, json};

use crate::messages::{Content, ContentPart, DiffDisplayBlock, DisplayBlock, UnknownContentPart};

/// Converts a prompt. The error names the content that this agent does not accept.
pub(super) fn prompt(input: &Content, can: &acp::PromptCapabilities) -> Result<Vec<ContentBlock>, &'static str> {
    let parts = match input {
        Content::Text(text) => return Ok(vec![text_block(text)]),
        Content::Parts(parts) => parts,
    };
    let media = |allowed: bool, url: &str, what: &'static str| {
        let data = data_uri(url).filter(|_| allowed);
        data.map(|(mime, data)| (mime.to_owned(), data.to_owned())).ok_or(what)
    };
    parts
        .iter()
        .map(|part| match part {
            ContentPart::Text(part) => Ok(text_block(&part.text)),
            ContentPart::ImageUrl(part) => {
                let what = if can.image { "images that are not data URIs in base64" } else { "images" };
                let (mime, data) = media(can.image, &part.image_url.url, what)?;
                Ok(ContentBlock::Image(acp::ImageContent::new(data, mime)))
            }
            ContentPart::AudioUrl(part) => {
                let what = if can.audio { "sounds that are not data URIs in base64" } else { "sounds" };
                let (mime, data) = media(can.audio, &part.audio_url.url, what)?;
                Ok(ContentBlock::Audio(acp::AudioContent::new(data, mime)))
            }
            ContentPart::VideoUrl(_) => Err("videos"),
            ContentPart::Think(_) => Err("thinking"),
            ContentPart::Unknown(_) => Err("parts of unknown types"),
        })
        .collect()
}

fn text_block(text: &str) -> ContentBlock {
    ContentBlock::Text(acp::TextContent::new(text))
}

/// Splits a URL such as `data:image/png;base64,…` into its parts.
fn data_uri(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    Some((head.strip_suffix(";base64")?, data))
}

/// Converts a block of the agent to a part. A block without a counterpart becomes an unknown part. Large texts are
/// moved, not copied.
pub(super) fn part(block: ContentBlock) -> ContentPart {
    let url = |mime: &str, data: &str| json!({"url": format!("data:{mime};base64,{data}")});
    let media = match block {
        ContentBlock::Text(text) => return ContentPart::text(text.text),
        ContentBlock::Image(image) => {
            json!({"type": "image_url", "image_url": url(&image.mime_type, &image.data)})
        }
        ContentBlock::Audio(audio) => {
            json!({"type": "audio_url", "audio_url": url(&audio.mime_type, &audio.data)})
        }
        other => serde_json::to_value(other).unwrap_or_default(),
    };
    serde_json::from_value(media).unwrap_or_else(|_| {
        ContentPart::Unknown(UnknownContentPart { kind: "unknown".to_owned(), extra: Default::default() })
    })
}

/// Converts a change of a file to a block for display.
pub(super) fn display(content: &ToolCallContent) -> Option<DisplayBlock> {
    let ToolCallContent::Diff(diff) = content else { return None };
    Some(DisplayBlock::Diff(change(diff.clone())))
}

/// Converts a change of a file. Its texts are moved, not copied.
pub(super) fn change(diff: acp::Diff) -> DiffDisplayBlock {
    DiffDisplayBlock {
        path: diff.path.to_string_lossy().into_owned(),
        old_text: diff.old_text.unwrap_or_default(),
        new_text: diff.new_text,
        old_start: None,
        new_start: None,
        is_summary: None,
        extra: Default::default(),
    }
}

/// Returns about how many bytes an item takes.
pub(super) fn size(item: &ToolCallContent) -> usize {
    let ToolCallContent::Content(content) = item else { return size_of::<ToolCallContent>() };
    let text = match &content.content {
        ContentBlock::Text(text) => text.text.len(),
        ContentBlock::Image(image) => image.data.len(),
        ContentBlock::Audio(audio) => audio.data.len(),
        other => serde_json::to_string(other).map_or(0, |text| text.len()),
    };
    size_of::<ToolCallContent>() + text
}

/// Returns the parts in the content that a tool displays.
fn parts(content: Vec<ToolCallContent>) -> Vec<ContentPart> {
    let shown = content.into_iter().filter_map(|item| match item {
        ToolCallContent::Content(content) => Some(part(content.content)),
        _ => None,
    });
    shown.collect()
}

/// Returns the texts in the content that a tool displays.
pub(super) fn texts(content: &[ToolCallContent]) -> Vec<&str> {
    content
        .iter()
        .filter_map(|item| match item {
            ToolCallContent::Content(content) => match &content.content {
                ContentBlock::Text(text) => Some(text.text.as_str()),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

/// Returns all texts, joined. `None` if there are none.
pub(super) fn text(content: &[ToolCallContent]) -> Option<String> {
    let texts = texts(content);
    (!texts.is_empty()).then(|| texts.concat())
}

/// Returns the output of a tool: the content that the agent displays, or else its raw output, whose form differs
/// between agents.
pub(super) fn output(raw: Option<Value>, content: Vec<ToolCallContent>) -> Content {
    let mut parts = parts(content);
    match (parts.pop(), raw) {
        (Some(ContentPart::Text(only)), _) if parts.is_empty() => Content::Text(only.text),
        (Some(last), _) => {
            parts.push(last);
            Content::Parts(parts)
        }
        (None, Some(Value::String(text))) => Content::Text(text),
        (None, None | Some(Value::Null)) => Content::Text(String::new()),
        (None, Some(raw)) => Content::Text(raw.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_images_need_capability() {
        let image = |url: &str| Content::from(vec![ContentPart::text("see"), ContentPart::image_url(url)]);
        let able = acp::PromptCapabilities::new().image(true);
        let data = image("data:image/png;base64,AAAA");
        let blocks = json!([
            {"type": "text", "text": "see"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        ]);
        assert_eq!(prompt(&data, &able).map(|blocks| json!(blocks)), Ok(blocks));
        assert_eq!(prompt(&data, &acp::PromptCapabilities::new()), Err("images"));
        let linked = image("https://example.org/a.png");
        assert_eq!(prompt(&linked, &able), Err("images that are not data URIs in base64"));
    }

    #[test]
    fn tool_output_prefers_content_over_raw() {
        let text = |text: &str| ToolCallContent::from(text_block(text));
        let image = || ToolCallContent::from(ContentBlock::Image(acp::ImageContent::new("AAAA", "image/png")));
        assert_eq!(output(Some(json!("raw")), vec![]), Content::from("raw"));
        assert_eq!(output(Some(json!("raw")), vec![text("shown")]), Content::from("shown"));
        assert_eq!(output(None, vec![text("shown")]), Content::from("shown"));
        assert_eq!(output(Some(json!({"n": 1})), vec![]), Content::from("{\"n\":1}"));
        assert_eq!(output(Some(Value::Null), vec![]), Content::from(""));
        let both = output(Some(json!("raw")), vec![text("shown"), image()]);
        let parts = vec![ContentPart::text("shown"), ContentPart::image_url("data:image/png;base64,AAAA")];
        assert_eq!(both, Content::from(parts));
    }
}
