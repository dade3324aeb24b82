//! The content of prompts, answers and tool outputs.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::json::Key;
use crate::messages::value::{Field, keep_unknown, kept_object};
use crate::messages::{Extra, Json, Node, TypeRef};

message! {
    /// A part that is text.
    TextPart tagged "text" since "1.0" {
        /// The text.
        text: String,
        /// The id of the message that the part belongs to, if the agent sends it.
        message_id: Option<String>,
    }

    /// A part of the model's thinking.
    ThinkPart tagged "think" since "1.0" {
        /// The text of the thinking.
        think: String,
        /// Its encrypted form or signature, if the provider sends one.
        encrypted: Option<String>,
        /// The id of the message that the part belongs to, if the agent sends it.
        message_id: Option<String>,
    }

    /// An image.
    ImageURLPart tagged "image_url" since "1.0" {
        /// The address, with the data in it if it is a data URI.
        image_url: MediaURL,
    }

    /// An audio recording.
    AudioURLPart tagged "audio_url" since "1.0" {
        /// The address, with the data in it if it is a data URI.
        audio_url: MediaURL,
    }

    /// A video.
    VideoURLPart tagged "video_url" since "1.0" {
        /// The address, with the data in it if it is a data URI.
        video_url: MediaURL,
    }

    /// The address of an image, an audio recording or a video.
    MediaURL since "1.0" {
        /// A URL. A data URI (`data:image/png;base64,…`) contains the bytes.
        url: String,
        /// An identifier that distinguishes several media of one kind, if the agent sends one.
        id: Option<String>,
    }

    /// A resource: a file, or anything else with an address. Its content is `text` or `data`; without both it is a link.
    ResourcePart tagged "resource" since "" {
        /// The address: a URL such as `file:///srv/app/main.py`, or another URI.
        uri: String,
        /// The name of the file, if the resource is one. An agent that takes no texts of resources gets a link to such a part.
        name: Option<String>,
        /// The content, if it is text.
        text: Option<String>,
        /// The content in base64, if it is not text.
        data: Option<String>,
        /// The media type, for example `text/markdown`.
        mime_type: Option<String>,
        /// The size of the file in bytes, if the resource is a file.
        size: Option<i64>,
    }

    /// A content part of a type that this SDK does not know, or of a known type that it could not read.
    /// Its fields are in `extra`.
    UnknownContentPart since "1.0" {
        /// The value of the message's `type` field. Empty if the message has none.
        kind as "type": String,
    }
}

tagged_union! {
    /// A part of a message: of the user's input, of the model's answer, or of a tool's output.
    ContentPart {
        /// Text.
        Text(TextPart) = "text",
        /// Thinking.
        Think(ThinkPart) = "think",
        /// An image.
        ImageUrl(ImageURLPart) = "image_url",
        /// An audio recording.
        AudioUrl(AudioURLPart) = "audio_url",
        /// A video.
        VideoUrl(VideoURLPart) = "video_url",
        /// A file or another resource.
        Resource(ResourcePart) = "resource",
    } else UnknownContentPart
}

