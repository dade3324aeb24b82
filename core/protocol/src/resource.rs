//! Resources as content parts: how programs make them, and their form for agents that take only text.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Result, invalid_option};
use crate::messages::{Content, ContentPart, ResourcePart};
use crate::place::percent_decoded;

/// The limit of the content of a resource, in bytes.
pub const MAX_CONTENT: usize = 8 << 20;

impl ResourcePart {
    /// Makes a link to a resource: a URL, or another URI such as `issue:7`.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::wire::ResourcePart;
    /// assert_eq!(ResourcePart::new("https://example.com/issues/7").uri, "https://example.com/issues/7");
    /// ```
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: None,
            text: None,
            data: None,
            mime_type: None,
            size: None,
            extra: Default::default(),
        }
    }

    /// Sets the content of the resource, as text. At most 8 MiB.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::wire::ResourcePart;
    /// let issue = ResourcePart::new("issue:7").with_text("The parser fails.");
    /// assert_eq!(issue.text.as_deref(), Some("The parser fails."));
    /// ```
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Sets the content of the resource, as bytes. At most 8 MiB. Only agents of ACP with `embeddedContext` take it.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::wire::ResourcePart;
    /// assert_eq!(ResourcePart::new("mem:1").with_data(b"hi").data.as_deref(), Some("aGk="));
    /// ```
    #[must_use]
    pub fn with_data(mut self, data: impl AsRef<[u8]>) -> Self {
        self.data = Some(STANDARD.encode(data));
        self
    }

    /// Sets the media type, for example `text/markdown`.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::wire::ResourcePart;
    /// let log = ResourcePart::new("run:1").with_text("ok").with_mime_type("text/plain");
    /// # drop(log);
    /// ```
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Returns what is wrong with the resource, if anything is.
    #[doc(hidden)]
    pub fn problem(&self) -> Option<String> {
        let shown = |text: &str| format!("{:?}", text.chars().take(80).collect::<String>());
        if !has_scheme(&self.uri) {
            return Some(format!(
                "the `uri` is not a URI: {}; make the part of a file with `file(path)`, or pass an address such as \
                 \"https://example.com/issues/7\"",
                shown(&self.uri)
            ));
        }
        if self.uri.chars().any(|each| each.is_control() || each == ' ') {
            return Some(format!("the `uri` has blanks or control characters: {}; escape them", shown(&self.uri)));
        }
        if self.text.is_some() && self.data.is_some() {
            return Some("it has both `text` and `data`; pass one of them".to_owned());
        }
        let size = self.text.as_ref().map(String::len).or(self.data.as_deref().map(decoded_len));
        if size.is_some_and(|size| size > MAX_CONTENT) {
            return Some(
                "the content has more than 8 MiB; write it to a file in `work_dir`, and name the file in the prompt"
                    .to_owned(),
            );
        }
        if self.data.as_ref().is_some_and(|data| STANDARD.decode(data).is_err()) {
            return Some("the `data` is not base64".to_owned());
        }
        let is_type = |kind: &str| kind.contains('/') && !kind.contains(|each: char| each.is_control());
        let wrong = self.mime_type.as_deref().filter(|kind| !is_type(kind))?;
        Some(format!("the `mime_type` is not a media type such as \"text/markdown\": {}", shown(wrong)))
    }

    /// Returns the resource as text, for agents that take only text: its address, and its text in a fenced block. `None` if
    /// its content is not text.
    #[doc(hidden)]
    pub fn as_text(&self) -> Option<String> {
        if self.data.is_some() {
            return None;
        }
        let label = match self.path() {
            Some(path) => format!("File {path}"),
            None => format!("Resource {}", self.uri),
        };
        let Some(text) = &self.text else { return Some(format!("\n{label}\n")) };
        let fence = "`".repeat(longest_run(text).max(2) + 1);
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        Some(format!("\n{label}:\n{fence}\n{text}{end}{fence}\n"))
    }

    /// Returns the path of a file of this machine. `None` for another address.
    fn path(&self) -> Option<String> {
        let path = percent_decoded(self.uri.strip_prefix("file://").filter(|path| path.starts_with('/'))?)?;
        let path = if path.as_bytes().get(2) == Some(&b':') && cfg!(windows) { path[1..].to_owned() } else { path };
        // The path is one line of the prompt.
        (!path.chars().any(char::is_control)).then_some(path)
    }
}

