//! What prompts, answers and tool outputs are made of.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::wire::value::{Decoded, Field};
use crate::wire::{Node, TypeRef};

message! {
    /// A piece of text.
    TextPart tagged "text" since "1.0" {
        /// The text.
        text: String,
    }

    /// A piece of the model's thinking.
    ThinkPart tagged "think" since "1.0" {
        /// The thinking.
        think: String,
        /// Its encrypted form or signature, where a provider sends one.
        encrypted: Option<String>,
    }

    /// An image.
    ImageURLPart tagged "image_url" since "1.0" {
        /// Where it is.
        image_url: MediaURL,
    }

    /// A sound.
    AudioURLPart tagged "audio_url" since "1.0" {
        /// Where it is.
        audio_url: MediaURL,
    }

    /// A video.
    VideoURLPart tagged "video_url" since "1.0" {
        /// Where it is.
        video_url: MediaURL,
    }

    /// The address of an image, a sound or a video.
    MediaURL since "1.0" {
        /// A URL; a data URI (`data:image/png;base64,…`) carries the bytes themselves.
        url: String,
        /// Tells apart several of the same kind.
        id: Option<String>,
    }

    /// A content part of a type that this SDK does not know, or of a known type that it could not read;
    /// its fields are in `extra`.
    UnknownContentPart since "1.0" {
        /// The type that it says it is; empty if it says none.
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
        /// A sound.
        AudioUrl(AudioURLPart) = "audio_url",
        /// A video.
        VideoUrl(VideoURLPart) = "video_url",
    } else UnknownContentPart
}

impl ContentPart {
    /// A text part.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::wire::ContentPart;
    /// let part = ContentPart::text("hello");
    /// assert_eq!(serde_json::to_string(&part)?, r#"{"type":"text","text":"hello"}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextPart { text: text.into(), extra: Default::default() })
    }

    /// An image part from a URL or data URI.
    pub fn image_url(url: impl Into<String>) -> Self {
        let image_url = MediaURL { url: url.into(), id: None, extra: Default::default() };
        Self::ImageUrl(ImageURLPart { image_url, extra: Default::default() })
    }
}

/// What a user says, or a tool puts out: plain text, or a list of parts.
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
    /// The text in it; other parts are passed over.
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
                while let Some(part) = seq.next_element::<Decoded<ContentPart>>()? {
                    parts.push(part.0);
                }
                Ok(Content::Parts(parts))
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
