//! Conversion of the content of prompts, answers and tool outputs.

use agent_client_protocol_schema::v1::{self as acp, ContentBlock, ToolCallContent};
use serde_json::{Value, json};

use crate::messages::{Content, ContentPart, DiffDisplayBlock, DisplayBlock, ResourcePart, UnknownContentPart};
use crate::resource::BYTES;

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
            ContentPart::Resource(part) => resource(part, can.embedded_context),
            ContentPart::VideoUrl(_) => Err("videos"),
            ContentPart::Think(_) => Err("thinking"),
            ContentPart::Unknown(_) => Err("parts of unknown types"),
        })
        .collect()
}

/// Converts a resource. All agents take links. The text of a file is a copy, so a link is enough.
fn resource(part: &ResourcePart, can_embed: bool) -> Result<ContentBlock, &'static str> {
    let ResourcePart { uri, name, text, data, mime_type, size, .. } = part;
    let embedded = |contents| Ok(ContentBlock::Resource(acp::EmbeddedResource::new(contents)));
    match (text, data) {
        (Some(text), _) if can_embed => {
            let contents = acp::TextResourceContents::new(text, uri).mime_type(mime_type.clone());
            embedded(acp::EmbeddedResourceResource::TextResourceContents(contents))
        }
        (None, Some(data)) if can_embed => {
            let contents = acp::BlobResourceContents::new(data, uri).mime_type(mime_type.clone());
            embedded(acp::EmbeddedResourceResource::BlobResourceContents(contents))
        }
        (None, Some(_)) => Err(BYTES),
        (Some(_), _) if name.is_none() => Ok(text_block(&part.as_text().unwrap_or_default())),
        _ => {
            let last = || uri.rsplit('/').find(|word| !word.is_empty()).unwrap_or(uri);
            let name = name.as_deref().unwrap_or_else(last);
            Ok(ContentBlock::ResourceLink(acp::ResourceLink::new(name, uri).mime_type(mime_type.clone()).size(*size)))
        }
    }
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
        ContentBlock::ResourceLink(link) => return resource_link(link).into(),
        ContentBlock::Resource(embedded) => match embedded_resource(embedded) {
            Ok(part) => return part.into(),
            Err(unknown) => serde_json::to_value(ContentBlock::Resource(*unknown)).unwrap_or_default(),
        },
        other => serde_json::to_value(other).unwrap_or_default(),
    };
    serde_json::from_value(media).unwrap_or_else(|_| {
        ContentPart::Unknown(UnknownContentPart { kind: "unknown".to_owned(), extra: Default::default() })
    })
}

fn resource_link(link: acp::ResourceLink) -> ResourcePart {
    let acp::ResourceLink { annotations, description, mime_type, name, size, title, uri, meta, .. } = link;
    let mut part = ResourcePart { name: Some(name), mime_type, size, ..ResourcePart::new(uri) };
    let more = [("title", title.map(Value::from)), ("description", description.map(Value::from))];
    let more = more.into_iter().chain([("annotations", annotations.map(|value| json!(value)))]);
    more.for_each(|(name, value)| value.into_iter().for_each(|value| part.extra.insert(name, value)));
    with_meta(part, meta)
}

/// Converts the content of a resource. Returns it unchanged if it is of an unknown kind.
fn embedded_resource(embedded: acp::EmbeddedResource) -> Result<ResourcePart, Box<acp::EmbeddedResource>> {
    let (mut part, meta) = match embedded.resource {
        acp::EmbeddedResourceResource::TextResourceContents(acp::TextResourceContents {
            mime_type,
            text,
            uri,
            meta,
            ..
        }) => (ResourcePart { mime_type, text: Some(text), ..ResourcePart::new(uri) }, meta),
        acp::EmbeddedResourceResource::BlobResourceContents(acp::BlobResourceContents {
            blob,
            mime_type,
            uri,
            meta,
            ..
        }) => (ResourcePart { mime_type, data: Some(blob), ..ResourcePart::new(uri) }, meta),
        other => return Err(Box::new(acp::EmbeddedResource::new(other))),
    };
    if let Some(annotations) = embedded.annotations {
        part.extra.insert("annotations", json!(annotations));
    }
    Ok(with_meta(part, embedded.meta.or(meta)))
}

fn with_meta(mut part: ResourcePart, meta: Option<acp::Meta>) -> ResourcePart {
    if let Some(meta) = meta {
        part.extra.insert("_meta", json!(meta));
    }
    part
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
    output_and_rest(raw, content).0
}

