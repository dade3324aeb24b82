//! Conversion of the content of prompts and outputs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::requests::PLAN_REVIEW;
use crate::messages::{
    Content, ContentPart, DiffDisplayBlock, DisplayBlock, Json, ShellDisplayBlock, UnknownDisplayBlock,
};
use crate::resource;

/// The server accepts bodies of at most 1 MiB. Larger images are uploaded first. This many bytes are left for the rest
/// of the body.
const MAX_BODY: usize = (1 << 20) - (16 << 10);

/// A block of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text { text: String },
    Image { source: Source },
    Video { source: Source },
}

/// Where an image or a video is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Source {
    Url { url: String },
    Base64 { media_type: String, data: String },
    File { file_id: String },
}

/// A file that is uploaded before the prompt: the place of its block, and its bytes in base64.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Upload {
    #[serde(skip)]
    pub(super) at: usize,
    media_type: String,
    name: String,
    data: String,
}

/// Converts a prompt. Returns the files to upload first. The error names the content that the server does not accept.
pub(super) fn prompt(input: &Content) -> Result<(Vec<Block>, Vec<Upload>), &'static str> {
    let mut blocks = match input {
        Content::Text(text) => vec![Block::Text { text: text.clone() }],
        Content::Parts(parts) => parts.iter().map(block).collect::<Result<Vec<_>, _>>()?,
    };
    if blocks.is_empty() {
        blocks.push(Block::Text { text: String::new() });
    }
    let mut size = 0;
    for block in &blocks {
        size += match block {
            Block::Text { text } => escaped_len(text),
            Block::Image { source } | Block::Video { source } => match source {
                Source::Url { url } => escaped_len(url),
                // The size of the data is counted below, if it stays in the body.
                Source::Base64 { .. } | Source::File { .. } => 0,
            },
        };
        size += 64;
    }
    if size > MAX_BODY {
        return Err("more than 1 MiB of text; write it to a file, and name the file in the prompt");
    }
    let mut uploads = Vec::new();
    for (at, block) in blocks.iter_mut().enumerate() {
        let (Block::Image { source } | Block::Video { source }) = block else { continue };
        let Source::Base64 { media_type, data } = source else { continue };
        if size + data.len() <= MAX_BODY {
            size += data.len();
            continue;
        }
        let (media_type, data) = (std::mem::take(media_type), std::mem::take(data));
        let extension = media_type.rsplit(['/', '+']).next().unwrap_or_default();
        let extension: String = extension.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        uploads.push(Upload { at, media_type, name: format!("{}.{extension}", at + 1), data });
    }
    Ok((blocks, uploads))
}

/// Returns the maximum length of a text as JSON.
fn escaped_len(text: &str) -> usize {
    let escapes = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        0..0x20 => 5,
        _ => 0,
    };
    text.len() + text.bytes().map(escapes).sum::<usize>()
}

fn block(part: &ContentPart) -> Result<Block, &'static str> {
    let source = |url: &str| match data_uri(url) {
        Some((media_type, data)) => Source::Base64 { media_type: media_type.to_owned(), data: data.to_owned() },
        None => Source::Url { url: url.to_owned() },
    };
    match part {
        ContentPart::Text(part) => Ok(Block::Text { text: part.text.clone() }),
        ContentPart::ImageUrl(part) => Ok(Block::Image { source: source(&part.image_url.url) }),
        ContentPart::VideoUrl(part) => Ok(Block::Video { source: source(&part.video_url.url) }),
        ContentPart::Resource(part) => part.as_text().map(|text| Block::Text { text }).ok_or(resource::BYTES),
        ContentPart::AudioUrl(_) => Err("sounds"),
        ContentPart::Think(_) => Err("thinking"),
        ContentPart::Unknown(_) => Err("parts of unknown types"),
    }
}

/// Splits a URL such as `data:image/png;base64,…` into its parts.
fn data_uri(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    Some((head.strip_suffix(";base64")?, data))
}

/// Converts the input of a user or the output of a tool: text, or a list of blocks. Anything else becomes JSON text.
pub(super) fn content(value: &Json) -> Content {
    match value.decode::<Value>() {
        Ok(Value::String(text)) => Content::Text(text),
        Ok(Value::Array(items)) => {
            let mut parts: Vec<_> = items.into_iter().map(part).collect();
            match parts.pop() {
                Some(ContentPart::Text(only)) if parts.is_empty() => Content::Text(only.text),
                Some(last) => {
                    parts.push(last);
                    Content::Parts(parts)
                }
                None => Content::Text(String::new()),
            }
        }
        Ok(Value::Null) => Content::Text(String::new()),
        _ => Content::Text(value.get().to_owned()),
    }
}