impl ContentPart {
    /// Makes a text part.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::wire::ContentPart;
    /// let part = ContentPart::text("hello");
    /// assert_eq!(serde_json::to_string(&part)?, r#"{"type":"text","text":"hello"}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextPart { text: text.into(), message_id: None, extra: Default::default() })
    }

    /// Makes a part of the model's thinking.
    pub(crate) fn think(think: impl Into<String>) -> Self {
        Self::Think(ThinkPart { think: think.into(), encrypted: None, message_id: None, extra: Default::default() })
    }

    /// Returns a text or a thought with the id of its message. Other parts are returned unchanged.
    pub(crate) fn of_message(mut self, id: Option<String>) -> Self {
        match &mut self {
            Self::Text(TextPart { message_id, .. }) | Self::Think(ThinkPart { message_id, .. }) => *message_id = id,
            _ => {}
        }
        self
    }

    /// Returns the id of the message of a text or a thought.
    pub(crate) fn message_id(&self) -> Option<&str> {
        match self {
            Self::Text(TextPart { message_id, .. }) | Self::Think(ThinkPart { message_id, .. }) => {
                message_id.as_deref()
            }
            _ => None,
        }
    }

    /// Reads a part. Text is a part of text, also without a type or with a type in capitals; other JSON that is no part becomes an
    /// unknown part, with its `value`.
    fn of(json: Json) -> Self {
        let read = Self::read(json.get()).ok().filter(|part| !matches!(part, Self::Unknown(_)));
        let read = read.or_else(|| Self::untyped_text(&json)).or_else(|| Self::read(json.get()).ok());
        if let Some(part) = read.or_else(|| Self::kept(&json)) {
            return part;
        }
        if let Ok(text) = json.decode::<String>() {
            return Self::text(text);
        }
        let mut extra = Extra::default();
        keep_unknown(&mut extra, "value".to_owned(), json);
        Self::Unknown(UnknownContentPart { kind: String::new(), extra })
    }

    /// Reads a text whose type is absent, null, or `text` in other letters.
    fn untyped_text(json: &Json) -> Option<Self> {
        let (kind, mut extra) = kept_object(json)?;
        let has_type = match extra.remove("type") {
            None => !kind.is_empty() && !kind.eq_ignore_ascii_case("text"),
            Some(kind) => !kind.is_null(),
        };
        let Some(Value::String(text)) = extra.remove("text").filter(|_| !has_type) else { return None };
        Some(Self::Text(TextPart { text, message_id: None, extra }))
    }

    /// Makes an image part from a URL or a data URI.
    pub fn image_url(url: impl Into<String>) -> Self {
        let image_url = MediaURL { url: url.into(), id: None, extra: Default::default() };
        Self::ImageUrl(ImageURLPart { image_url, extra: Default::default() })
    }
}

/// The content of a prompt or of a tool's output: plain text, or a list of parts.
///
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::wire::{Content, ContentPart};
/// let plain: Content = "hello".into();
/// let parts: Content = vec![ContentPart::text("hello")].into();
/// assert_eq!(plain.text(), parts.text());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// A list of parts.
    Parts(Vec<ContentPart>),
}

impl Content {
    /// Returns the text of all text parts, joined. Other parts are left out.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    ContentPart::Text(part) => Some(part.text.as_str()),
                    _ => None,
                })
                .collect(),
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&String> for Content {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<Vec<ContentPart>> for Content {
    fn from(parts: Vec<ContentPart>) -> Self {
        Self::Parts(parts)
    }
}

impl From<ContentPart> for Content {
    fn from(part: ContentPart) -> Self {
        Self::Parts(vec![part])
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Parts(parts) => parts.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Content;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("text or a list of content parts")
            }
            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }
            fn visit_string<E>(self, text: String) -> Result<Content, E> {
                Ok(Content::Text(text))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = seq.next_element::<Json>()? {
                    parts.push(ContentPart::of(part));
                }
                Ok(Content::Parts(parts))
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
                let mut members = Extra::default();
                while let Some(name) = map.next_key::<Key<'de>>()? {
                    keep_unknown(&mut members, name.0.into_owned(), map.next_value()?);
                }
                let part = serde_json::to_string(&members).and_then(|text| serde_json::from_str(&text));
                Ok(Content::Parts(vec![ContentPart::of(part.map_err(serde::de::Error::custom)?)]))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Field for Content {
    fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
    fn node(&self) -> Node<'_> {
        match self {
            Self::Text(text) => Node::Str(text),
            Self::Parts(parts) => Node::List(parts.iter().map(Field::node).collect()),
        }
    }
    fn type_ref() -> TypeRef {
        TypeRef::Ref("Content")
    }
}