/// Returns the output of a tool, and its raw output if that is not the output and says something else.
pub(super) fn output_and_rest(raw: Option<Value>, content: Vec<ToolCallContent>) -> (Content, Option<Value>) {
    let mut parts = parts(content);
    let raw = raw.filter(|raw| !raw.is_null());
    let output = match (parts.pop(), &raw) {
        (Some(ContentPart::Text(only)), _) if parts.is_empty() => Content::Text(only.text),
        (Some(last), _) => {
            parts.push(last);
            Content::Parts(parts)
        }
        (None, None) => Content::Text(String::new()),
        (None, Some(Value::String(text))) => return (Content::Text(text.clone()), None),
        (None, Some(raw)) => return (Content::Text(raw.to_string()), None),
    };
    let rest = raw.filter(|raw| raw.as_str().is_none_or(|text| text.trim() != output.text().trim()));
    (output, rest)
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
    fn resource_has_the_form_that_the_agent_takes() {
        let able = acp::PromptCapabilities::new().embedded_context(true);
        let unable = acp::PromptCapabilities::new();
        let sent = |part: &ResourcePart, can| {
            prompt(&Content::from(vec![part.clone().into()]), can).map(|blocks| json!(blocks[0]))
        };
        let link = json!({"type": "resource_link", "uri": "file:///a/b.md", "name": "b.md", "size": 2});
        let embedded = |contents: Value| Ok(json!({"type": "resource", "resource": contents}));
        let of_file =
            ResourcePart { name: Some("b.md".to_owned()), size: Some(2), ..ResourcePart::new("file:///a/b.md") };
        assert_eq!(sent(&of_file, &able), Ok(link.clone()));
        let of_file = of_file.with_text("hi");
        assert_eq!(sent(&of_file, &able), embedded(json!({"uri": "file:///a/b.md", "text": "hi"})));
        assert_eq!(sent(&of_file, &unable), Ok(link));
        let issue = ResourcePart::new("issue:7").with_text("hi").with_mime_type("text/plain");
        assert_eq!(sent(&issue, &able), embedded(json!({"uri": "issue:7", "text": "hi", "mimeType": "text/plain"})));
        let text = json!({"type": "text", "text": "\nResource issue:7:\n```\nhi\n```\n"});
        assert_eq!(sent(&issue, &unable), Ok(text));
        let bytes = ResourcePart::new("mem:1").with_data("hi");
        assert_eq!(sent(&bytes, &able), embedded(json!({"uri": "mem:1", "blob": "aGk="})));
        assert_eq!(sent(&bytes, &unable), Err(BYTES));
        let page = json!({"type": "resource_link", "uri": "https://a.example/b/", "name": "b"});
        assert_eq!(sent(&ResourcePart::new("https://a.example/b/"), &able), Ok(page));
    }

    #[test]
    fn resource_of_agent_becomes_resource_part() {
        let read = |block: Value| json!(part(serde_json::from_value(block).expect("a block")));
        let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain", "size": 3,
            "title": "A", "_meta": {"x": 1}});
        assert_eq!(
            read(link),
            json!({"type": "resource", "uri": "file:///a", "name": "a", "mime_type": "text/plain", "size": 3, "title": "A",
                "_meta": {"x": 1}})
        );
        let text =
            json!({"type": "resource", "resource": {"uri": "a:1", "text": "hi"}, "annotations": {"priority": 1.0}});
        let annotated = json!({"type": "resource", "uri": "a:1", "text": "hi", "annotations": {"priority": 1.0}});
        assert_eq!(read(text), annotated);
        let bytes = json!({"type": "resource", "resource": {"uri": "a:1", "blob": "aGk="}});
        assert_eq!(read(bytes), json!({"type": "resource", "uri": "a:1", "data": "aGk="}));
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
        let rest = |raw: Value| output_and_rest(Some(raw), vec![text("shown")]).1;
        assert_eq!((rest(json!("shown\n")), rest(json!(null))), (None, None));
        assert_eq!(rest(json!({"stderr": "SEGFAULT"})), Some(json!({"stderr": "SEGFAULT"})));
        assert_eq!(output_and_rest(Some(json!({"n": 1})), vec![]).1, None);
        let both = output(Some(json!("raw")), vec![text("shown"), image()]);
        let parts = vec![ContentPart::text("shown"), ContentPart::image_url("data:image/png;base64,AAAA")];
        assert_eq!(both, Content::from(parts));
    }
}