/// Makes the part of the bindings' `resource()`.
///
/// # Errors
/// Returns `InvalidOption` for `resource`, with the problem.
pub fn resource_part(
    uri: String,
    text: Option<String>,
    data: Option<&[u8]>,
    mime_type: Option<String>,
) -> Result<ContentPart> {
    let mut part = ResourcePart { text, mime_type, ..ResourcePart::new(uri) };
    if let Some(data) = data {
        part = part.with_data(data);
    }
    match part.problem() {
        Some(problem) => Err(invalid_option("resource", problem)),
        None => Ok(part.into()),
    }
}

/// Returns whether the text begins with a scheme such as `https:`. A single letter is a drive of Windows.
pub fn has_scheme(url: &str) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| {
        scheme.len() > 1
            && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|each| each.is_ascii_alphanumeric() || "+-.".contains(each))
    })
}

/// Returns the number of bytes of a text in base64.
fn decoded_len(data: &str) -> usize {
    let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
    (data.len() / 4 * 3).saturating_sub(padding)
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|each| each != '`').map(str::len).max().unwrap_or(0)
}

/// Returns the content with resources as texts, for agents that do not have them. The error names the content that has no
/// text.
pub(crate) fn as_texts(content: &Content) -> std::result::Result<Cow<'_, Content>, &'static str> {
    let parts = match content {
        Content::Parts(parts) if parts.iter().any(|part| matches!(part, ContentPart::Resource(_))) => parts,
        _ => return Ok(Cow::Borrowed(content)),
    };
    let texts = parts.iter().map(|part| match part {
        ContentPart::Resource(part) => part.as_text().map(ContentPart::text).ok_or(BYTES),
        other => Ok(other.clone()),
    });
    texts.collect::<std::result::Result<Vec<_>, _>>().map(|parts| Cow::Owned(Content::Parts(parts)))
}

/// The content that has no text, in errors.
pub(crate) const BYTES: &str =
    "resources that are not text; send an image with `image()`, or write the bytes to a file and name it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_resource_is_fenced_with_its_path() {
        let text = |part: ResourcePart| part.as_text().expect("a text");
        assert_eq!(text(ResourcePart::new("issue:7")), "\nResource issue:7\n");
        assert_eq!(text(ResourcePart::new("file:///a%20b")), "\nFile /a b\n");
        assert_eq!(text(ResourcePart::new("file:///a").with_text("x")), "\nFile /a:\n```\nx\n```\n");
        assert_eq!(text(ResourcePart::new("file:///a").with_text("")), "\nFile /a:\n```\n```\n");
        assert_eq!(text(ResourcePart::new("a:1").with_text("````\n")), "\nResource a:1:\n`````\n````\n`````\n");
        for other in ["file:///a%0Ab", "file:///%zz", "file://server/a", "file:a"] {
            assert_eq!(text(ResourcePart::new(other)), format!("\nResource {other}\n"));
        }
        assert_eq!(ResourcePart::new("a:1").with_data("x").as_text(), None);
    }

    #[test]
    fn wrong_resource_has_a_problem() {
        let long = "x".repeat(MAX_CONTENT);
        let right = ResourcePart::new("issue:7").with_text(long.clone()).with_mime_type("text/plain");
        assert_eq!(right.problem(), None);
        assert_eq!(ResourcePart::new("mem:1").with_data(&long).problem(), None);
        let data = |data: &str| ResourcePart { data: Some(data.to_owned()), ..ResourcePart::new("x") };
        for (part, word) in [
            (ResourcePart::new("a.md"), "`file(path)`"),
            (ResourcePart::new(r"C:\a.md"), "is not a URI"),
            (ResourcePart::new(""), "is not a URI"),
            (ResourcePart::new("file:///a b"), "blanks or control"),
            (ResourcePart::new("issue:7\n"), "blanks or control"),
            (ResourcePart::new("issue:7").with_text("x").with_data("x"), "both `text` and `data`"),
            (ResourcePart::new("issue:7").with_text(long.clone() + "x"), "more than 8 MiB"),
            (ResourcePart::new("issue:7").with_data(long.clone() + "xxx"), "more than 8 MiB"),
            (data("*"), "is not a URI"),
            (ResourcePart { uri: "mem:1".to_owned(), ..data("*") }, "is not base64"),
            (ResourcePart::new("issue:7").with_mime_type("markdown"), "`mime_type`"),
        ] {
            let problem = part.problem().unwrap_or_default();
            assert!(problem.contains(word), "{word}: {problem}");
        }
    }
}