fn part(item: Value) -> ContentPart {
    #[derive(Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum From {
        Url { url: String },
        Base64 { media_type: String, data: String },
    }
    let url = item.get("source").and_then(|source| From::deserialize(source).ok()).map(|source| match source {
        From::Url { url } => url,
        From::Base64 { media_type, data } => format!("data:{media_type};base64,{data}"),
    });
    let item = match (item.get("type").and_then(Value::as_str), url) {
        (Some("image"), Some(url)) => json!({"type": "image_url", "image_url": {"url": url}}),
        (Some("video"), Some(url)) => json!({"type": "video_url", "video_url": {"url": url}}),
        (Some("thinking"), _) => json!({"type": "think", "think": item.get("thinking")}),
        _ => item,
    };
    // A part of any type can be decoded. An item that is not an object becomes text.
    serde_json::from_value(item.clone()).unwrap_or_else(|_| ContentPart::text(item.to_string()))
}

/// Returns the block that displays a tool call. It has everything that the server shows, in any form, because a decision is about
/// all of it. `is_plan` says that the request has the plan.
pub(super) fn display(value: &Value, work_dir: Option<&str>, is_plan: bool) -> Option<DisplayBlock> {
    let Value::Object(members) = value else {
        return unknown_block("", [("display", value)]);
    };
    let kind = members.get("kind").and_then(Value::as_str);
    let known = match kind {
        Some("command") => command_block(members, work_dir),
        Some("diff") => change_block(members),
        Some("file_io") if ["write", "edit"].map(Some).contains(&text(members, "operation")) => change_block(members),
        _ => None,
    };
    if known.is_some() || (is_plan && kind == Some(PLAN_REVIEW)) {
        return known;
    }
    let is_more = |name: &str| name != "type" && (name != "kind" || kind.is_none());
    unknown_block(kind.unwrap_or_default(), members.iter().filter(|(name, _)| is_more(name)))
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name).and_then(Value::as_str)
}

/// Returns a block with these members. `None` if they say nothing.
fn unknown_block<'a, N: Into<String>>(
    kind: &str,
    members: impl IntoIterator<Item = (N, &'a Value)>,
) -> Option<DisplayBlock> {
    let mut block = UnknownDisplayBlock { kind: kind.to_owned(), extra: Default::default() };
    for (name, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
        block.extra.insert(name, value.clone());
    }
    (!kind.is_empty() || !block.extra.is_empty()).then_some(DisplayBlock::Unknown(block))
}

fn command_block(members: &Map<String, Value>, work_dir: Option<&str>) -> Option<DisplayBlock> {
    let language = text(members, "language").unwrap_or("bash").to_owned();
    let command = text(members, "command")?.to_owned();
    let mut block = ShellDisplayBlock { language, command, extra: Default::default() };
    // The directory and the variables change the meaning of the command.
    let is_more = |name: &str, value: &Value| match name {
        "kind" | "type" | "command" | "language" | "description" => false,
        "cwd" => !value.is_null() && (value.as_str() != work_dir || work_dir.is_none()),
        _ => !value.is_null(),
    };
    for (name, value) in members.iter().filter(|(name, value)| is_more(name, value)) {
        block.extra.insert(name, value.clone());
    }
    Some(DisplayBlock::Shell(block))
}

/// Returns the change of a file. `None` if a part of it cannot be read.
fn change_block(members: &Map<String, Value>) -> Option<DisplayBlock> {
    const TEXTS: [&str; 3] = ["before", "after", "content"];
    let is_readable = |name: &&str| members.get(*name).is_none_or(|value| value.is_null() || value.is_string());
    if !TEXTS.iter().all(is_readable) {
        return None;
    }
    let new_text = text(members, "after").or_else(|| text(members, "content"));
    let mut block = DiffDisplayBlock {
        path: text(members, "path")?.to_owned(),
        old_text: text(members, "before").unwrap_or_default().to_owned(),
        new_text: new_text.unwrap_or_default().to_owned(),
        old_start: None,
        new_start: None,
        // The server does not say what it writes.
        is_summary: new_text.is_none().then_some(true),
        extra: Default::default(),
    };
    let is_more = |name: &str, value: &Value| {
        let is_known = ["kind", "type", "operation", "path"].contains(&name) || TEXTS.contains(&name);
        !(is_known || value.is_null() || name == "hunks" && value.is_number())
    };
    for (name, value) in members.iter().filter(|(name, value)| is_more(name, value)) {
        block.extra.insert(name, value.clone());
    }
    Some(DisplayBlock::Diff(block))
}
